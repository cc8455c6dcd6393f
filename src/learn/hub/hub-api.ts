/** Requests to the API of the Hugging Face hub: the files of a repository, their sizes and checksums. */
import { TapirError } from '../../base/errors.js';
import { HttpFailure } from '../../base/http/http-failure.js';
import { fetchUrl, openUrl } from '../../base/http/http.js';
import { parseJson } from '../../base/read-json.js';
import { downloadRules, retryDownload, type DownloadOptions } from './download-file.js';
import { IS_GIT_HASH } from './hub-cache.js';
import type { HubSettings } from './hub-settings.js';
import type { RepositoryReference } from './repository-reference.js';

/** A file of a repository, and what the hub says about its content. */
export interface RepositoryFile {
  /** Path in the repository. */
  readonly name: string;
  /** Null if the hub does not say. */
  readonly sizeBytes: number | null;
  /** Name of its content: the SHA-256 of a large file, git's SHA-1 of another one; null if the hub does not say. */
  readonly etag: string | null;
}

/** A file whose content has a name. */
export type NamedFile = RepositoryFile & { readonly etag: string };

/** What the hub says about a repository. */
export interface RepositoryListing {
  /** The commit of the revision. */
  readonly commit: string;
  readonly licence: { readonly spdx: string; readonly url: string };
  readonly files: readonly RepositoryFile[];
}

/** The user's settings for the hub, and the options of the download. */
export interface HubAccess {
  readonly settings: HubSettings;
  readonly options: DownloadOptions;
}

const TOKEN_PLACE = 'HF_TOKEN, or the token file of "hf auth login"';
const MOST_LIST_BYTES = 64 * 2 ** 20;
const IS_ETAG = /^[0-9A-Za-z][\w.-]{0,127}$/;

