/** The connections of the HTTP client: through the proxy of the environment, or to public addresses only. Loaded with the first request. */
import { lookup as resolveName, type LookupAddress } from 'node:dns';
import { Agent, request as requestPlain, type IncomingMessage, type RequestOptions } from 'node:http';
import { Agent as SecureAgent, request as requestSecure } from 'node:https';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { authorizationOf } from './authorization.js';
import { HttpFailure } from './http-failure.js';
import { isPublicAddress } from './public-address.js';

type Headers = Readonly<Record<string, string>>;

/** A GET request. */
export interface Get {
  readonly url: URL;
  readonly headers: Headers;
  readonly allowPrivate: boolean;
  readonly signal: AbortSignal;
}

const KEPT = { keepAlive: true } as const;
const direct = { plain: new Agent(KEPT), secure: new SecureAgent(KEPT) };
// The address is checked when the connection is made: a name that was checked earlier could resolve to another one by then (DNS rebinding).
const checked = { ...KEPT, lookup: lookupPublic as LookupFunction };
const publicOnly = { plain: new Agent(checked), secure: new SecureAgent(checked) };

/**
 * Sends a request, and returns the answer as soon as its headers are there.
 *
 * @remarks Through the proxy that the environment names (`HTTP_PROXY`, `HTTPS_PROXY`, except for `NO_PROXY`). Where only public addresses
 * are allowed, directly: a proxy would resolve names by itself, and could reach private addresses.
 */
export async function sendGet(get: Get): Promise<IncomingMessage> {
  const { url, allowPrivate } = get;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // An address in the URL is not looked up.
  if (!allowPrivate && isIP(host) !== 0 && !isPublicAddress(host)) throw notPublic();
  const proxy = allowPrivate ? proxyFor(url) : undefined;
  const agents = allowPrivate ? direct : publicOnly;
  if (url.protocol === 'https:') return send(get, { agent: proxy ? tunnelTo(proxy) : agents.secure });
  if (!proxy) return send(get, { agent: agents.plain });
  // Many proxies tunnel to port 443 only: plain HTTP is forwarded instead.
  const headers = { host: url.host, ...get.headers, ...proxyHeaders(proxy) };
  const { secure, plain } = direct;
  const agent = proxy.protocol === 'https:' ? secure : plain;
  return send({ ...get, url: proxy, headers }, { agent, path: url.origin + url.pathname + url.search });
}

async function send(get: Get, options: RequestOptions): Promise<IncomingMessage> {
  const { url, headers, signal } = get;
  const make = url.protocol === 'https:' ? requestSecure : requestPlain;
  let isReused = false;
  try {
    return await new Promise((resolve, reject) => {
      const request = make(url, { ...options, auth: '', headers, signal });
      request.on('response', resolve).on('error', (error) => {
        isReused = request.reusedSocket;
        reject(error);
      });
      request.end();
    });
  } catch (error) {
    // The server has closed a connection that was kept open, at the moment of the request: a new one replaces it.
    const isStale = isReused && (error as NodeJS.ErrnoException).code === 'ECONNRESET';
    if (!isStale || signal.aborted) throw error;
    return send(get, options);
  }
}

/** The proxy of the environment for an address; undefined if it is fetched directly. */
function proxyFor({ protocol, hostname, port }: URL): URL | undefined {
  const { env } = process;
  const plain = env['http_proxy'] ?? env['HTTP_PROXY'];
  const given = protocol === 'https:' ? (env['https_proxy'] ?? env['HTTPS_PROXY'] ?? plain) : plain;
  if (given === undefined || given === '' || isExcepted(hostname, port || DEFAULT_PORTS[protocol]!))
    return undefined;
  const proxy = URL.canParse(given) ? new URL(given) : undefined;
  if (proxy?.protocol === 'http:' || proxy?.protocol === 'https:') return proxy;
  // The variable's value may contain a password.
  const reason = 'HTTP_PROXY or HTTPS_PROXY is not the URL of a proxy, such as http://proxy.example:3128';
  throw new HttpFailure('failed', reason);
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** Whether `NO_PROXY` names a host, a domain above it, or all; with a port, for that one only. */
function isExcepted(host: string, port: string): boolean {
  const entries = (process.env['no_proxy'] ?? process.env['NO_PROXY'] ?? '').split(/[,\s]+/);
  return entries.some((entry) => {
    const [, name = entry, only = port] = /^(.+):(\d+)$/.exec(entry) ?? [];
    const domain = name.replace(/^\*?\./, '').toLowerCase();
    return entry === '*' || (only === port && domain !== '' && `.${host}`.endsWith(`.${domain}`));
  });
}

function proxyHeaders(proxy: URL): Headers {
  const { authorization } = authorizationOf(proxy);
  return authorization === undefined ? {} : { 'proxy-authorization': authorization };
}

const tunnels = new Map<string, TunnelAgent>();

function tunnelTo(proxy: URL): TunnelAgent {
  const known = tunnels.get(proxy.href) ?? new TunnelAgent(proxy);
  tunnels.set(proxy.href, known);
  return known;
}

/** Encrypted connections that a proxy passes through. */
class TunnelAgent extends SecureAgent {
  readonly #proxy: URL;

  constructor(proxy: URL) {
    super(KEPT);
    this.#proxy = proxy;
  }

  override createConnection(
    options: RequestOptions,
    callback: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const { host, port, signal } = options;
    const target = `${host}:${port}`;
    const make = this.#proxy.protocol === 'https:' ? requestSecure : requestPlain;
    const headers = { host: target, ...proxyHeaders(this.#proxy) };
    const tunnel = { method: 'CONNECT', path: target, headers, agent: false, auth: '', signal } as const;
    const fail = (error: Error): void => callback(error, undefined as never);
    make(this.#proxy, tunnel)
      .on('connect', ({ statusCode }: IncomingMessage, socket: Socket) => {
        if (statusCode === 200) callback(null, super.createConnection({ ...options, socket } as never)!);
        else {
          socket.destroy();
          fail(new HttpFailure('transient', `the proxy answers ${statusCode}`));
        }
      })
      .on('response', (answer) => answer.destroy())
      .on('error', fail)
      .end();
  }
}

function notPublic(): HttpFailure {
  return new HttpFailure('refused', 'its address is private, local or reserved');
}

function lookupPublic(...[hostname, options, callback]: Parameters<LookupFunction>): void {
  resolveName(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    if (error) callback(error, []);
    else if (!addresses.every(({ address }) => isPublicAddress(address))) callback(notPublic(), []);
    else if (options.all === true) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  });
}
