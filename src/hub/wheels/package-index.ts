/** Lists the wheels of a project on a Python package index: its JSON (PEP 691). */
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
const MOST_PAGE_BYTES = 64 * 2 ** 20;

interface StatedFile {
  readonly filename: string;
  /** May be relative to the page. */
  readonly url: string;
  readonly hashes?: { readonly sha256?: unknown } | undefined;
  readonly size?: unknown;
  readonly yanked?: unknown;
}

/** Lists the wheels of a project; undefined if the index does not have the project. Throws `DOWNLOAD_FAILED`. */
export async function listWheels(
  { url, authorization, from }: PackageIndex,
  project: string,
  options: DownloadOptions,
): Promise<IndexedWheel[] | undefined> {
  const page = `${url}${normalizeProject(project)}/`;
  const rules = { ...downloadRules({ ...options, authorization }), headers: { accept: JSON_TYPE } };
  return retryDownload(page, options, async () => {
    try {
      const { bytes, response } = await fetchUrl(page, rules, MOST_PAGE_BYTES);
      const files = readFiles(Buffer.from(bytes));
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
    const { files } = parseJson(bytes) as { readonly files: readonly StatedFile[] };
    return files.map((file) =>
      Object.assign(file, { filename: String(file.filename), url: String(file.url) }),
    );
  } catch (error) {
    const reason = 'it does not answer with the JSON of a package index (PEP 691)';
    throw new HttpFailure('failed', `${reason}; download the wheel yourself, and pass it with --wheel`, {
      cause: error,
    });
  }
}

/** Reads a stated file; undefined for one that is not a wheel, or whose address cannot be read. */
function readFile(
  { filename, url, hashes, size, yanked }: StatedFile,
  page: string,
  index: { readonly origin: string; readonly authorization: string | undefined },
): IndexedWheel | undefined {
  const name = parseWheelName(filename);
  if (!name || !URL.canParse(url, page)) return undefined;
  const own = splitCredentials(new URL(url, page).href);
  const sha256 = hashes?.sha256;
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
