/** The HTTP client, against servers in this process. */
import type { ServerResponse } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { HttpFailure } from '../../../src/base/http/http-failure.js';
import { fetchUrl, isHttpUrl, openUrl, type HttpRules } from '../../../src/base/http/http.js';
import { labelOfUrl } from '../../../src/base/printable.js';
import { RequestClock } from '../../../src/base/http/request-clock.js';
import { runNode } from '../../support/run.js';
import { projectPath } from '../../support/fixtures.js';
import { startServer } from '../../support/file-server.js';
import { failureOf } from '../../support/failure.js';
import { rounds, someOf } from '../../support/rounds.js';

const RULES: HttpRules = {
  http: 'all',
  allowPrivate: true,
  credentials: 'refuse',
  timeout: { ms: 10_000, of: 'whole' },
};

const textOf = async (url: string, rules: Partial<HttpRules> = {}): Promise<string> =>
  String((await fetchUrl(url, { ...RULES, ...rules }, 10_000)).bytes);

describe('fetchUrl', () => {
  it('fetches content, with its headers', async () => {
    const server = await startServer((_request, response) =>
      response.writeHead(200, { etag: '"x"', 'set-cookie': ['a', 'b'] }).end('content'),
    );
    const seen: number[] = [];
    const rules = { ...RULES, headers: { accept: 'image/*' } };
    const { bytes, response } = await fetchUrl(`${server.url}/a?b=c`, rules, 7, (count) => seen.push(count));
    expect(String(bytes)).toBe('content');
    expect(seen).toEqual([7]);
    expect([response.status, response.header('etag'), response.header('set-cookie')]).toEqual([
      200,
      '"x"',
      'a',
    ]);
    expect(response.header('last-modified')).toBeNull();
    expect(server.requests[0]).toMatchObject({
      url: '/a?b=c',
      headers: { 'user-agent': 'onnx-tapir', 'accept-encoding': 'identity', accept: 'image/*' },
    });
  });

  it('ends at the limit of bytes, stated or not, and closes the connection', async () => {
    let closed = 0;
    const server = await startServer((request, response) => {
      response.on('close', () => closed++);
      if (request.url === '/stated') response.writeHead(200, { 'content-length': 2000 });
      const send = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(500)));
        if (!response.destroyed) response.once('drain', send);
      };
      send();
    });
    for (const path of ['/stated', '/endless'])
      expect(await failureOf(fetchUrl(server.url + path, RULES, 1000), HttpFailure)).toMatchObject({
        kind: 'too-large',
        message: 'it has more than 1000 bytes',
      });
    await expect.poll(() => closed).toBe(2);
  });

  it('ends with what the counter throws', async () => {
    const server = await startServer((_request, response) => response.end('content'));
    const enough = new RangeError('enough');
    const count = (): void => {
      throw enough;
    };
    await expect(fetchUrl(server.url, RULES, 1000, count)).rejects.toBe(enough);
  });

  it('refuses compressed content: its size would not be that of the file', async () => {
    const server = await startServer((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('x')),
    );
    expect(await failureOf(textOf(server.url), HttpFailure)).toMatchObject({
      kind: 'failed',
      message: expect.stringMatching(/\(gzip\)/),
    });
  });

  it.each([
    ['7', [7000, 7000]],
    [(): string => new Date(Date.now() + 60_000).toUTCString(), [50_000, 60_000]],
    ['Wed, 21 Oct 2015 07:28:00 GMT', undefined],
    ['0', undefined],
    ['-5', undefined],
    ['soon', undefined],
    [undefined, undefined],
  ] as const)('reads Retry-After: %s', async (given, range) => {
    const value = typeof given === 'function' ? given() : given;
    const server = await startServer((_request, response) =>
      response.writeHead(503, value === undefined ? {} : { 'retry-after': value }).end(),
    );
    const { retryAfterMs } = await failureOf(textOf(server.url), HttpFailure);
    if (range === undefined) return expect(retryAfterMs).toBe(undefined);
    expect(retryAfterMs).toBeGreaterThanOrEqual(range[0]);
    expect(retryAfterMs).toBeLessThanOrEqual(range[1]);
  });

  it('tells failures that another attempt may mend', async () => {
    const answers: Record<string, [number, string]> = {
      '/404': [404, 'failed'],
      '/500': [500, 'transient'],
      '/429': [429, 'transient'],
      '/408': [408, 'transient'],
      '/304': [304, 'failed'],
      '/302': [302, 'failed'],
    };
    const server = await startServer((request, response) => {
      if (request.url === '/cut') request.socket.destroy();
      else if (request.url === '/half')
        response.writeHead(200, { 'content-length': 9 }).write('x', () => request.socket.end());
      else response.writeHead(answers[request.url!]![0]).end('an explanation');
    });
    for (const [path, [status, kind]] of Object.entries(answers)) {
      const error = await failureOf(textOf(server.url + path), HttpFailure);
      expect(error).toMatchObject({ kind });
      expect(error.message).toMatch(new RegExp(`^the server answers ${status} \\w`));
    }
    for (const path of ['/cut', '/half'])
      expect(await failureOf(textOf(server.url + path), HttpFailure)).toMatchObject({
        kind: 'transient',
        message: 'the connection broke',
      });
    expect(await failureOf(textOf('http://127.0.0.1:9/?sign=secret'), HttpFailure)).toMatchObject({
      kind: 'transient',
      message: 'the server cannot be reached (ECONNREFUSED)',
    });
  });
});

