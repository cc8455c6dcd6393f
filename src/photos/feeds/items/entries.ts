/** An entry of a list: a path or a URL. */
import { isAbsolute, sep } from 'node:path';
import { invalidOption } from '../../../base/checks.js';
import { fetchUrl, isHttpUrl } from '../../../base/http/http.js';
import type { SourceItem } from './source-item.js';
import type { SourceOptions } from './source-options.js';
import { reasonOf } from '../../../base/errors.js';
import { nameOfUrl } from '../../../base/url-names.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import { HttpFailure, retryTransient } from '../../../base/http/http-failure.js';
import { unavailableImage } from '../../images/file/image-errors.js';

/** How entries are read. */
export interface EntryPlan extends SourceOptions {
  /** Folder of relative paths; empty for the working directory. */
  readonly base: string;
  readonly signal?: AbortSignal | undefined;
  /** Whether a URL without `allowHttp` is an image that cannot be read, and not the end of the run. */
  readonly isUrlRow?: true;
}

/**
 * Makes an item of an entry, named by the entry ({@link nameOfUrl}). A missing file shows up later, when it is read.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a URL without `allowHttp`.
 */
export function itemOfEntry(text: string, plan: EntryPlan): SourceItem {
  const path = nameOfEntry(text, plan);
  const name = nameOfUrl(text);
  if (!isHttpUrl(text)) {
    if (name === text) return { path, image: place(text, plan.base) };
    // As a path it would be named by the system, with its credentials.
    const reason = 'it is a URL, and only those of http and https are fetched';
    return { path, image: '', error: unavailableImage('IMAGE_NOT_FOUND', name, reason) };
  }
  if (plan.allowHttp) return itemOfUrl(text, plan);
  if (plan.isUrlRow) {
    const advice = 'allow it with --allow-http (in Python: flags=["--allow-http"])';
    const error = unavailableImage('IMAGE_DENIED', name, 'it is a URL, which is not fetched', { advice });
    return { path, image: '', error };
  }
  const expected = `true for a source that lists URLs, such as ${name}`;
  throw invalidOption('allowHttp', expected, false);
}

function nameOfEntry(text: string, { name }: Partial<Pick<EntryPlan, 'name'>>): string {
  return nameOfUrl(text, typeof name === 'string' ? name : 'auto');
}

/** Does not normalise the path: `a/../b` and `b` are different files if `a` is a link. */
function place(path: string, base: string): string {
  return base === '' || isAbsolute(path) ? path : base + sep + path;
}

/** Limits of a request. */
export interface FetchPlan
  extends
    Pick<EntryPlan, 'httpTimeoutMs' | 'httpMaxBytes' | 'signal'>,
    Partial<Pick<EntryPlan, 'headers' | 'name'>> {
  /** The pause before each further attempt. */
  readonly retryAfterMs?: readonly number[];
}

const RETRY_AFTER_MS: readonly number[] = [250, 1000];

/** Makes the item of a URL. The image is fetched when it is read, and stamped then. */
export function itemOfUrl(text: string, plan: FetchPlan): SourceItem {
  const item: { path: string; url: string; image: () => Promise<Uint8Array>; stamp?: FileStamp } = {
    path: nameOfEntry(text, plan),
    url: text,
    image: async () => {
      const { bytes, stamp } = await fetchImage(text, plan);
      item.stamp = stamp;
      return bytes;
    },
  };
  return item;
}

/**
 * Fetches an image: with at most 5 redirects, and at most 2 more attempts after transient failures.
 *
 * @throws {@link TapirError} `IMAGE_NOT_FOUND`; the signal's reason.
 */
async function fetchImage(
  text: string,
  { httpTimeoutMs, httpMaxBytes, headers, signal, retryAfterMs }: FetchPlan,
): Promise<{ readonly bytes: Uint8Array; readonly stamp: FileStamp }> {
  const rules = {
    http: 'all',
    allowPrivate: true,
    credentials: 'send',
    timeout: { ms: httpTimeoutMs, of: 'whole' },
    originHeaders: headers,
    signal,
  } as const;
  try {
    const { bytes, response } = await retryTransient(retryAfterMs ?? RETRY_AFTER_MS, signal, () =>
      fetchUrl(text, rules, httpMaxBytes),
    );
    const modified = Date.parse(response.header('last-modified') ?? '');
    const modifiedMs = Number.isNaN(modified) ? null : modified;
    return { bytes, stamp: { sizeBytes: bytes.length, modifiedMs, sha256: null } };
  } catch (error) {
    if (!(error instanceof HttpFailure)) throw error;
    const advice = error.kind === 'too-large' ? ' (httpMaxBytes)' : '';
    throw unavailableImage('IMAGE_NOT_FOUND', nameOfUrl(text), reasonOf(error) + advice);
  }
}
