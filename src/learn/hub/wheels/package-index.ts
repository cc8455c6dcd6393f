/** Finds a file on a Python package index, or on a mirror of it, by its name: where it is and its size (PEP 691). */
import { invalidOption } from '../../../base/checks.js';
import { HttpFailure } from '../../../base/http/http-failure.js';
import { authorizationOf } from '../../../base/http/authorization.js';
import { fetchUrl, isHttpUrl } from '../../../base/http/http.js';
import { labelOfUrl } from '../../../base/printable.js';
import { parseJson } from '../../../base/read-json.js';
import { downloadRules, retryDownload, type Authorized, type DownloadOptions } from '../download-file.js';

/** A file of an index. The addresses are without user and password. */
export interface RemoteFile extends Authorized {
  readonly url: string;
  readonly index: string;
}

const DEFAULT_INDEX = 'https://pypi.org/simple/';
const JSON_TYPE = 'application/vnd.pypi.simple.v1+json';
const MOST_PAGE_BYTES = 64 * 2 ** 20;
const ADVICE = 'download the wheel yourself, and pass it with --wheel';

/**
 * Asks an index for a file of a project. Throws `DOWNLOAD_FAILED`; `OPTION_INVALID` for an address that cannot be read.
 *
 * @param indexUrl - Undefined for that of `PIP_INDEX_URL`, else the public one.
 */
export async function findOnIndex(
  project: string,
  filename: string,
  indexUrl: string | undefined,
  options: DownloadOptions,
): Promise<RemoteFile & { readonly sizeBytes: number | null }> {
  const { url: index, authorization } = readIndex(
    indexUrl ?? (process.env['PIP_INDEX_URL']?.trim() || DEFAULT_INDEX),
  );
  const page = `${index}${project}/`;
  const rules = { ...downloadRules({ ...options, authorization }), headers: { accept: JSON_TYPE } };
  return retryDownload(page, options, async () => {
    const { bytes, response } = await fetchUrl(page, rules, MOST_PAGE_BYTES).catch((error: unknown) => {
      throw refused(error, authorization !== undefined);
    });
    const file = readFiles(Buffer.from(bytes)).find((one) => one?.filename === filename);
    if (typeof file?.url !== 'string' || !URL.canParse(file.url, response.url))
      throw new HttpFailure('failed', `${labelOfUrl(index)} does not have ${filename}; ${ADVICE}`);
    const own = splitCredentials(new URL(file.url, response.url).href);
    const isOfIndex = new URL(own.url).origin === new URL(index).origin;
    const { size } = file;
    return {
      url: own.url,
      index: labelOfUrl(index),
      authorization: own.authorization ?? (isOfIndex ? authorization : undefined),
      sizeBytes: Number.isSafeInteger(size) && Number(size) > 0 ? Number(size) : null,
    };
  });
}

function readIndex(text: string): ReturnType<typeof splitCredentials> {
  try {
    if (!isHttpUrl(text)) throw new Error('not an HTTP address');
    const { url, authorization } = splitCredentials(text);
    return { url: url.replace(/\/*$/, '/'), authorization };
  } catch {
    // The value may contain a password.
    const expected = 'the address of a package index, such as https://index.example/simple';
    throw invalidOption('indexUrl', `${expected} (PIP_INDEX_URL gives it, too)`, '(hidden)');
  }
}

/** Splits an address into the address without user and password, and the header that carries them. Throws if it cannot be read. */
function splitCredentials(text: string): {
  readonly url: string;
  readonly authorization: string | undefined;
} {
  const url = new URL(text);
  const { authorization } = authorizationOf(url);
  url.username = '';
  url.password = '';
  return { url: url.href, authorization };
}

function refused(error: unknown, isNamed: boolean): unknown {
  const status = error instanceof HttpFailure ? error.status : undefined;
  if (status !== 401 && status !== 403) return error;
  const advice = isNamed
    ? 'check the user and password of the index'
    : 'put user and password into its address, as in https://USER:PASSWORD@HOST/simple';
  return new HttpFailure('failed', `${(error as Error).message}; ${advice}`, { cause: error });
}

interface StatedFile {
  readonly filename?: unknown;
  /** May be relative to the page. */
  readonly url?: unknown;
  readonly size?: unknown;
}

function readFiles(bytes: Buffer): readonly (StatedFile | null)[] {
  try {
    const { files } = parseJson(bytes) as { readonly files: readonly (StatedFile | null)[] };
    if (Array.isArray(files)) return files;
    throw new Error('it has no list of files');
  } catch (error) {
    const reason = `it does not answer with the JSON of a package index (PEP 691); ${ADVICE}`;
    throw new HttpFailure('failed', reason, { cause: error });
  }
}
