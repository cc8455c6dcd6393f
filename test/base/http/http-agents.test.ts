/** What the HTTP client connects to: a proxy, and public addresses only. Against servers in this process. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { connect, createServer as createSocketServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { HttpFailure } from '../../../src/base/http/http-failure.js';
import { fetchUrl, type HttpRules } from '../../../src/base/http/http.js';
import { isPublicAddress } from '../../../src/base/http/public-address.js';
import { startServer } from '../../support/file-server.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runNode } from '../../support/run.js';
import { failureOf } from '../../support/failure.js';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

const RULES: HttpRules = {
  http: 'all',
  allowPrivate: true,
  credentials: 'refuse',
  timeout: { ms: 10_000, of: 'whole' },
};

const textOf = async (url: string, rules: Partial<HttpRules> = {}): Promise<string> =>
  String((await fetchUrl(url, { ...RULES, ...rules }, 1000)).bytes);

async function listen(
  server: Server | ReturnType<typeof createSecureServer | typeof createSocketServer>,
  host: string,
): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  onTestFinished(() => {
    if ('closeAllConnections' in server) server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'];
beforeEach(() => {
  for (const name of PROXY_VARIABLES) vi.stubEnv(name, undefined);
});
afterEach(() => vi.unstubAllEnvs());

describe('the proxy of the environment', () => {
  /** A proxy that notes what it is asked for, forwards plain requests, and opens tunnels. */
  async function startProxy(): Promise<{
    url: string;
    asked: string[];
    headers: IncomingMessage['headers'][];
  }> {
    const asked: string[] = [];
    const headers: IncomingMessage['headers'][] = [];
    const proxy = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      headers.push(request.headers);
      const forward = httpRequest(request.url!, { headers: request.headers, agent: false }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      });
      forward.on('error', () => response.destroy()).end();
    });
    proxy.on('connect', (request: IncomingMessage, socket: Duplex) => {
      asked.push(`CONNECT ${request.url}`);
      headers.push(request.headers);
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    });
    return { url: `http://127.0.0.1:${await listen(proxy, '127.0.0.1')}`, asked, headers };
  }

  it('forwards what is not encrypted, range, redirect and all', async () => {
    const server = await startServer((request, response) => {
      if (request.url === '/hop') response.writeHead(302, { location: '/end' }).end();
      else response.end(`range ${request.headers.range}`);
    });
    const proxy = await startProxy();
    vi.stubEnv('HTTP_PROXY', proxy.url.replace('http://', 'http://me:secret@'));
    expect(await textOf(`${server.url}/hop`, { headers: { range: 'bytes=1-' } })).toBe('range bytes=1-');
    expect(proxy.asked).toEqual([`GET ${server.url}/hop`, `GET ${server.url}/end`]);
    expect(proxy.headers[0]!['proxy-authorization']).toBe(
      `Basic ${Buffer.from('me:secret').toString('base64')}`,
    );
    expect(server.requests.length).toBe(2);
  });

  it('is asked for a tunnel to what is encrypted', async () => {
    const proxy = await startProxy();
    vi.stubEnv('https_proxy', proxy.url);
    expect(await failureOf(textOf('https://models.example/a.onnx'), HttpFailure)).toMatchObject({
      kind: 'transient',
    });
    expect(proxy.asked).toEqual(['CONNECT models.example:443']);
  });

  it.runIf(hasOpenssl)(
    'tunnels what is encrypted',
    async () => {
      const folder = scratchFolder();
      const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
      const subject = ['-subj', '/CN=models.example', '-addext', 'subjectAltName=DNS:models.example'];
      const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert];
      spawnSync('openssl', [...made, '-days', '2', ...subject]);
      const secure = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) =>
        response.end('encrypted'),
      );
      const port = await listen(secure, '127.0.0.1');
      const asked: string[] = [];
      const proxy = createServer().on('connect', (request: IncomingMessage, socket: Duplex) => {
        asked.push(`CONNECT ${request.url}`);
        const server = connect(port, '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 OK\r\n\r\n');
          socket.pipe(server).pipe(socket);
        });
        for (const end of [server, socket])
          end.on('error', () => [server, socket].map((one) => one.destroy()));
      });
      const HTTPS_PROXY = `http://127.0.0.1:${await listen(proxy, '127.0.0.1')}`;
      const code = `
        import { fetchUrl } from ${JSON.stringify(projectPath('src/base/http/http.ts'))};
        const { bytes } = await fetchUrl('https://models.example/a', ${JSON.stringify(RULES)}, 100);
        console.log(String(bytes));`;
      const env = { HTTPS_PROXY, NODE_EXTRA_CA_CERTS: cert, NO_PROXY: '' };
      const ended = await runNode(['--import', 'tsx', '--input-type=module', '-e', code], { env });
      expect(ended).toMatchObject({ code: 0, stdout: 'encrypted\n' });
      expect(asked).toEqual(['CONNECT models.example:443']);
    },
    60_000,
  );

  it('is passed over for the hosts of NO_PROXY, and where private addresses are refused', async () => {
    const server = await startServer((_request, response) => response.end('direct'));
    const proxy = await startProxy();
    vi.stubEnv('HTTP_PROXY', proxy.url);
    vi.stubEnv('NO_PROXY', 'example.org,127.0.0.1');
    expect(await textOf(server.url)).toBe('direct');
    vi.stubEnv('NO_PROXY', undefined);
    expect(await failureOf(textOf(server.url, { allowPrivate: false }), HttpFailure)).toMatchObject({
      kind: 'refused',
    });
    expect(proxy.asked).toEqual([]);
  });

  it('that is no URL of a proxy is named, without its content', async () => {
    vi.stubEnv('HTTP_PROXY', 'me:secret@proxy');
    const error = await failureOf(textOf('http://models.example/'), HttpFailure);
    expect(error).toMatchObject({
      kind: 'failed',
      message: expect.stringMatching(/^HTTP_PROXY or HTTPS_PROXY is not the URL/),
    });
    expect(error.message).not.toContain('secret');
  });
});

