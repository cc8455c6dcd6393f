/** What a service refuses, gives up, and how it ends. */
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { isTapirError } from 'onnx-tapir';
import { createService } from 'onnx-tapir/serve';
import { describe, expect, it } from 'vitest';
import {
  cleanUpServices,
  openSmall,
  photo,
  postImage,
  refusalOf,
  SMALL,
  startService,
} from '../../support/service.js';

cleanUpServices();
const image = photo('city/city-0.jpg');
/** Longer than a test: an image that waits for a full batch waits until others come. */
const FOREVER = 10_000;

function form(count: number): FormData {
  const data = new FormData();
  for (let i = 0; i < count; i++) data.append('image', new Blob([image]), `${i}.jpg`);
  return data;
}

const postForm = (url: string, count: number, signal: AbortSignal | null = null): Promise<Response> =>
  fetch(`${url}/embed`, { method: 'POST', body: form(count), signal });

/** A figure of `/metrics`. */
async function metric(url: string, line: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(
    text
      .split('\n')
      .find((one) => one.startsWith(`${line} `))
      ?.slice(line.length + 1) ?? NaN,
  );
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Writes to a socket now and then; returns what came back when it was ended. */
function trickle(url: string, head: string, more: string): Promise<string> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    let text = '';
    const timer = setInterval(() => socket.write(more), 20);
    socket.write(head);
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearInterval(timer);
      resolve(text);
    });
  });
}

