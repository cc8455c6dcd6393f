/** An entry of a list: a path or a URL. */
import { isAbsolute, sep } from 'node:path';
import { invalidOption } from '../../../base/checks.js';
import { fetchUrl, isHttpUrl } from '../../../base/http/http.js';
import { labelOfUrl } from '../../../base/printable.js';
import type { SourceItem } from './source-item.js';
import type { SourceOptions } from './source-options.js';
import { reasonOf } from '../../../base/errors.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import { HttpFailure, retryTransient } from '../../../base/http/http-failure.js';
import { unavailableImage } from '../../images/file/image-errors.js';

/** How entries are read. */
export interface EntryPlan extends SourceOptions {
  /** Folder of relative paths; empty for the working directory. */
  readonly base: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Makes an item of an entry. The item is named as the entry is written. A missing file shows up later, when it is read.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a URL without `allowHttp`.
 */
export function itemOfEntry(text: string, plan: EntryPlan): SourceItem {
  if (!isHttpUrl(text)) return { path: text, image: place(text, plan.base) };
  if (plan.allowHttp) return itemOfUrl(text, plan);
  const expected = `true (on the command line: --allow-http) for a source that lists URLs, such as ${labelOfUrl(text)}`;
  throw invalidOption('allowHttp', expected, false);
}

/** Does not normalise the path: `a/../b` and `b` are different files if `a` is a link. */
function place(path: string, base: string): string {
  return base === '' || isAbsolute(path) ? path : base + sep + path;
}

/** Limits of a request. */
export interface FetchPlan extends Pick<EntryPlan, 'httpTimeoutMs' | 'httpMaxBytes' | 'signal'> {
  /** The pause before each further attempt. */
  readonly retryAfterMs?: readonly number[];
}

const RETRY_AFTER_MS: readonly number[] = [250, 1000];

/**
 * Makes the item of a URL. The image is fetched when it is read, and stamped then. The dataset names it by the URL without user
 * and password.
 */
export function itemOfUrl(text: string, plan: FetchPlan): SourceItem {
  const item: { path: string; image: () => Promise<Uint8Array>; stamp?: FileStamp } = {
    path: text.replace(/^(https?:\/\/)[^/?#]*@/i, '$1'),
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
  { httpTimeoutMs, httpMaxBytes, signal, retryAfterMs }: FetchPlan,
): Promise<{ readonly bytes: Uint8Array; readonly stamp: FileStamp }> {
  const rules = {
    http: 'all',
    allowPrivate: true,
    credentials: 'send',
    timeout: { ms: httpTimeoutMs, of: 'whole' },
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
    throw unavailableImage('IMAGE_NOT_FOUND', labelOfUrl(text), reasonOf(error) + advice);
  }
}
