/** Lists the wheels of a project on a Python package index: its JSON (PEP 691), or its HTML page (PEP 503). */
import { HttpFailure } from '../../base/http/http-failure.js';
import { fetchUrl } from '../../base/http/http.js';
import { parseJson } from '../../base/read-json.js';
import { downloadRules, retryDownload, type DownloadOptions } from '../download-file.js';
import { splitCredentials, type PackageIndex } from './index-settings.js';
import { normalizeProject, parseWheelName, type WheelName } from './wheel-name.js';

/** A wheel on an index. */
export interface IndexedWheel {
  readonly filename: string;
  readonly name: WheelName;
  /** Without user and password. */
  readonly url: string;
  readonly authorization: string | undefined;
  /** 64 hexadecimal digits; null if the index does not state it. */
  readonly sha256: string | null;
  /** Null if the index does not state it. */
  readonly sizeBytes: number | null;
  /** Why it was withdrawn from the index, if that is known; null if it was not withdrawn. */
  readonly yanked: string | null;
}

const JSON_TYPE = 'application/vnd.pypi.simple.v1+json';
const ACCEPT = `${JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1`;
const MOST_PAGE_BYTES = 64 * 2 ** 20;

/** A file as an index states it, in JSON or in HTML. */
interface StatedFile {
  readonly filename: string;
  /** May be relative to the page. */
  readonly url: string;
  readonly sha256?: unknown;
  readonly size?: unknown;
  readonly yanked?: unknown;
}

/**
 * Lists the wheels of a project.
 *
 * @returns The wheels; undefined if the index does not have the project.
 * @throws {@link TapirError} `DOWNLOAD_FAILED`; the signal's reason.
 */
export async function listWheels(
  { url, authorization, from }: PackageIndex,
  project: string,
  options: DownloadOptions,
): Promise<IndexedWheel[] | undefined> {
  const page = `${url}${normalizeProject(project)}/`;
  const rules = { ...downloadRules({ ...options, authorization }), headers: { accept: ACCEPT } };
  return retryDownload(page, options, async () => {
    try {
      const { bytes, response } = await fetchUrl(page, rules, MOST_PAGE_BYTES);
      const isJson = response.header('content-type')?.startsWith(JSON_TYPE) === true;
      const body = Buffer.from(bytes);
      const files = isJson ? readFiles(body) : readHtml(body.toString('utf8'));
      const origin = { origin: new URL(url).origin, authorization };
      return files.flatMap((file) => readFile(file, response.url, origin) ?? []);
    } catch (error) {
      const status = error instanceof HttpFailure ? error.status : undefined;
      if (status === 404) return undefined;
      if (status === 401 || status === 403) throw refused(error, from, authorization !== undefined);
      throw error;
    }
  });
}

function refused(error: unknown, from: string, isNamed: boolean): HttpFailure {
  const advice = isNamed
    ? `check the user and password in ${from}`
    : `put user and password into ${from}, as in https://USER:PASSWORD@HOST/simple`;
  return new HttpFailure('failed', `${(error as Error).message}; ${advice}`, { cause: error });
}

function readFiles(bytes: Buffer): StatedFile[] {
  try {
    const page = parseJson(bytes) as { readonly files: readonly Record<string, unknown>[] };
    return page.files.map(({ filename, url, hashes, size, yanked }) => ({
      filename: String(filename),
      url: String(url),
      sha256: (hashes as { readonly sha256?: unknown } | undefined)?.sha256,
      size,
      yanked,
    }));
  } catch (error) {
    throw new HttpFailure('failed', 'the index answers with JSON of another form', { cause: error });
  }
}

/** Reads the links of a page. The last part of an address is the name of the file. */
function readHtml(text: string): StatedFile[] {
  // A tag of any length would use up the stack.
  const links = text.matchAll(/<a\s((?:[^<>"']|"[^"]{0,4096}"|'[^']{0,4096}'){0,4096})>/gi);
  return Array.from(links).flatMap(([, inner = '']) => {
    const attributes = new Map(
      Array.from(inner.matchAll(/([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+)))?/g)).map(
        ([, name = '', ...values]) => [name.toLowerCase(), decodeEntities(values.find(Boolean) ?? '')],
      ),
    );
    const [url = '', fragment = ''] = (attributes.get('href') ?? '').split('#');
    const filename = url.split('?')[0]!.split('/').at(-1)!.replace(/%2B/gi, '+');
    const sha256 = /(?:^|&)sha256=([^&]+)/i.exec(fragment)?.[1];
    // The attribute counts without a value too.
    const yanked = attributes.has('data-yanked') && (attributes.get('data-yanked') || true);
    return url === '' ? [] : [{ filename, url, sha256, yanked }];
  });
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,6})|#x([\da-f]{1,5})|(\w+));/gi, (whole, decimal, hex, name) => {
    if (typeof name === 'string') return ENTITIES[name.toLowerCase()] ?? whole;
    return String.fromCodePoint(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal));
  });
}

/** Reads a stated file; undefined for one that is not a wheel, or whose address cannot be read. */
function readFile(
  { filename, url, sha256, size, yanked }: StatedFile,
  page: string,
  index: { readonly origin: string; readonly authorization: string | undefined },
): IndexedWheel | undefined {
  const name = parseWheelName(filename);
  if (!name || !URL.canParse(url, page)) return undefined;
  const own = splitCredentials(new URL(url, page).href);
  const isOfIndex = new URL(own.url).origin === index.origin;
  return {
    filename,
    name,
    url: own.url,
    authorization: own.authorization ?? (isOfIndex ? index.authorization : undefined),
    sha256: typeof sha256 === 'string' && /^[\da-f]{64}$/i.test(sha256) ? sha256.toLowerCase() : null,
    sizeBytes: Number.isSafeInteger(size) && Number(size) > 0 ? Number(size) : null,
    yanked: yanked === true ? '' : typeof yanked === 'string' && yanked !== '' ? yanked : null,
  };
}