/** Asks for the files of a repository at a revision. Throws `DOWNLOAD_FAILED`, also if it is not there, private or gated. */
export async function listRepository(
  reference: RepositoryReference,
  access: HubAccess,
): Promise<RepositoryListing> {
  const { repository, revision } = reference;
  const { endpoint } = access.settings;
  const url = `${endpoint}/api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const rules = { ...rulesOf(access), statuses: [200, 400, 401, 403, 404] };
  const { bytes, response } = await retryDownload(url, access.options, () =>
    fetchUrl(url, rules, MOST_LIST_BYTES),
  );
  const code = response.header('x-error-code') ?? '';
  if (response.status !== 200) throw refused(reference, access.settings, response.status, code);
  try {
    return readListing(parseJson(Buffer.from(bytes)), reference, endpoint);
  } catch (error) {
    throw failed(`${endpoint}/${repository}`, 'its answer is not a list of the repository’s files', error);
  }
}

function readListing(
  json: unknown,
  { repository }: RepositoryReference,
  endpoint: string,
): RepositoryListing {
  const { sha, siblings, cardData } = json as Record<string, unknown>;
  if (typeof sha !== 'string' || !IS_GIT_HASH.test(sha)) throw new Error('it has no commit "sha"');
  if (!Array.isArray(siblings)) throw new Error('it has no array "siblings"');
  const { license, license_name: name, license_link: link } = (cardData ?? {}) as Record<string, unknown>;
  // A model card may list several licences, and names its own as "other".
  const stated = license === 'other' && typeof name === 'string' ? name : license;
  const spdx = [stated].flat().filter((item) => typeof item === 'string' && item !== '');
  const isUrl = typeof link === 'string' && /^https?:\/\//.test(link);
  return {
    commit: sha,
    licence: { spdx: spdx.join(', ') || 'not stated', url: isUrl ? link : `${endpoint}/${repository}` },
    files: siblings.map(readSibling),
  };
}

function readSibling(value: unknown): RepositoryFile {
  const { rfilename, size, blobId, lfs } = value as Record<string, unknown>;
  if (typeof rfilename !== 'string') throw new Error('a file has no name');
  const large = (lfs ?? {}) as Record<string, unknown>;
  const etag = large['sha256'] ?? large['oid'] ?? (lfs ? undefined : blobId);
  return { name: rfilename, sizeBytes: sizeOf(large['size'] ?? size), etag: etagOf(etag) };
}

function sizeOf(value: unknown): number | null {
  const size = typeof value === 'string' ? Number(value) : value;
  return typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : null;
}

function etagOf(value: unknown): string | null {
  const etag = typeof value === 'string' ? value.replace(/^W\//, '').replaceAll('"', '') : '';
  return IS_ETAG.test(etag) ? etag : null;
}

/** The address of a file's content. */
export function addressOf(
  repository: string,
  commit: string,
  name: string,
  { endpoint }: HubSettings,
): string {
  return `${endpoint}/${repository}/resolve/${commit}/${name.split('/').map(encodeURIComponent).join('/')}`;
}

/**
 * Adds size and ETag to a file if the hub's list leaves them out, as some mirrors do. They are headers of the response that
 * redirects to the content. Throws `DOWNLOAD_FAILED`.
 */
export async function completeFile(
  file: RepositoryFile,
  reference: RepositoryReference,
  commit: string,
  access: HubAccess,
): Promise<NamedFile> {
  const { name, etag } = file;
  if (etag !== null) return { ...file, etag };
  const start = addressOf(reference.repository, commit, name, access.settings);
  const rules = { ...rulesOf(access), statuses: [200, 301, 302, 303, 307, 308] };
  let url = start;
  for (let hops = 0; hops < 5; hops++) {
    const response = await explainRefusal(reference, access.settings, () =>
      retryDownload(url, access.options, () => openUrl(url, rules)),
    );
    response.discard();
    const isContent = response.status === 200;
    const found = etagOf(response.header('x-linked-etag') ?? (isContent ? response.header('etag') : null));
    const length = response.header('x-linked-size') ?? (isContent ? response.header('content-length') : null);
    if (found !== null) return { name, etag: found, sizeBytes: sizeOf(length) };
    const next = new URL(response.header('location') ?? url, url);
    if (isContent || next.origin !== new URL(url).origin) break;
    url = next.href;
  }
  throw failed(start, 'the hub states no ETag of it');
}

/** The rules of a request to the hub: the token is for its endpoint only. */
function rulesOf({ settings, options }: HubAccess): ReturnType<typeof downloadRules> {
  return downloadRules({ ...options, authorization: authorizationOf(settings) });
}

/** The header that identifies the user; undefined if the user has no token. */
export function authorizationOf({ token }: HubSettings): string | undefined {
  return token === null ? undefined : `Bearer ${token}`;
}

/** Runs a request, and replaces the error of a refused file by one that says what to do. */
export async function explainRefusal<Result>(
  reference: RepositoryReference,
  settings: HubSettings,
  request: () => Promise<Result>,
): Promise<Result> {
  try {
    return await request();
  } catch (error) {
    const status = error instanceof TapirError && error.cause instanceof HttpFailure ? error.cause.status : 0;
    // Files are refused to a wrong token with 401, and to a right one that may not read them with 403.
    const code = status === 401 && settings.token !== null ? '' : 'GatedRepo';
    if (status === 401 || status === 403) throw refused(reference, settings, status, code, error);
    throw error;
  }
}

function refused(
  { repository, revision }: RepositoryReference,
  { endpoint, token }: HubSettings,
  status: number,
  code: string,
  cause?: unknown,
): TapirError {
  const page = `${endpoint}/${repository}`;
  if (code === 'RevisionNotFound')
    return failed(page, `${repository} has no revision "${revision}"; its page lists branches and tags`);
  if (status === 404 || status === 400) return failed(page, `there is no repository "${repository}"`);
  if (status === 401 && token !== null && code === '') {
    const reason = `the hub does not accept the token (${TOKEN_PLACE}): set HF_TOKEN to a valid one`;
    return failed(page, reason, cause);
  }
  const isGated = code === 'GatedRepo' || status === 403;
  const what = isGated
    ? `${repository} is gated or private`
    : `there is no repository "${repository}", or it is private or gated`;
  const accept = `accept its conditions at ${page}, `;
  const advice =
    token === null
      ? `${isGated ? accept : `if it is there, ${accept}`}and set HF_TOKEN to a token of your account`
      : `${accept}with the account that the token (${TOKEN_PLACE}) belongs to, and check that the token may read the repository`;
  return failed(page, `${what} (the hub answers ${status}): ${advice}`, cause);
}

function failed(url: string, reason: string, cause?: unknown): TapirError<'DOWNLOAD_FAILED'> {
  return new TapirError('DOWNLOAD_FAILED', `cannot download from ${url}: ${reason}`, {
    details: { url, reason },
    cause,
  });
}
