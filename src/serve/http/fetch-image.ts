/** Fetches images from the URLs in a request: over HTTP only, from public addresses, within limits of time and size. */
import { reasonOf } from '../../base/errors.js';
import { HttpFailure } from '../../base/http/http-failure.js';
import { fetchUrl } from '../../base/http/http.js';
import { HttpError } from './http-error.js';

/** What may be fetched. */
export interface FetchLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Counts the bytes of all URLs of a request together; throws when they are too many. */
  readonly count: (bytes: number) => void;
  /** Whether private, local and reserved addresses are fetched too. */
  readonly allowPrivate: boolean;
}

/**
 * Fetches a URL, and follows its redirects.
 *
 * @param signal - Ends the request; the call then rejects with the signal's reason.
 * @throws {@link HttpError} `URL_REFUSED` if the URL must not be fetched, `URL_FAILED` if it cannot be.
 */
export async function fetchImage(
  text: string,
  { timeoutMs, maxBytes, count, allowPrivate }: FetchLimits,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const rules = {
    http: 'all',
    allowPrivate,
    credentials: 'refuse',
    timeout: { ms: timeoutMs, of: 'whole' },
    headers: { accept: 'image/*' },
    signal,
  } as const;
  try {
    return (await fetchUrl(text, rules, maxBytes, count)).bytes;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof HttpFailure)) throw error;
    const reason = reasonOf(error);
    throw error.kind === 'refused'
      ? new HttpError('URL_REFUSED', `the URL is refused: ${reason}`)
      : new HttpError('URL_FAILED', `the URL could not be fetched: ${reason}`, { cause: error });
  }
}
