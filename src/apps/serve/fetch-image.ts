/** Images from URLs that a caller names: nothing but HTTP, to public addresses, so long and so much. */
import { lookup as resolveName, type LookupAddress } from 'node:dns';
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { isIP, type LookupFunction } from 'node:net';
import { reasonOf } from '../../base/errors.js';
import { HttpError } from './http-error.js';
import { isPublicAddress } from './private-address.js';

/** What may be fetched. */
export interface FetchLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Counts what arrives, for all URLs of a request together; throws when that is too much. */
  readonly count: (bytes: number) => void;
  /** Private, local and reserved addresses too. */
  readonly allowPrivate: boolean;
}

const MAX_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const HEADERS = { accept: 'image/*', 'accept-encoding': 'identity', 'user-agent': 'onnx-tapir' };

/**
 * Fetches a URL with GET, following redirects.
 *
 * @param signal - Gives up; the call rejects with its reason.
 * @throws {@link HttpError} `URL_REFUSED` for one that must not be fetched, `URL_FAILED` for one that could not be.
 */
export async function fetchImage(
  text: string,
  limits: FetchLimits,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const timeout = AbortSignal.timeout(limits.timeoutMs);
  const stop = AbortSignal.any([signal, timeout]);
  try {
    let url = readUrl(text, limits);
    for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
      const response = await get(url, limits, stop);
      if (!REDIRECTS.has(response.statusCode ?? 0)) return await readBody(response, limits);
      response.destroy();
      url = readUrl(response.headers.location, limits, url);
    }
    throw new Error(`it redirects more than ${MAX_REDIRECTS} times`);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof HttpError) throw error;
    const reason = timeout.aborted ? `it took longer than ${limits.timeoutMs} ms` : reasonOf(error);
    throw new HttpError('URL_FAILED', `the URL could not be fetched: ${reason}`, { cause: error });
  }
}

function refused(reason: string): HttpError {
  return new HttpError('URL_REFUSED', `the URL is refused: ${reason}`);
}

const PRIVATE = 'its address is private, local or reserved';

/** A URL, relative to the one that redirected to it. Host names in it are looked at when they are resolved. */
function readUrl(text: string | undefined, { allowPrivate }: FetchLimits, base?: URL): URL {
  if (text === undefined || !URL.canParse(text, base?.href)) throw refused('it is none');
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused('only http and https are fetched');
  if (url.username !== '' || url.password !== '') throw refused('it holds a user name or password');
  // Addresses are connected to without being resolved.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (!allowPrivate && isIP(host) !== 0 && !isPublicAddress(host)) throw refused(PRIVATE);
  return url;
}

/**
 * Resolves a name at the moment of connecting, for that very connection: a name that was looked at before could have
 * another address by now.
 */
const lookupPublic: LookupFunction = (hostname, options, callback) => {
  resolveName(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    if (error) callback(error, []);
    else if (!addresses.every(({ address }) => isPublicAddress(address))) callback(refused(PRIVATE), []);
    else if (options.all === true) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  });
};

async function get(url: URL, { allowPrivate }: FetchLimits, signal: AbortSignal): Promise<IncomingMessage> {
  const { request } = await (url.protocol === 'http:' ? import('node:http') : import('node:https'));
  const options: RequestOptions = {
    signal,
    headers: HEADERS,
    // A connection of its own, that nobody has made for another purpose.
    agent: false,
    ...(allowPrivate ? {} : { lookup: lookupPublic }),
  };
  return new Promise((resolve, reject) => {
    const sent: ClientRequest = request(url, options, resolve);
    sent.on('error', reject);
    sent.end();
  });
}

async function readBody(response: IncomingMessage, { maxBytes, count }: FetchLimits): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    if (response.statusCode !== 200)
      throw new Error(`its server answered with status ${response.statusCode}`);
    const encoding = response.headers['content-encoding'] ?? 'identity';
    if (encoding !== 'identity') throw new Error(`its content is encoded (${encoding})`);
    if (Number(response.headers['content-length'] ?? 0) > maxBytes)
      throw new Error(`it has more than ${maxBytes} bytes`);
    for await (const chunk of response as AsyncIterable<Buffer>) {
      count(chunk.length);
      size += chunk.length;
      chunks.push(chunk);
    }
  } finally {
    response.destroy();
  }
  return Buffer.concat(chunks, size);
}
