/** An image at a URL. */
import { reasonOf } from '../../../base/errors.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import { HttpFailure, retryTransient } from '../../../base/http/http-failure.js';
import { fetchUrl } from '../../../base/http/http.js';
import { labelOfUrl } from '../../../base/printable.js';
import type { SourceItem } from './source-item.js';
import { unavailableImage } from './source-errors.js';

/** Limits of a request. */
export interface FetchPlan {
  readonly httpTimeoutMs: number;
  readonly httpMaxBytes: number;
  readonly signal?: AbortSignal | undefined;
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