describe('private addresses', () => {
  const refused = {
    kind: 'refused',
    message: expect.stringMatching(/its address is private, local or reserved$/) as string,
  };
  const isPrivate = async (url: string): Promise<void> =>
    expect(await failureOf(textOf(url, { allowPrivate: false }), HttpFailure), url).toMatchObject(refused);

  it('are refused in every notation, and by every name', async () => {
    let connections = 0;
    const server = createSocketServer(() => connections++);
    const port = await listen(server, '127.0.0.1');
    const hosts = [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f000001',
      '0x7f.1',
      '0177.0.0.1',
      '017700000001',
      '127.0.0.1.',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[64:ff9b::7f00:1]',
      '[fe80::1]',
      '0.0.0.0',
      '0',
      '10.0.0.1',
      '169.254.169.254',
      '１２７.0.0.1',
      'localhost',
    ];
    for (const host of hosts) await isPrivate(`http://${host}:${port}/`);
    await isPrivate('https://127.0.0.1/');
    expect(connections).toBe(0);
  });
});

// Addresses of this machine that count as public here: the loopback network has many.
vi.mock(import('../../../src/base/http/public-address.js'), async (load) => {
  const original = await load();
  return { isPublicAddress: (address) => address === '127.0.0.2' || original.isPublicAddress(address) };
});
const names: Record<string, string[]> = {};
vi.mock(import('node:dns'), async (load) => {
  const original = await load();
  const lookup = (name: string, options: object, callback: (...results: unknown[]) => void): void => {
    const addresses = names[name];
    if (!addresses) original.lookup(name, options, callback as never);
    else
      process.nextTick(
        callback,
        null,
        addresses.map((address) => ({ address, family: 4 })),
      );
  };
  return { ...original, lookup: lookup as never };
});

describe.runIf(process.platform === 'linux')('private addresses after public ones', () => {
  it('are refused after a redirect', async () => {
    expect(isPublicAddress('127.0.0.2')).toBe(true);
    const secret = await startServer((_request, response) => response.end('secret'));
    const port = new URL(secret.url).port;
    const targets = [secret.url, `http://localhost:${port}`, `http://2130706433:${port}`];
    const server = createServer((request, response) =>
      response.writeHead(302, { location: targets[Number(request.url!.slice(1))] ?? '/0' }).end(),
    );
    const first = `http://127.0.0.2:${await listen(server, '127.0.0.2')}`;
    for (const path of ['/0', '/1', '/2', '/more'])
      expect(await failureOf(textOf(first + path, { allowPrivate: false }), HttpFailure), path).toMatchObject(
        {
          kind: 'refused',
        },
      );
    expect(secret.requests.length).toBe(0);
  });

  it('are refused if a name resolves to one, alone, among others or the second time', async () => {
    const server = createServer((_request, response) =>
      response.writeHead(200, { connection: 'close' }).end('public'),
    );
    const port = await listen(server, '127.0.0.2');
    names['public.example'] = ['127.0.0.2'];
    expect(await textOf(`http://public.example:${port}/`, { allowPrivate: false })).toBe('public');
    for (const addresses of [['127.0.0.1'], ['127.0.0.2', '10.0.0.1']]) {
      names['public.example'] = addresses;
      expect(
        await failureOf(textOf(`http://public.example:${port}/`, { allowPrivate: false }), HttpFailure),
      ).toMatchObject({ kind: 'refused' });
    }
  });
});
