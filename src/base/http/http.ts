/** The HTTP client: GET requests with limits on addresses, redirects, bytes and time. */
import type { IncomingMessage } from 'node:http';
import { authorizationOf } from './authorization.js';
import { HttpFailure, type FailureKind } from './http-failure.js';
import { RequestClock, type TimeLimit } from './request-clock.js';
import type { RequestHeaders } from './request-headers.js';

/** What a request may do. */
export interface HttpRules {
  /** Whether unencrypted addresses are fetched: all, or only those of this machine (and not after an encrypted one). */
  readonly http: 'all' | 'loopback';
  /** Whether private, local and reserved addresses are fetched. Without them, no proxy is used. */
  readonly allowPrivate: boolean;
  /** What happens to a user and password in the address: they are refused, or sent to that server only. */
  readonly credentials: 'refuse' | 'send';
  /** The `Authorization` header for the origin of the address; other origins that it redirects to do not get it. */
  readonly authorization?: string | undefined;
  /** More headers that only that origin gets, and that replace others of their name. */
  readonly originHeaders?: RequestHeaders | undefined;
  readonly timeout: TimeLimit;
  readonly headers?: Readonly<Record<string, string>>;
  /** The statuses that are answers. @default [200] */
  readonly statuses?: readonly number[];
  readonly signal?: AbortSignal | undefined;
}

/** An answer. Read its body to the end, or discard it. */
export interface HttpResponse {
  readonly status: number;
  /** The address that answered, after redirects. */
  readonly url: string;
  /** The body as it arrives; throws {@link HttpFailure}, or the signal's reason. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Returns a header by its name in lower case; null if the answer has no such header. */
  header(name: string): string | null;
  /** Gives up the body, and the connection with it. */
  discard(): void;
}

const MAX_REDIRECTS = 5;
const IS_REDIRECT = new Set([301, 302, 303, 307, 308]);
/** Statuses under 500 after which another attempt may succeed. */
const IS_TRANSIENT = new Set([408, 425, 429]);

/** Whether a text is an HTTP address. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/** Requests an address, and follows its redirects as far as the rules allow. Throws {@link HttpFailure}; the signal's reason. */
export async function openUrl(text: string, rules: HttpRules): Promise<HttpResponse> {
  const clock = new RequestClock(rules.timeout, rules.signal);
  try {
    return await follow(text, rules, clock);
  } catch (error) {
    clock.stop();
    throw clock.explain(error);
  }
}

/** Fetches the content of an address, `maxBytes` at most. What `onBytes` throws ends the request. Throws {@link HttpFailure}; the signal's reason. */
export async function fetchUrl(
  text: string,
  rules: HttpRules,
  maxBytes: number,
  onBytes?: (bytes: number) => void,
): Promise<{ readonly bytes: Uint8Array; readonly response: HttpResponse }> {
  const response = await openUrl(text, rules);
  const tooLarge = new HttpFailure('too-large', `it has more than ${maxBytes} bytes`);
  if (Number(response.header('content-length')) > maxBytes) {
    response.discard();
    throw tooLarge;
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body) {
    onBytes?.(chunk.byteLength);
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge;
    chunks.push(chunk);
  }
  return { bytes: Buffer.concat(chunks, size), response };
}

async function follow(text: string, rules: HttpRules, clock: RequestClock): Promise<HttpResponse> {
  let url = readUrl(text, undefined, rules);
  const { origin } = url;
  const authorization = rules.authorization ? { authorization: rules.authorization } : authorizationOf(url);
  for (let redirects = 0; ; redirects++) {
    const headers = url.origin === origin ? { ...authorization, ...rules.originHeaders } : {};
    // The modules take long to load, and most programs never need them.
    const { sendGet } = await import('./http-agents.js');
    const answer = await sendGet({
      url,
      // Sizes and ranges are those of the content itself, so it must not arrive compressed.
      headers: { 'user-agent': 'onnx-tapir', 'accept-encoding': 'identity', ...rules.headers, ...headers },
      allowPrivate: rules.allowPrivate,
      signal: clock.signal,
    });
    const { statusCode = 0, statusMessage = '' } = answer;
    if ((rules.statuses ?? [200]).includes(statusCode)) return read(answer, url, clock);
    answer.on('error', () => undefined).destroy();
    const { location } = answer.headers;
    if (!IS_REDIRECT.has(statusCode) || typeof location !== 'string') {
      const isTransient = statusCode >= 500 || IS_TRANSIENT.has(statusCode);
      const said = `the server answers ${statusCode} ${statusMessage}`.trim();
      throw new HttpFailure(isTransient ? 'transient' : 'failed', said, {
        status: statusCode,
        retryAfterMs: retryAfterOf(answer.headers['retry-after']),
      });
    }
    if (redirects === MAX_REDIRECTS)
      throw new HttpFailure('failed', `it redirects more than ${MAX_REDIRECTS} times`);
    url = readUrl(location, url, rules);
  }
}

/** Reads `Retry-After`: seconds or a date. */
function retryAfterOf(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return ms > 0 ? ms : undefined;
}

/** Reads an address, relative to the one that redirects to it, and checks it. Its host is checked when it is connected to. */
function readUrl(text: string, from: URL | undefined, { http, credentials }: HttpRules): URL {
  const refuse = (reason: string, kind: FailureKind = 'refused'): HttpFailure =>
    new HttpFailure(kind, from ? `it redirects to another address, and ${reason}` : reason);
  if (!URL.canParse(text, from?.href)) throw refuse('that address cannot be read');
  const url = new URL(text, from?.href);
  const { protocol, hostname, username, password } = url;
  if (protocol !== 'https:' && protocol !== 'http:') throw refuse(`${protocol} is neither https: nor http:`);
  if (credentials === 'refuse' && (username !== '' || password !== ''))
    throw refuse('that address contains a user name or password');
  const isAllowed = protocol === 'https:' || http === 'all';
  if (!isAllowed && (from?.protocol === 'https:' || !isLoopback(hostname)))
    throw refuse('that address is not encrypted (http:)', 'unencrypted');
  return url;
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

function read(body: IncomingMessage, { href }: URL, clock: RequestClock): HttpResponse {
  const { statusCode = 0, headers } = body;
  const header = (name: string): string | null => {
    const value = headers[name];
    return (Array.isArray(value) ? value[0] : value) ?? null;
  };
  const discard = (): void => {
    clock.stop();
    body.on('error', () => undefined).destroy();
  };
  const encoding = header('content-encoding') ?? 'identity';
  if (encoding !== 'identity') {
    discard();
    throw new HttpFailure('failed', `its content arrives compressed (${encoding})`);
  }
  return { status: statusCode, url: href, header, discard, body: readBody(body, clock, discard) };
}

async function* readBody(
  body: AsyncIterable<Uint8Array>,
  clock: RequestClock,
  discard: () => void,
): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await chunks.next().catch((error: unknown) => {
        throw clock.explain(error);
      });
      if (done === true) return;
      clock.touch(value.byteLength);
      yield value;
    }
  } finally {
    discard();
  }
}
