/** One GET: redirects followed by our rules, given up when nothing arrives. */
import { reasonOf, TapirError } from './errors.js';

const MAX_REDIRECTS = 5;
const IS_REDIRECT = new Set([301, 302, 303, 307, 308]);
const IS_TRANSIENT = new Set([408, 425, 429]);

/** What may go right the next time: the network, a server that is down or busy, a connection that was cut. */
export class TransientFailure extends Error {}

/** The error for a file that cannot be fetched. */
export function downloadFailed(url: string, reason: string, cause?: unknown): TapirError<'DOWNLOAD_FAILED'> {
  return new TapirError('DOWNLOAD_FAILED', `cannot download ${url}: ${reason}`, {
    details: { url, reason },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Ends a request when nothing has arrived for some time. */
export class StallTimer {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(stallMs: number) {
    const end = (): void => this.#controller.abort(new TransientFailure(`nothing arrived for ${stallMs} ms`));
    this.#timer = setTimeout(end, stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Something has arrived. */
  touch(): void {
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/**
 * Opens an address: status 200, 206 or 416.
 *
 * @throws {@link TransientFailure} for what may go right the next time; {@link TapirError} `DOWNLOAD_FAILED` for the rest.
 */
export async function openUrl(
  given: string,
  headers: Readonly<Record<string, string>>,
  allowHttp: boolean,
  signal: AbortSignal,
): Promise<Response> {
  let url = given;
  let isSecure = false;
  for (let redirects = 0; ; redirects++) {
    checkAddress(url, allowHttp, isSecure);
    isSecure ||= url.startsWith('https:');
    const response = await get(url, headers, signal);
    const { status } = response;
    if (status === 200 || status === 206 || status === 416) return response;
    // A body that nobody reads would keep the connection.
    await response.body?.cancel().catch(() => undefined);
    const said = `the server answers ${status} ${response.statusText}`.trim();
    if (status >= 500 || IS_TRANSIENT.has(status)) throw new TransientFailure(said);
    const target = response.headers.get('location');
    if (!IS_REDIRECT.has(status) || target === null) throw downloadFailed(url, said);
    if (redirects === MAX_REDIRECTS)
      throw downloadFailed(given, `it is redirected more than ${MAX_REDIRECTS} times`);
    if (!URL.canParse(target, url)) throw downloadFailed(url, `it is redirected to no address: "${target}"`);
    url = new URL(target, url).href;
  }
}

/** Lets pass https; http within this machine, unless it was https before; and http elsewhere if that is allowed. */
function checkAddress(url: string, allowHttp: boolean, wasSecure: boolean): void {
  const { protocol, hostname, username, password } = new URL(url);
  if (username !== '' || password !== '') throw downloadFailed(hostname, 'its address holds a password');
  if (protocol === 'https:') return;
  if (protocol !== 'http:') throw downloadFailed(url, `${protocol} is neither https: nor http:`);
  if (allowHttp || (isLoopback(hostname) && !wasSecure)) return;
  throw downloadFailed(url, 'it is not encrypted (http); --allow-http fetches it nevertheless');
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

async function get(
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await fetch(url, { headers, redirect: 'manual', signal });
  } catch (error) {
    throw asTransient(error, signal);
  }
}

/** What `fetch` or its body threw: the reason of the signal if that fired, else a failure of the network. */
export function asTransient(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  // Of "fetch failed" and "terminated", the cause says why.
  const cause = error instanceof Error ? error.cause : undefined;
  return new TransientFailure(reasonOf(cause ?? error), { cause: error });
}
