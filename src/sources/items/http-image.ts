/** An image behind a URL. */
import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { SourceItem } from './source-item.js';
import { unavailableImage } from './source-errors.js';

/** Limits of a request. */
export interface FetchPlan {
  readonly httpTimeoutMs: number;
  readonly httpMaxBytes: number;
  readonly signal?: AbortSignal | undefined;
  /** Waiting times before each further try. */
  readonly retryAfterMs?: readonly number[];
}

interface Fetched {
  readonly bytes: Uint8Array;
  readonly stamp: FileStamp;
}

const MAX_REDIRECTS = 5;
const RETRY_AFTER_MS: readonly number[] = [250, 1000];

/** A failure that another try may mend. */
class Transient extends Error {}

/** Whether an entry of a list means a URL that has to be fetched. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/** A URL as messages name it: no user, no password, no query, which may hold a signature. */
export function labelOfUrl(text: string): string {
  if (!URL.canParse(text)) return 'a URL that cannot be read';
  const { origin, pathname } = new URL(text);
  return origin + pathname;
}

/**
 * The item of a URL: fetched when its turn comes, stamped once it was. The dataset names it by the URL without user and
 * password.
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
 * Fetches an image, with at most 5 redirects and 2 further tries after network errors and the statuses 429 and 5xx.
 *
 * @throws {@link TapirError} `IMAGE_NOT_FOUND`; the signal's reason.
 */
async function fetchImage(text: string, plan: FetchPlan): Promise<Fetched> {
  const waits = plan.retryAfterMs ?? RETRY_AFTER_MS;
  for (let failures = 0; ; failures++) {
    try {
      return await tryFetch(text, plan);
    } catch (error) {
      plan.signal?.throwIfAborted();
      const wait = error instanceof Transient ? waits[failures] : undefined;
      if (wait === undefined) {
        const tries = failures === 0 ? '' : ` (tried ${failures + 1} times)`;
        throw unavailableImage('IMAGE_NOT_FOUND', labelOfUrl(text), `${reasonOf(error)}${tries}`);
      }
      await sleep(wait, undefined, { signal: plan.signal }).catch(() => plan.signal?.throwIfAborted());
    }
  }
}

async function tryFetch(text: string, plan: FetchPlan): Promise<Fetched> {
  const timeout = AbortSignal.timeout(plan.httpTimeoutMs);
  const signal = plan.signal ? AbortSignal.any([timeout, plan.signal]) : timeout;
  try {
    const response = await follow(text, signal);
    const modified = Date.parse(response.headers.get('last-modified') ?? '');
    const bytes = await readBody(response, plan.httpMaxBytes);
    const modifiedMs = Number.isNaN(modified) ? null : modified;
    return { bytes, stamp: { sizeBytes: bytes.length, modifiedMs, sha256: null } };
  } catch (error) {
    if (timeout.aborted) throw new Transient(`no answer within ${plan.httpTimeoutMs} ms`);
    // What fetch throws of its own accord; its message says only that it failed, and may quote the URL.
    if (error instanceof TypeError) throw new Transient(networkReason(error.cause));
    throw error;
  }
}

function networkReason(cause: unknown): string {
  const { code } = (cause ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? `the server cannot be reached (${code})` : 'the connection broke';
}

/** Requests a URL and what it redirects to. */
async function follow(text: string, signal: AbortSignal): Promise<Response> {
  let url = parseUrl(text);
  const authorization = authorizationOf(url);
  const { origin } = url;
  for (let redirects = 0; ; redirects++) {
    url.username = '';
    url.password = '';
    // Another host is not told the password.
    const headers = authorization !== undefined && url.origin === origin ? { authorization } : {};
    const response = await fetch(url, { redirect: 'manual', signal, headers });
    const { status } = response;
    if (status === 200) return response;
    await response.body?.cancel();
    const location = response.headers.get('location');
    if (status >= 300 && status < 400 && location !== null) {
      if (redirects === MAX_REDIRECTS) throw new Error(`more than ${MAX_REDIRECTS} redirects`);
      url = parseUrl(location, url.href);
      continue;
    }
    const reason = `the server answers ${status}`;
    throw status === 429 || status >= 500 ? new Transient(reason) : new Error(reason);
  }
}

function parseUrl(text: string, base?: string): URL {
  if (!URL.canParse(text, base)) throw new Error('the URL cannot be read');
  const url = new URL(text, base);
  if (!/^https?:$/.test(url.protocol))
    throw new Error(`it redirects to ${url.protocol}, not to http or https`);
  return url;
}

function authorizationOf({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

async function readBody(response: Response, maxBytes: number): Promise<Uint8Array> {
  const tooLong = new Error(`it has more than ${maxBytes} bytes (httpMaxBytes)`);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  if (Number(response.headers.get('content-length')) > maxBytes) {
    await response.body?.cancel();
    throw tooLong;
  }
  // Leaving the loop cancels the body.
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLong;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