describe('redirects', () => {
  it('are followed five times', async () => {
    const server = await startServer((request, response) => {
      const left = Number(request.url!.slice(1));
      if (left === 0) response.end('arrived');
      else
        response.writeHead([301, 302, 303, 307, 308][left % 5]!, { location: `./${left - 1}` }).end('moved');
    });
    expect(await textOf(`${server.url}/5`)).toBe('arrived');
    expect(await failureOf(textOf(`${server.url}/6`), HttpFailure)).toMatchObject({
      kind: 'failed',
      message: 'it redirects more than 5 times',
    });
  });

  it.each([
    ['file:///etc/passwd', 'refused', /file: is neither/],
    ['ftp://127.0.0.1/', 'refused', /ftp: is neither/],
    ['http://user:secret@127.0.0.1/', 'refused', /contains a user name or password/],
    ['http://', 'refused', /cannot be read/],
  ])('to %s are refused', async (location, kind, message) => {
    const server = await startServer((_request, response) => response.writeHead(302, { location }).end());
    const error = await failureOf(textOf(server.url), HttpFailure);
    expect(error).toMatchObject({ kind, message });
    expect(error.message).toMatch(/^it redirects to another address, and /);
    expect(error.message).not.toContain('secret');
    expect(await failureOf(textOf(location), HttpFailure)).toMatchObject({ kind, message });
  });

  it('away from this machine need encryption, if the rules say so', async () => {
    const server = await startServer((_request, response) =>
      response.writeHead(302, { location: 'http://192.0.2.1/' }).end(),
    );
    for (const url of [server.url, 'http://192.0.2.1/'])
      expect(await failureOf(textOf(url, { http: 'loopback' }), HttpFailure)).toMatchObject({
        kind: 'unencrypted',
      });
  });

  it('to another server do not carry the password', async () => {
    const there = await startServer((_request, response) => response.end('arrived'));
    const here = await startServer((request, response) =>
      response.writeHead(302, { location: request.url === '/1' ? '/2' : `${there.url}/3` }).end(),
    );
    const secret = here.url.replace('http://', 'http://user:pass%40word@');
    expect(await textOf(`${secret}/1`, { credentials: 'send' })).toBe('arrived');
    const authorization = `Basic ${Buffer.from('user:pass@word').toString('base64')}`;
    expect(here.requests.map(({ headers }) => headers.authorization)).toEqual([authorization, authorization]);
    expect(there.requests[0]!.headers.authorization).toBeUndefined();
    expect(
      await failureOf(textOf('http://a%:b@127.0.0.1/', { credentials: 'send' }), HttpFailure),
    ).toMatchObject({
      kind: 'refused',
    });
  });
});

describe('time', () => {
  it('of the whole request is limited, headers or body', async () => {
    const server = await startServer((request, response) => {
      if (request.url !== '/body') return;
      const timer = setInterval(() => response.write('x'), 10);
      response.on('close', () => clearInterval(timer));
    });
    for (const path of ['/headers', '/body'])
      expect(
        await failureOf(textOf(server.url + path, { timeout: { ms: 200, of: 'whole' } }), HttpFailure),
      ).toMatchObject({
        kind: 'transient',
        message: 'it took longer than 200 ms',
      });
  });

  // The clock is a false one, so that a busy machine changes nothing.
  it('of a silence or a drip is limited, and starts again with each kilobyte', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const answers: ServerResponse[] = [];
    const server = await startServer((_request, response) => answers.push(response));
    const arrived = vi.spyOn(RequestClock.prototype, 'touch');
    const until = async (holds: () => boolean): Promise<void> => {
      while (!holds()) await setImmediate(); // oxlint-disable-line no-await-in-loop
    };
    const sent = async (bytes: string): Promise<void> => {
      arrived.mockClear();
      answers.at(-1)!.write(bytes);
      await until(() => arrived.mock.calls.length > 0);
      vi.advanceTimersByTime(300);
    };
    const timeout = { ms: 400, of: 'silence' } as const;

    const whole = textOf(server.url, { timeout });
    await until(() => answers.length === 1);
    const kilobyte = 'x'.repeat(1024);
    for (let count = 0; count < 4; count++) await sent(kilobyte); // oxlint-disable-line no-await-in-loop
    answers[0]!.end();
    expect(await whole).toBe(kilobyte.repeat(4));

    const stopped = failureOf(textOf(server.url, { timeout }), HttpFailure);
    await until(() => answers.length === 2);
    await sent(kilobyte);
    vi.advanceTimersByTime(200);
    expect(await stopped).toMatchObject({ kind: 'transient', message: 'nothing arrived for 400 ms' });

    const dripping = failureOf(textOf(server.url, { timeout }), HttpFailure);
    await until(() => answers.length === 3);
    await sent('x');
    await sent('x');
    expect(await dripping).toMatchObject({ message: 'only 2 bytes arrived in 400 ms' });
  });

  it('ends with the caller’s signal, before, during and after the headers', async () => {
    const server = await startServer((request, response) => {
      if (request.url === '/body') response.write('x');
    });
    for (const path of ['/headers', '/body']) {
      const abort = new AbortController();
      const failing = textOf(server.url + path, { signal: abort.signal });
      setTimeout(() => abort.abort(new Error('stopped')), 50);
      await expect(failing).rejects.toThrow('stopped');
    }
    const signal = AbortSignal.abort(new Error('stopped'));
    await expect(textOf(server.url, { signal })).rejects.toThrow('stopped');
  });
});

