/** The connections of the HTTP client: through the proxy of the environment, or to public addresses only. */
import { lookup as resolveName, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { Dispatcher } from 'undici';
import { HttpFailure } from './http-failure.js';
import { isPublicAddress } from './public-address.js';

const PROXY_VARIABLES = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY'] as const;
let proxied: { readonly settings: string; readonly agent: Dispatcher } | undefined;
let publicOnly: Dispatcher | undefined;

/**
 * Returns connections through the proxy that the environment names (`HTTP_PROXY`, `HTTPS_PROXY`, except for `NO_PROXY`), or
 * direct ones if it names no proxy.
 */
export async function proxyAgent(): Promise<Dispatcher> {
  const settings = JSON.stringify(PROXY_VARIABLES.map((name) => process.env[name]));
  if (proxied?.settings === settings) return proxied.agent;
  // undici takes long to load, and most programs never need it.
  const { EnvHttpProxyAgent } = await import('undici');
  try {
    // Many proxies tunnel to port 443 only: plain HTTP is forwarded instead.
    proxied = { settings, agent: new EnvHttpProxyAgent({ proxyTunnel: false }) };
  } catch (error) {
    // The variable's value may contain a password.
    const reason = 'HTTP_PROXY or HTTPS_PROXY is not the URL of a proxy, such as http://proxy.example:3128';
    throw new HttpFailure('failed', reason, { cause: error });
  }
  return proxied.agent;
}

/**
 * Returns connections to public addresses only. They are direct: a proxy would resolve names by itself, and could reach private addresses.
 * The address is checked when the connection is made: a name that was checked earlier could resolve to another one by then (DNS rebinding).
 */
export async function publicAgent(): Promise<Dispatcher> {
  if (publicOnly) return publicOnly;
  const { Agent, buildConnector } = await import('undici');
  const connect = buildConnector({ lookup: lookupPublic });
  publicOnly = new Agent({
    connect(options, callback) {
      // An address in the URL is not looked up.
      if (isIP(options.hostname) === 0 || isPublicAddress(options.hostname)) connect(options, callback);
      else callback(notPublic(), null);
    },
  });
  return publicOnly;
}

function notPublic(): HttpFailure {
  return new HttpFailure('refused', 'its address is private, local or reserved');
}

const lookupPublic: LookupFunction = (hostname, options, callback) => {
  resolveName(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    if (error) callback(error, []);
    else if (!addresses.every(({ address }) => isPublicAddress(address))) callback(notPublic(), []);
    else if (options.all === true) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  });
};
