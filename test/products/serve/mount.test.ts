/** A service that is mounted in another server, and how a service of its own ends its connections. */
import { readFileSync } from 'node:fs';
import { createServer, IncomingMessage, ServerResponse, type RequestListener, type Server } from 'node:http';
import { connect, Socket, type AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { fastify } from 'fastify';
import { createService, type Service } from 'onnx-tapir/serve';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectPath } from '../../support/fixtures.js';
import {
  cleanUpServices,
  openSmall,
  photo,
  postImage,
  SMALL,
  startService,
  type EmbedReply,
} from '../../support/service.js';

cleanUpServices();
const image = photo('city/city-0.jpg');

describe('handler', () => {
  let service: Service;
  const closing: (() => unknown)[] = [];
  beforeAll(async () => {
    service = createService(await openSmall(), { transform: SMALL, name: 'tiny' });
    closing.push(() => service.close());
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });

  async function listen(listener: RequestListener): Promise<string> {
    const server: Server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing.push(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  const check = async (url: string): Promise<void> => {
    const reply = (await (await postImage(url, image)).json()) as EmbedReply;
    expect(reply.results[0]!.features!['v']).toHaveLength(128);
    expect(await (await fetch(`${url}/health/ready`)).json()).toEqual({ ready: true });
    expect((await fetch(`${url}/nothing`)).status).toBe(404);
    const large = await fetch(`${url}/embed`, { method: 'POST', body: new Uint8Array(40 * 2 ** 20) }).catch(
      () => undefined,
    );
    expect([413, undefined]).toContain(large?.status);
  };

  it('answers in Node’s server, and starts at the first request', async () => {
    const url = await listen(service.handler);
    await check(url);
  });

  it('runs in the example for Express', async () => {
    const guide = readFileSync(projectPath('docs/serve.md'), 'utf8');
    const example = /```js\n(app\.use\('\/tapir'.*?)```/s.exec(guide)![1]!;
    const mounted: [prefix: string, handler: RequestListener][] = [];
    // As Express does: a handler below a path sees the address without that path.
    const app = {
      use: (...given: [string, RequestListener] | [RequestListener]) =>
        mounted.push(given.length === 2 ? given : ['', given[0]]),
    };
    const parser: RequestListener = (_, response) =>
      void response.writeHead(500).end('the parser came first');
    runInNewContext(example, { app, service, express: { json: () => parser } });
    expect(mounted.map(([prefix]) => prefix)).toEqual(['/tapir', '']);
    await service.ready();
    const url = await listen((request, response) => {
      const [prefix, handler] = mounted.find(([path]) => request.url!.startsWith(path))!;
      request.url = request.url!.slice(prefix.length) || '/';
      handler(request, response);
    });
    await check(`${url}/tapir`);
  });

  it('takes a few requests per turn of the event loop, as the listening service does', async () => {
    await service.ready();
    const responses = Array.from({ length: 200 }, () => {
      const request = new IncomingMessage(new Socket());
      const response = new ServerResponse(Object.assign(request, { method: 'GET', url: '/health/live' }));
      service.handler(request, response);
      return response;
    });
    const ended = (): number => responses.filter(({ writableEnded }) => writableEnded).length;
    await setImmediate();
    await setImmediate();
    expect(ended()).toBeLessThan(150);
    while (ended() < 200) await setImmediate();
    for (const response of responses) response.emit('close');
  });

  it('takes bodies that a parser has read before, as those of Express do', async () => {
    await service.ready();
    let parse: (bytes: Buffer) => unknown;
    const url = await listen((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        Object.assign(request, { body: parse(Buffer.concat(chunks)) });
        service.handler(request, response);
      });
    });
    const send = (type: string, body: string | Uint8Array<ArrayBuffer>) =>
      fetch(`${url}/embed`, { method: 'POST', body, headers: { 'content-type': type } });
    parse = (bytes) => bytes;
    expect((await send('image/jpeg', image)).status).toBe(200);
    parse = (bytes) => JSON.parse(bytes.toString()) as unknown;
    const json = JSON.stringify({ image: image.toString('base64') });
    expect((await send('application/json', json)).status).toBe(200);
    parse = () => undefined;
    const lost = await send('application/json', json);
    expect([lost.status, await lost.text()]).toEqual([
      400,
      expect.stringContaining('mount the service before other parsers'),
    ]);
  });

  it('answers in Fastify', async () => {
    const app = fastify();
    await app.register(
      async (scope) => {
        scope.removeAllContentTypeParsers();
        scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
        scope.all('/*', (request, reply) => {
          reply.hijack();
          request.raw.url = request.raw.url!.slice('/tapir'.length);
          service.handler(request.raw, reply.raw);
        });
      },
      { prefix: '/tapir' },
    );
    closing.push(() => app.close());
    await check(`${await app.listen({ port: 0 })}/tapir`);
  });

  it('says that it is closed, and what it cannot start with', async () => {
    const faults: unknown[] = [];
    const other = createService(await openSmall(), {
      transform: SMALL,
      onError: (error) => faults.push(error),
    });
    const url = await listen(other.handler);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    await other.close();
    const refused = await fetch(`${url}/health/ready`);
    expect([refused.status, await refused.json()]).toEqual([
      503,
      { error: { code: 'SHUTTING_DOWN', message: expect.stringContaining('shutting down') as string } },
    ]);
    await expect(other.ready()).rejects.toMatchObject({ code: 'CLOSED' });
    expect(faults).toEqual([]);
    const extractor = await openSmall();
    await extractor.close();
    const broken = createService(extractor, { transform: SMALL, onError: (error) => faults.push(error) });
    const answer = await fetch(await listen(broken.handler));
    expect(answer.status).toBe(503);
    expect(faults).toHaveLength(1);
    await broken.close();
  });
});

describe('closing', () => {
  /** Sends text on a connection; resolves with what has come when a pattern matches, or it ends. */
  const openConnection = (url: string) => {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    let text = '';
    let look = (): void => undefined;
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      look();
    });
    let error: Error | undefined;
    socket.on('error', (reason) => (error = reason));
    socket.on('close', () => look());
    return {
      send: (request: string, until: RegExp): Promise<string> => {
        text = '';
        socket.write(request);
        return new Promise((resolve, reject) => {
          look = () => {
            if (until.test(text)) resolve(text);
            else if (socket.destroyed) reject(error ?? new Error(`the connection has ended: ${text}`));
          };
        });
      },
    };
  };

  it('answers requests that were just sent on idle connections, and ends those', async () => {
    const { url, service } = await startService();
    const connections = Array.from({ length: 20 }, () => openConnection(url));
    const get = 'GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n';
    for (const one of connections) expect(await one.send(get, /owned_by/)).not.toMatch(/close/);
    const closed = service.close();
    // The client cannot know yet.
    const answers = await Promise.all(connections.map((one) => one.send(get, /owned_by/)));
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 200 .*connection: close/is);
    await closed;
    await expect(fetch(url)).rejects.toThrow();
  });
});