describe('openUrl', () => {
  it('gives ranges as they are asked for, and can be discarded', async () => {
    const server = await startServer((request, response) =>
      response.writeHead(206, { 'content-range': 'bytes 2-3/9' }).end(request.headers.range),
    );
    const rules = { ...RULES, headers: { range: 'bytes=2-3' }, statuses: [206] };
    const response = await openUrl(server.url, rules);
    expect(response.status).toBe(206);
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.body) chunks.push(chunk);
    expect(String(Buffer.concat(chunks))).toBe('bytes=2-3');
    const other = await openUrl(server.url, rules);
    other.discard();
    other.discard();
  });
});

describe('addresses in messages', () => {
  it('have no password and no signature', () => {
    expect(labelOfUrl('https://user:secret@example.org:8443/a/b?sign=secret#c')).toBe(
      'https://example.org:8443/a/b',
    );
    expect(labelOfUrl('http://:x')).toBe('a URL that cannot be read');
    expect(labelOfUrl('file:///etc/passwd')).toBe('file:');
    expect(isHttpUrl('HTTP://a')).toBe(true);
    expect(isHttpUrl('a/http://b')).toBe(false);
  });
});

it('loads the HTTP modules with the first request, and lets the process end after it', async () => {
  const server = await startServer((_request, response) => response.end('content'));
  const code = `
    import { fetchUrl } from ${JSON.stringify(projectPath('src/base/http/http.ts'))};
    const isLoaded = () => process.moduleLoadList.includes('NativeModule https');
    const before = isLoaded();
    const { bytes } = await fetchUrl(${JSON.stringify(server.url)}, ${JSON.stringify(RULES)}, 100);
    console.log(before, isLoaded(), String(bytes));`;
  const env = Object.fromEntries(
    ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'].map((name) => [name, '']),
  );
  const ended = await runNode(['--import', 'tsx', '--input-type=module', '-e', code], { env });
  expect(ended).toMatchObject({ code: 0, stdout: 'false true content\n' });
}, 60_000);

describe('a server that closes the connection behind its answer', () => {
  const bytes = Buffer.alloc(4_000_000, 'ab');
  /** Sends a head, then so many bytes, and closes: in good order, or with a reset. */
  const startClosing = async (sent: number, isReset: boolean, head = `Content-Length: ${bytes.length}`) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nConnection: close\r\n${head}\r\n\r\n`);
        socket.write(bytes.subarray(0, sent), () => (isReset ? socket.resetAndDestroy() : socket.end()));
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  };
  /** Reads slower than the network. */
  async function readSlowly(url: string): Promise<number> {
    let read = 0;
    for await (const chunk of (await openUrl(url, RULES)).body) {
      read += chunk.byteLength;
      await delay(1);
    }
    return read;
  }

  it.each(['Content-Length: 4000000', 'X-Length: none'])('is read to the end, slowly (%s)', async (head) => {
    const url = await startClosing(bytes.length, false, head);
    for (let round = 0; round < rounds(2, 10); round++) expect(await readSlowly(url)).toBe(bytes.length);
  });

  it.each(someOf([1, 2, 3, 4, 5, 6, 7, 8, 9], 4))('breaks after %i tenths, as a failure', async (tenths) => {
    for (const isReset of [false, true]) {
      const url = await startClosing((bytes.length * tenths) / 10, isReset);
      for (let round = 0; round < rounds(1, 10); round++)
        expect(await failureOf(readSlowly(url), HttpFailure)).toMatchObject({ kind: 'transient' });
    }
  });

  it('after it kept it open for a while is asked again on a new one', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      const isFirst = ++connections === 1;
      let requests = 0;
      socket
        .on('error', () => undefined)
        .on('data', () => {
          if (isFirst && ++requests === 2) socket.resetAndDestroy();
          else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    expect([await textOf(url), await textOf(url)]).toEqual(['ok', 'ok']);
    expect(connections).toBe(2);
  });
});
