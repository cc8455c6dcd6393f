/** Images at URLs, from a server in this process. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SourceItem } from '../../../../src/photos/feeds/items/source-item.js';
import { type FetchPlan, itemOfUrl } from '../../../../src/photos/feeds/items/entries.js';
import { bytesOf, inPieces, itemsOf, untilError } from '../../../support/sources.js';

const PLAN: FetchPlan = { httpTimeoutMs: 10_000, httpMaxBytes: 1000, retryAfterMs: [0, 0] };
const asked: { url: string; authorization: string | undefined; key: unknown }[] = [];

/** What the server answers, by path. */
const ANSWERS: Record<string, (response: ServerResponse, tries: number) => void> = {
  '/a.jpg': (response) =>
    response.writeHead(200, { 'last-modified': 'Mon, 06 May 2024 12:30:10 GMT' }).end('image'),
  '/plain': (response) => response.end('image'),
  '/gone': (response) => response.writeHead(404).end('no'),
  '/busy': (response, tries) => response.writeHead(tries < 3 ? 503 : 200).end('at last'),
  '/down': (response) => response.writeHead(500).end(),
  '/often': (response) => response.writeHead(429).end(),
  '/broken': (response) => response.socket!.destroy(),
  '/half': (response) => {
    response.writeHead(200, { 'content-length': '100' }).write('half');
    response.socket!.end();
  },
  '/silent': () => undefined,
  '/long': (response) => response.writeHead(200, { 'content-length': '1001' }).end(Buffer.alloc(1001)),
  '/endless': (response) => {
    const send = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(500)));
      if (!response.destroyed) response.once('drain', send);
    };
    send();
  },
  '/loop': (response) => response.writeHead(302, { location: '/loop' }).end(),
  '/hop': (response) => response.writeHead(307, { location: './a.jpg?sign=secret' }).end(),
  '/file': (response) => response.writeHead(301, { location: 'file:///etc/hostname' }).end(),
  '/away': (response) => response.writeHead(302, { location: `${other}/a.jpg` }).end(),
};
let base = '';
let other = '';

const servers = [0, 1].map(() =>
  createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = new URL(request.url!, 'http://x').pathname;
    asked.push({
      url: request.url!,
      authorization: request.headers.authorization,
      key: request.headers['x-key'],
    });
    ANSWERS[path]!(response, asked.length);
  }),
);
beforeAll(async () => {
  const origins = servers.map(async (server) => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  [base, other] = (await Promise.all(origins)) as [string, string];
});
beforeEach(() => {
  asked.length = 0;
});
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

const item = (path: string, plan: Partial<FetchPlan> = {}): SourceItem =>
  itemOfUrl(base + path, { ...PLAN, ...plan });

describe('an image at a URL', () => {
  it('is fetched when its turn comes, and stamped then', async () => {
    const found = item('/a.jpg');
    expect(found.stamp).toBeUndefined();
    expect(asked).toEqual([]);
    expect(String(await bytesOf(found))).toBe('image');
    expect(found.stamp).toEqual({ sizeBytes: 5, modifiedMs: Date.UTC(2024, 4, 6, 12, 30, 10), sha256: null });
    const plain = item('/plain');
    await bytesOf(plain);
    expect(plain.stamp).toEqual({ sizeBytes: 5, modifiedMs: null, sha256: null });
  });

  it('is asked for again after a server’s error or a broken connection, twice at most', async () => {
    expect(String(await bytesOf(item('/busy')))).toBe('at last');
    expect(asked).toHaveLength(3);
  });

  it.each([
    ['/gone', 1, /answers 404 Not Found$/],
    ['/down', 3, /answers 500 Internal Server Error \(3 attempts\)/],
    ['/often', 3, /answers 429/],
    ['/broken', 3, /3 attempts/],
    ['/half', 3, /3 attempts/],
    ['/long', 1, /more than 1000 bytes \(httpMaxBytes\)/],
    ['/endless', 1, /more than 1000 bytes \(httpMaxBytes\)/],
    ['/loop', 6, /redirects more than 5 times/],
    ['/file', 1, /redirects to another address, and file: is neither/],
  ])('%s is an error of that image after %i requests', async (path, requests, reason) => {
    const failing = bytesOf(item(`${path}?sign=secret`));
    await expect(failing).rejects.toMatchObject({
      code: 'IMAGE_NOT_FOUND',
      details: { source: base + path, reason },
    });
    await expect(failing).rejects.toThrow(/^[^?]*$/);
    expect(asked).toHaveLength(requests);
  });

  it('is given up when the server says nothing', async () => {
    const failing = bytesOf(item('/silent', { httpTimeoutMs: 50 }));
    await expect(failing).rejects.toMatchObject({
      details: { reason: 'it took longer than 50 ms (3 attempts)' },
    });
  });

  it('is left when the run is stopped', async () => {
    const abort = new AbortController();
    const failing = bytesOf(item('/silent', { signal: abort.signal }));
    setTimeout(() => abort.abort(new Error('stopped')), 20);
    await expect(failing).rejects.toThrow('stopped');
  });

  it('sends a password to its own server only, and names it nowhere', async () => {
    const secret = base.replace('http://', 'http://user:pass%40word@');
    const found = itemOfUrl(`${secret}/hop?a=1`, PLAN);
    expect(found.path).toBe(`${base}/hop?a=1`);
    await bytesOf(found);
    const authorization = `Basic ${Buffer.from('user:pass@word').toString('base64')}`;
    expect(asked.map((request) => request.authorization)).toEqual([authorization, authorization]);
    await bytesOf(itemOfUrl(`${secret}/away`, PLAN));
    expect(asked.at(-1)!.authorization).toBeUndefined();
    await expect(bytesOf(itemOfUrl(`${secret}/gone`, PLAN))).rejects.toThrow(`cannot read ${base}/gone: `);
    await expect(bytesOf(itemOfUrl('http://user:pass@:x', PLAN))).rejects.toThrow(/^[^@]*$/);
  });

  it('sends headers to its own server only, before and after redirects', async () => {
    const headers = { authorization: 'Bearer secret', 'x-key': 'k' };
    await bytesOf(itemOfUrl(`${base.replace('http://', 'http://user:pass@')}/hop`, { ...PLAN, headers }));
    await bytesOf(itemOfUrl(`${base}/away`, { ...PLAN, headers }));
    const sent = { authorization: 'Bearer secret', key: 'k' };
    const none = { authorization: undefined, key: undefined };
    expect(asked).toMatchObject([sent, sent, sent, none]);
    await expect(bytesOf(itemOfUrl(`${base}/gone`, { ...PLAN, headers }))).rejects.toThrow(
      /^[^?]*404 Not Found$/,
    );
  });

  it('is an entry of lists, streams and iterables, if that is allowed', async () => {
    const given = ['a.jpg', `${base}/a.jpg`];
    const { items, error } = await untilError(given);
    expect(items).toEqual([{ path: 'a.jpg', image: 'a.jpg' }]);
    expect(error).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/"allowHttp" must be true/),
    });
    expect(asked).toEqual([]);
    for (const source of [
      given,
      ['a.jpg', new URL(`${base}/a.jpg`)],
      { paths: inPieces(Buffer.from(given.join('\n')), 9) },
    ]) {
      const found = await itemsOf(source, { allowHttp: true });
      expect(found.map(({ path }) => path)).toEqual(given);
      expect(String(await bytesOf(found[1]!))).toBe('image');
    }
  });
});