describe('limits', () => {
  it('refuses bodies that are too large, declared or not', async () => {
    const { url } = await startService({ maxBodyBytes: 2000 });
    expect(await refusalOf(await postImage(url, image))).toEqual([413, 'BODY_TOO_LARGE']);
    expect(await refusalOf(await postForm(url, 1))).toEqual([413, 'BODY_TOO_LARGE']);
    const chunked = new Blob([image]).stream();
    const init = { method: 'POST', body: chunked, duplex: 'half', headers: { 'content-type': 'image/jpeg' } };
    const streamed = await fetch(`${url}/embed`, init as RequestInit);
    expect(await refusalOf(streamed)).toEqual([413, 'BODY_TOO_LARGE']);
    const json = { 'content-type': 'application/json' };
    const long = { method: 'POST', body: '['.repeat(3000), headers: json };
    expect((await fetch(`${url}/v1/embeddings`, long)).status).toBe(413);
    expect(await (await fetch(`${url}/health/ready`)).json()).toEqual({ ready: true });
  });

  it('refuses too many images at once', async () => {
    const { url } = await startService({ maxImages: 2 });
    expect((await postForm(url, 2)).status).toBe(200);
    expect(await refusalOf(await postForm(url, 3))).toEqual([413, 'TOO_MANY_IMAGES']);
    expect((await postForm(url, 2)).status).toBe(200);
  });

  it('refuses more bytes and more requests than it may hold, and has room again', async () => {
    const waiting = { maxWaitMs: FOREVER, maxBatch: 3, maxRequests: 2 };
    const { url } = await startService(waiting);
    const first = postImage(url, image);
    await until(async () => (await metric(url, 'tapir_queue_images')) === 1);
    const second = postImage(url, image);
    await until(async () => {
      const health = await fetch(`${url}/embed`);
      return (await refusalOf(health))[0] === 429;
    });
    const third = await fetch(`${url}/v1/models`);
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1']);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    void first.catch(() => undefined);
    void second.catch(() => undefined);

    const size = image.length;
    const { url: narrow } = await startService({
      maxWaitMs: FOREVER,
      maxBatch: 2,
      maxBodyBytes: size,
      maxBufferedBytes: size,
    });
    const holding = new AbortController();
    const held = postImage(narrow, image, { signal: holding.signal }).catch(() => undefined);
    await until(async () => (await metric(narrow, 'tapir_queue_images')) === 1);
    const refused = await postImage(narrow, image);
    expect([...(await refusalOf(refused)), refused.headers.get('retry-after')]).toEqual([
      503,
      'QUEUE_FULL',
      '1',
    ]);
    holding.abort();
    await held;
    await until(async () => (await metric(narrow, 'tapir_queue_images')) === 0);
    const again = postImage(narrow, image).catch(() => undefined);
    await until(async () => (await metric(narrow, 'tapir_queue_images')) === 1);
    void again;
  });

  it('refuses what does not fit into the queue at once, and takes it when there is room', async () => {
    const { url } = await startService({ maxWaitMs: FOREVER, maxBatch: 3, maxQueue: 3 });
    const waiting = postForm(url, 2);
    await until(async () => (await metric(url, 'tapir_queue_images')) === 2);
    const refused = await postForm(url, 2);
    expect([...(await refusalOf(refused)), refused.headers.get('retry-after')]).toEqual([
      503,
      'QUEUE_FULL',
      '1',
    ]);
    // The one that fills the batch.
    expect((await postImage(url, image)).status).toBe(200);
    expect((await waiting).status).toBe(200);
    expect((await postForm(url, 3)).status).toBe(200);
    expect(await metric(url, 'tapir_requests_total{route="/embed",status="503"}')).toBe(1);
    expect(await metric(url, 'tapir_images_total{code="ok"}')).toBe(6);
  });

  it('gives up what a client has left', async () => {
    const { url } = await startService({ maxWaitMs: FOREVER, maxBatch: 4 });
    const leaving = new AbortController();
    const left = postForm(url, 2, leaving.signal);
    await until(async () => (await metric(url, 'tapir_queue_images')) === 2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await until(async () => (await metric(url, 'tapir_queue_images')) === 0);
    expect(await metric(url, 'tapir_requests_total{route="/embed",status="499"}')).toBe(1);
    expect(await metric(url, 'tapir_images_total{code="CLIENT_GONE"}')).toBe(2);
    // None of the batch that is run now is theirs.
    expect((await postForm(url, 4)).status).toBe(200);
    expect(await metric(url, 'tapir_batch_images_sum')).toBe(4);
  });
});

describe('slow and broken clients', () => {
  it.each([
    ['headers', 'GET / HTTP/1.1\r\nHost: a\r\n', 'X-A: b\r\n'],
    [
      'a body',
      'POST /embed HTTP/1.1\r\nHost: a\r\nContent-Type: image/jpeg\r\nContent-Length: 9999\r\n\r\n',
      'x',
    ],
  ])('are cut off when they send %s bit by bit', async (_, head, more) => {
    const { url } = await startService({ requestTimeoutMs: 200, headersTimeoutMs: 200 });
    const text = await trickle(url, head, more);
    expect(text).toMatch(/^HTTP\/1.1 408 /);
    expect(text).toContain('REQUEST_TIMEOUT');
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
  });

  it('get an answer to a form whose part has a damaged header', async () => {
    const { url } = await startService({ requestTimeoutMs: 300 });
    const head = '--edge\r\nContent-Disposition: ../form-data; name="image"; filename="a.jpg"\r\n\r\n';
    const body = new Blob([head, image, '\r\n--edge--\r\n']);
    const headers = { 'content-type': 'multipart/form-data; boundary=edge' };
    const response = await fetch(`${url}/embed`, { method: 'POST', body, headers });
    // The parser either skips the part or never ends.
    expect([400, 408]).toContain((await refusalOf(response))[0]);
    expect(await metric(url, 'tapir_requests_in_flight')).toBe(1);
  });

  it('are cut off when they say nothing, and are told what is wrong otherwise', async () => {
    const { url } = await startService({ idleTimeoutMs: 500 });
    expect(await trickle(url, 'GET / HTTP/1.1\r\n', '')).toBe('');
    expect(await trickle(url, 'this is no HTTP\r\n\r\n', '')).toMatch(/^HTTP\/1.1 400 .*REQUEST_INVALID/s);
    const long = `GET / HTTP/1.1\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(await trickle(url, long, '')).toMatch(/^HTTP\/1.1 431 .*HEADERS_TOO_LARGE/s);
    const bad = await trickle(url, 'GET /%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', '');
    expect(bad).toMatch(/^HTTP\/1.1 400 .*REQUEST_INVALID/s);
  });
});

describe('the token', () => {
  it('opens everything but health, which is open', async () => {
    const { url } = await startService({ token: 'secret' });
    for (const path of ['/', '/v1/models', '/v2', '/metrics', '/openapi.json', '/nothing', '/embed']) {
      const response = await fetch(url + path);
      expect([path, response.status, response.headers.get('www-authenticate')]).toEqual([
        path,
        401,
        'Bearer',
      ]);
    }
    expect(await refusalOf(await postImage(url, image))).toEqual([401, 'UNAUTHORIZED']);
    for (const authorization of ['Bearer', 'Bearer wrong', 'Basic secret', 'secret', 'Bearer secretly']) {
      const response = await postImage(url, image, { headers: { authorization } });
      expect(response.status).toBe(401);
    }
    const right = await postImage(url, image, { headers: { authorization: 'Bearer secret' } });
    expect(right.status).toBe(200);
    for (const path of ['/health/live', '/health/ready']) expect((await fetch(url + path)).status).toBe(200);
  });
});

describe('what a service says about itself', () => {
  it('has a text, and a document of all routes', async () => {
    const { url } = await startService({ token: undefined });
    expect(await (await fetch(url)).text()).toContain('model "tiny" on cpu (onnxruntime, float32)');
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
      openapi: string;
      paths: Record<string, Record<string, unknown>>;
    };
    expect(document.openapi).toBe('3.1.0');
    expect(Object.keys(document.paths).sort()).toEqual([
      '/',
      '/classify',
      '/embed',
      '/health/live',
      '/health/ready',
      '/metrics',
      '/openapi.json',
      '/v1/embeddings',
      '/v1/models',
      '/v1/models/{model}',
      '/v1/models/{model}/{output}',
    ]);
    for (const path of Object.keys(document.paths)) {
      const methods = Object.keys(document.paths[path]!);
      const response = await fetch(url + path, { method: 'DELETE' });
      expect([response.status, response.headers.get('allow')?.split(', ')[0]?.toLowerCase()]).toEqual([
        405,
        methods[0],
      ]);
    }
  });
});

describe('the Open Inference Protocol', () => {
  it.each([
    ['GET', '/v2'],
    ['GET', '/v2/models/tiny'],
    ['POST', '/v2/models/tiny/infer'],
    ['GET', '/v2?a=b'],
  ])('is left to other servers: %s %s', async (method, path) => {
    const { url } = await startService();
    const response = await fetch(url + path, { method });
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect([response.status, error]).toEqual([
      404,
      { code: 'NOT_FOUND', message: expect.stringMatching(/plain ONNX file.*other-servers\.md/) as string },
    ]);
    const other = await fetch(`${url}/v20`, { method });
    expect([other.status, await other.text()]).toEqual([404, expect.stringContaining('see /openapi.json')]);
  });
});

describe('the life of a service', () => {
  it('answers all that it has when it is closed, and nothing more', async () => {
    const { url, service } = await startService({ maxWaitMs: FOREVER, maxBatch: 8 });
    const waiting = [postForm(url, 2), postImage(url, image)];
    await until(async () => (await metric(url, 'tapir_queue_images')) === 3);
    const closed = service.close();
    for (const response of await Promise.all(waiting)) expect(response.status).toBe(200);
    await closed;
    expect(service.url).toBeNull();
    await expect(fetch(url)).rejects.toThrow();
    await service.close();
  });

  it('answers requests that were wholly sent before it was closed, and that it had not seen', async () => {
    const { url, service } = await startService();
    const { hostname, port } = new URL(url);
    // Another process sends them while this one is busy, so that the system has accepted the connections, and this process has not.
    const client = spawn(process.execPath, [
      '--eval',
      `let answers = '';
       let open = 20;
       for (let i = 0; i < open; i++) {
         const socket = require('node:net').connect(${port}, '${hostname}');
         socket.end(\`GET /health/live?\${i} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\`);
         socket.on('data', (text) => (answers += text));
         socket.on('error', () => undefined);
         socket.on('close', () => --open === 0 && process.stdout.write(String(answers.split('HTTP/1.1 200').length - 1)));
       }`,
    ]);
    const answered = text(client.stdout);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
    await service.close();
    expect(await answered).toBe('20');
  });

  it('does not wait for connections that no request comes from', async () => {
    const { url, service } = await startService();
    const { hostname, port } = new URL(url);
    const sockets = ['', 'GET / HTTP/1.1\r\nHos'].map((text) => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined);
      socket.write(text);
      return new Promise((resolve) => socket.on('close', resolve));
    });
    expect((await postImage(url, image)).status).toBe(200);
    await service.close();
    await Promise.all(sockets);
  });

  it('does not wait for ever', async () => {
    const { url, service } = await startService({ shutdownTimeoutMs: 0 });
    const { hostname, port } = new URL(url);
    const head =
      'POST /embed HTTP/1.1\r\nHost: a\r\nContent-Type: image/jpeg\r\nContent-Length: 9\r\n\r\nhalf';
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    const gone = new Promise((resolve) => socket.on('close', resolve));
    await new Promise((resolve) => socket.write(head, resolve));
    await until(async () => (await metric(url, 'tapir_requests_in_flight')) === 2);
    await service.close();
    await gone;
  });

  it('starts once, and says where it cannot listen', async () => {
    const { url, service, extractor } = await startService();
    const port = Number(new URL(url).port);
    await expect(service.listen()).rejects.toMatchObject({ code: 'CLOSED' });
    const other = createService(extractor, { transform: SMALL });
    const error: unknown = await other.listen({ port }).catch((reason: unknown) => reason);
    await other.close();
    expect(isTapirError(error, 'ADDRESS_UNAVAILABLE') && error.details).toMatchObject({
      host: '127.0.0.1',
      port,
    });
    const unused = createService(extractor, { transform: SMALL });
    await unused.close();
    await expect(unused.listen()).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it('checks its options', async () => {
    const extractor = await openSmall();
    const given = [
      { transform: 'ImageNet1K_V1' },
      { name: 'a/b' },
      { maxBatch: -1 },
      { maxWaitMs: 1.5 },
      { maxQueue: 0 },
      { maxImages: 0 },
      { maxBodyBytes: 1 },
      { maxBufferedBytes: 1 },
      { maxRequests: 0 },
      { token: '' },
      { allowUrls: 1 },
      { requestTimeoutMs: 0 },
      { shutdownTimeoutMs: -1 },
      { onError: 'log' },
      { ports: 1 },
    ];
    for (const options of given)
      expect(() => createService(extractor, { transform: SMALL, ...options } as never)).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      );
    const service = createService(extractor, { transform: SMALL });
    await expect(service.listen({ port: 70_000 })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(service.listen({ host: '' })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
