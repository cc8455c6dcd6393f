/** Sources of images: paths, URLs, bytes, Blobs, Responses and streams. */
import { Readable } from 'node:stream';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openImageSource, type ImageSource } from '../../../../src/photos/images/formats/image-source.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { fixturePath } from '../../../support/fixtures.js';

const photo = fixturePath('preprocess/images/own_444.jpg');
const bytes = new Uint8Array(readFileSync(photo));
const GIB = 1024 ** 3;

/** A stream of chunks; `onCancel` runs if the reader stops early. */
function streamOf(chunks: Iterable<unknown>, onCancel?: () => void): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.iterator]();
  return new ReadableStream<unknown>({
    pull(controller) {
      const { done, value } = iterator.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    ...(onCancel && { cancel: onCancel }),
  }) as ReadableStream<Uint8Array>;
}

const refused = (source: unknown): Promise<unknown> =>
  openImageSource(source).then(
    () => expect.unreachable(),
    (error: unknown) => error,
  );

describe('an image source', () => {
  it.each<[string, () => ImageSource]>([
    ['a path', () => photo],
    ['a file: URL', () => pathToFileURL(photo)],
    ['bytes', () => bytes],
    ['a Buffer', () => readFileSync(photo)],
    ['a Blob', () => new Blob([bytes.subarray(0, 1000), bytes.subarray(1000)])],
    ['a Response', () => new Response(bytes)],
    ['an ArrayBuffer', () => bytes.buffer],
    ['a data: URL', () => `data:image/jpeg;base64,${Buffer.from(bytes).toString('base64')}`],
    ['a stream of Node.js', () => Readable.from([bytes])],
    ['a stream', () => streamOf([bytes.subarray(0, 1), bytes.subarray(1)])],
  ])('may be %s', async (_what, source) => {
    const { data } = await loadImage(source());
    expect(Buffer.compare(data, (await loadImage(photo)).data)).toBe(0);
  });

  it.each([
    undefined,
    null,
    7,
    '',
    {},
    [],
    [photo],
    () => photo,
    new Uint16Array(8),
    Promise.resolve(bytes),
    Symbol('image'),
    { ok: true, status: 200, body: {}, bodyUsed: false, headers: {} },
    { ok: true, status: 200, body: {}, bodyUsed: false, headers: new Headers() },
  ])('may not be anything else: case %#', async (source) => {
    const error = await refused(source);
    expect(error).toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'image' },
      message: expect.stringMatching(
        /must be a path, URL, bytes, Blob, Response, stream of bytes, or pixels/,
      ),
    });
  });

  it.each([
    ['a promise', () => fetch('data:,x'), /\(forgotten await\?\)/],
    ['base64', () => Buffer.alloc(50_000).toString('base64'), /\(of base64, pass Buffer\.from.{0,120}$/],
  ])('that is %s says what to pass', async (_, make, message) => {
    expect(await refused(make())).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(message) as string,
    });
  });

  it.each([
    new URL('https://user:secret@example.com/cat.jpg?key=secret'),
    'https://user:secret@example.com/cat.jpg?key=secret',
  ])('that is on the web says what to do, without secrets: %#', async (source) => {
    expect(await refused(source)).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(
        /for a URL pass "await fetch\(url\)"\), got "https:\/\/example.com\/cat.jpg"/,
      ) as string,
    });
  });

  it.each(['file://host/photo.jpg', 'file:///a%2Fb.jpg', 'blob:nodedata:1'])(
    'that has no path is refused: %s',
    async (url) => {
      expect(await refused(new URL(url))).toMatchObject({ code: 'OPTION_INVALID' });
    },
  );

  it('that was read before is refused', async () => {
    const used = new Response(bytes);
    await used.arrayBuffer();
    const locked = streamOf([bytes]);
    locked.getReader();
    const begun = Readable.from([bytes, bytes]);
    await begun.iterator({ destroyOnReturn: false }).next();
    const lockedBody = new Response(bytes);
    lockedBody.body!.getReader();
    for (const source of [used, locked, begun, lockedBody]) {
      expect(await refused(source)).toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/nobody has read/),
      });
    }
  });

  it('without bytes is empty', async () => {
    for (const source of [new Blob([]), new Response(null), streamOf([]), streamOf([new Uint8Array(0)])])
      await expect(loadImage(source)).rejects.toMatchObject({ code: 'IMAGE_EMPTY' });
  });

  it('that gives no bytes, or fails, is refused and cancelled', async () => {
    let isCancelled = false;
    const text = streamOf(['text', 'more', 'and more'], () => (isCancelled = true));
    expect(await refused(text)).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/must give Uint8Array, not a string/),
    });
    expect(isCancelled).toBe(true);
    const broken = new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error('reset')) });
    expect(await refused(broken)).toMatchObject({
      code: 'IMAGE_UNREADABLE',
      message: 'cannot read a stream as an image: reading it failed: reset',
    });
  });

  it('of more than 1 GiB is refused, as files are', async () => {
    const chunk = new Uint8Array(GIB / 16);
    let given = 0;
    let isCancelled = false;
    const endless = function* (): Generator<Uint8Array> {
      for (;;) {
        given++;
        yield chunk;
      }
    };
    const refusal = { code: 'IMAGE_TOO_LARGE', details: { limitBytes: GIB } };
    expect(await refused(streamOf(endless(), () => (isCancelled = true)))).toMatchObject(refusal);
    expect(given).toBeLessThan(20);
    expect(isCancelled).toBe(true);
    // By what they say, without reading.
    expect(await refused({ size: GIB + 1, stream: () => expect.unreachable() })).toMatchObject(refusal);
    const announced = new Response(streamOf([bytes]), { headers: { 'content-length': String(GIB + 1) } });
    expect(await refused(announced)).toMatchObject(refusal);
  });
});

describe('a Response of a server', () => {
  const server = createServer((request, response) => {
    if (request.url === '/photo.jpg') response.end(bytes);
    else if (request.url === '/broken.jpg') {
      response.writeHead(200, { 'content-length': 100_000 });
      response.write(bytes.subarray(0, 100));
      setTimeout(() => response.destroy(), 20);
    } else response.writeHead(404).end('nothing here');
  });
  let origin = '';
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  it('is read', async () => {
    const { data } = await loadImage(await fetch(`${origin}/photo.jpg`));
    expect(Buffer.compare(data, (await loadImage(bytes)).data)).toBe(0);
  });

  it('that is not ok is refused with its status', async () => {
    const response = await fetch(`${origin}/none.jpg?key=secret`);
    expect(await refused(response)).toMatchObject({
      code: 'IMAGE_NOT_FOUND',
      message: `cannot read ${origin}/none.jpg: the server answers 404; pass only a Response whose "ok" is true`,
    });
    // The connection is free again.
    expect(response.body!.locked).toBe(false);
  });

  it('that breaks is refused', async () => {
    expect(await refused(await fetch(`${origin}/broken.jpg`))).toMatchObject({
      code: 'IMAGE_UNREADABLE',
      details: { source: `${origin}/broken.jpg` },
    });
  });
});
