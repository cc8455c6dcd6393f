/** Images through streams: the rows, the order, how far they read ahead, and what is left when they are given up. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ReadableStream } from 'node:stream/web';
import { pathToFileURL } from 'node:url';
import {
  createFeatureExtractor,
  createTransform,
  embedImages,
  embedStream,
  embedTransformStream,
  type FeatureExtractor,
  type StreamInput,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runScript } from '../../support/run.js';

const scratch = scratchFolder();
const photo = projectPath('examples/photos/sea/sea-0.jpg');
const other = projectPath('examples/photos/city/city-0.jpg');
const transform = createTransform({ resize: 64, crop: 64 });
const options = { transform, batch: 4, decodeThreads: 1 };
let extractor: FeatureExtractor<'embedding'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'embedding' });
});
afterAll(() => extractor.close());

const vectorOf = async (file: string): Promise<unknown> => {
  for await (const { features } of embedImages(extractor, [file], options)) return features?.embedding;
  return undefined;
};

const inputs = (): StreamInput[] => [
  photo,
  pathToFileURL(other),
  readFileSync(photo),
  { image: other, id: 7, tags: ['a'] },
  'no such file.jpg',
  { image: new Uint8Array(0), id: 8 },
  new Blob([readFileSync(photo)]),
  { image: new Response(readFileSync(other)), id: 9 },
  { image: new Blob([readFileSync(photo)]).stream() as ReadableStream<Uint8Array>, id: 10 },
];

/** What both kinds of streams are to make of them. */
async function checkRows(rows: readonly Record<string, unknown>[]): Promise<void> {
  const [sea, city] = [await vectorOf(photo), await vectorOf(other)];
  expect(rows).toMatchObject([
    { index: 0, path: photo, features: { embedding: sea } },
    { index: 1, path: other, features: { embedding: city } },
    { index: 2, path: null, features: { embedding: sea } },
    { index: 3, path: other, features: { embedding: city }, id: 7, tags: ['a'] },
    { index: 4, path: 'no such file.jpg', error: { code: 'IMAGE_NOT_FOUND' } },
    { index: 5, path: null, error: { code: 'IMAGE_EMPTY' }, id: 8 },
    { index: 6, path: null, features: { embedding: sea } },
    { index: 7, path: null, features: { embedding: city }, id: 9 },
    { index: 8, path: null, features: { embedding: sea }, id: 10 },
  ]);
}

describe('embedStream', () => {
  it('takes paths, URLs, bytes and records, and gives a row of each', async () => {
    const rows: Record<string, unknown>[] = [];
    await pipeline(Readable.from(inputs()), embedStream(extractor, options), async function (given) {
      for await (const row of given) rows.push(row as Record<string, unknown>);
    });
    await checkRows(rows);
  });

  it('names rows by a field of their records, and URLs without credentials', async () => {
    const url = 'http://user:secret@localhost:9/a.jpg?id=3&sig=secret';
    const stream = embedStream(extractor, { ...options, name: { column: 'id' }, allowHttp: true });
    for (const input of [{ image: photo, id: 7 }, { image: url, id: null }, photo]) stream.write(input);
    stream.end();
    const rows: unknown[] = [];
    for await (const { path, error } of stream) rows.push([path, error?.message]);
    expect(rows.map((row) => (row as unknown[])[0])).toEqual(['7', 'http://localhost:9/a.jpg?id=3', photo]);
    expect(JSON.stringify(rows)).not.toContain('secret');
  });

  it('takes bytes whose buffer is filled again once they are written', async () => {
    const files = [photo, other, photo, other].map((file) => readFileSync(file));
    const buffer = Buffer.alloc(Math.max(...files.map(({ length }) => length)));
    const { readable, writable } = embedTransformStream(extractor, options);
    const writing = (async () => {
      const writer = writable.getWriter();
      for (const bytes of files) {
        bytes.copy(buffer);
        // oxlint-disable-next-line no-await-in-loop -- one buffer
        await writer.write(buffer.subarray(0, bytes.length));
      }
      await writer.close();
    })();
    const found: unknown[] = [];
    for await (const { features } of readable) found.push(features?.embedding);
    await writing;
    const [sea, city] = [await vectorOf(photo), await vectorOf(other)];
    expect(found).toEqual([sea, city, sea, city]);
  });

  it('types rows by the extractor’s keys and by what records carry', async () => {
    const stream = embedStream<'embedding', { id: number }>(extractor, options);
    stream.write({ image: photo, id: 3 });
    // @ts-expect-error a record has to carry the number
    stream.write({ image: photo });
    stream.end();
    for await (const { id, features } of stream) {
      const sum: number = id + (features?.embedding.dims.length ?? 0);
      // @ts-expect-error there is no such output
      expect(features?.other).toBeUndefined();
      expect(sum).toBe(4);
      break;
    }
  });

  it('gives the row of an input without waiting for a full batch', async () => {
    const stream = embedStream(extractor, { ...options, batch: 64, maxWaitMs: 1 });
    const rows = stream[Symbol.asyncIterator]();
    for (let index = 0; index < 3; index++) {
      // The next one is written only when the row is there.
      stream.write(photo);
      expect((await rows.next()).value).toMatchObject({ index });
    }
    stream.end();
    expect((await rows.next()).done).toBe(true);
  });

  it('ends with no rows for no inputs', async () => {
    expect(await Readable.from([]).pipe(embedStream(extractor, options)).toArray()).toEqual([]);
  });

  it.each([
    ['a number', 5, 'a path, URL'],
    ['a record without an image', { id: 1 }, 'a path, URL'],
    ['a record with a field of the rows', { image: photo, index: 3 }, 'index, path, features, error'],
    ['a URL that may not be fetched', new URL('http://localhost/a.jpg'), 'allowHttp'],
  ])('fails for %s', async (_what, input, message) => {
    const work = pipeline(Readable.from([input]), embedStream(extractor, options), new Sink());
    await expect(work).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(work).rejects.toThrow(message);
  });

  it.each([
    [{ highWaterMark: 0 }, 'highWaterMark'],
    [{ maxWaitMs: -1 }, 'maxWaitMs'],
    [{ column: 'a' } as object, 'column'],
    [{ transform: createTransform({ resize: 32, crop: 32 }) }, 'transform'],
  ])('refuses %j', (more, option) => {
    expect(() => embedStream(extractor, { ...options, ...more })).toThrow(option);
    expect(() => embedTransformStream(extractor, { ...options, ...more })).toThrow(option);
  });

  it('refuses photos in place of options, and says where they go', () => {
    for (const photos of [[photo], Readable.from([photo])]) {
      expect(() => embedStream(extractor, photos as object)).toThrow(
        'pipeline(photos, embedStream(extractor)',
      );
      expect(() => embedTransformStream(extractor, photos as object)).toThrow('pipeThrough');
    }
  });

  it('fails with the reason of its signal', async () => {
    const reason = new Error('enough');
    const stopped = embedStream(extractor, { ...options, signal: AbortSignal.abort(reason) });
    await expect(pipeline(Readable.from([photo]), stopped, new Sink())).rejects.toBe(reason);
    const abort = new AbortController();
    const stream = embedStream(extractor, { ...options, signal: abort.signal });
    const work = pipeline(endless(), stream, new Sink({ onRow: () => abort.abort(reason) }));
    await expect(work).rejects.toBe(reason);
  });

  it('reads no further ahead than its batches', async () => {
    let given = 0;
    const source = async function* (): AsyncGenerator<string> {
      for (;;) {
        given++;
        yield photo;
      }
    };
    const stream = embedStream(extractor, { ...options, highWaterMark: 2 });
    const abort = new AbortController();
    let first: (() => void) | undefined;
    const came = new Promise<void>((resolve) => (first = resolve));
    // Takes a single row and stalls.
    const sink = new Writable({ objectMode: true, highWaterMark: 1, write: () => first!() });
    const work = pipeline(source, stream, sink, { signal: abort.signal });
    await came;
    // Until nothing moves any more.
    for (let before = -1; before !== given;) {
      before = given;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    // 16 batches ahead and 2 under way of 4 images; the queues on both sides and what is in between.
    expect(given).toBeLessThanOrEqual((16 + 2) * 4 + 4 * 2 + 8);
    abort.abort();
    await expect(work).rejects.toThrow('aborted');
  });
});

describe('embedTransformStream', () => {
  it('takes paths, URLs, bytes and records, and gives a row of each', async () => {
    const rows: Record<string, unknown>[] = [];
    const readable = ReadableStream.from(inputs()).pipeThrough(embedTransformStream(extractor, options));
    for await (const row of readable) rows.push(row as unknown as Record<string, unknown>);
    await checkRows(rows);
  });

  it('fails at both ends: bad input, cancel, abort, signal', async () => {
    const bad = embedTransformStream(extractor, options);
    const writer = bad.writable.getWriter();
    // @ts-expect-error a number is no image
    await expect(writer.write(5)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(bad.readable.getReader().read()).rejects.toMatchObject({ code: 'OPTION_INVALID' });

    const reason = new Error('enough');
    const cancelled = embedTransformStream(extractor, options);
    const feeding = ReadableStream.from(endless()).pipeTo(cancelled.writable);
    const reader = cancelled.readable.getReader();
    await reader.read();
    await Promise.all([reader.cancel(reason), expect(feeding).rejects.toBe(reason)]);

    const aborted = embedTransformStream(extractor, options);
    const reading = aborted.readable.getReader().read();
    await Promise.all([aborted.writable.abort(reason), expect(reading).rejects.toBe(reason)]);

    const abort = new AbortController();
    const signalled = embedTransformStream(extractor, { ...options, signal: abort.signal });
    const waiting = signalled.readable.getReader().read();
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(signalled.writable.getWriter().write(photo)).rejects.toBe(reason);
  });
});

describe('a stream that is given up', () => {
  // In a process of its own: whatever is left open would keep it from ending, and is counted besides.
  const model = join(scratch, 'tiny.onnx');
  writeFileSync(model, tinyResNet());
  const script = (body: string): string => `
    import { Readable, Writable } from 'node:stream';
    import { pipeline } from 'node:stream/promises';
    import { ReadableStream } from 'node:stream/web';
    import { Worker } from 'node:worker_threads';
    import { createFeatureExtractor, createTransform, embedStream, embedTransformStream } from 'onnx-tapir';
    const transform = createTransform({ resize: 64, crop: 64 });
    const extractor = await createFeatureExtractor('${model}', { avgpool: 'embedding' });
    const open = () => process.getActiveResourcesInfo().toSorted().join();
    // What is active while nothing is done, the extractor's idle thread included.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const before = open();
    const threads = new Set();
    process.on('worker', (worker) => { threads.add(worker); worker.on('exit', () => threads.delete(worker)); });
    async function* endless() { for (;;) yield '${photo}'; }
    const options = { transform, batch: 4, decodeThreads: 2 };
    class Enough extends Error {}
    let rows = 0, most = 0;
    const count = () => { most = Math.max(most, threads.size); if (++rows === 100) throw new Enough(); };
    ${body}
    // Threads take a moment to end; what is left after many is a leak.
    for (let turn = 0; turn < 1000 && (threads.size > 0 || open() !== before); turn++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    console.log(JSON.stringify({ rows, most, left: threads.size, isSame: open() === before, open: open(), before }));
    const fed = embedStream(extractor, options);
    fed.end('${photo}');
    for await (const row of fed) console.log(row.features.embedding.dims.join());
    await extractor.close();
  `;

  it.each([
    [
      'by destroy()',
      `const s = embedStream(extractor, options); Readable.from(endless()).pipe(s);
      try { for await (const row of s) count(); } catch (e) { if (!(e instanceof Enough)) throw e; }
      s.destroy();`,
    ],
    [
      'by a signal',
      `const abort = new AbortController();
      await pipeline(endless, embedStream(extractor, { ...options, signal: abort.signal }), async (given) => {
        for await (const row of given) try { count(); } catch (e) { abort.abort(e); } }).catch((e) => { if (!(e instanceof Enough)) throw e; });`,
    ],
    [
      'by a failure after it',
      `await pipeline(endless, embedStream(extractor, options), new Writable({ objectMode: true,
      write(row, _, done) { try { count(); done(); } catch (e) { done(e); } } })).catch((e) => { if (!(e instanceof Enough)) throw e; });`,
    ],
    [
      'by a failure before it',
      `await pipeline(async function* () { for (let i = 0; i < 150; i++) yield '${photo}'; throw new Enough(); },
      embedStream(extractor, options), async (given) => { for await (const row of given) most = Math.max(most, threads.size), rows++; })
      .then(() => { throw new Error('did not fail'); }, (e) => { if (!(e instanceof Enough)) throw e; });`,
    ],
    [
      'by cancel',
      `const readable = ReadableStream.from(endless()).pipeThrough(embedTransformStream(extractor, options));
      try { for await (const row of readable) count(); } catch (e) { if (!(e instanceof Enough)) throw e; }`,
    ],
    [
      'by abort',
      `const { readable, writable } = embedTransformStream(extractor, options);
      const abort = new AbortController();
      const feeding = ReadableStream.from(endless()).pipeTo(writable, { signal: abort.signal }).catch(() => undefined);
      try { for await (const row of readable) try { count(); } catch (e) { abort.abort(e); } } catch (e) { if (!(e instanceof Enough)) throw e; }
      await feeding;`,
    ],
  ])('%s leaves no thread and no handle open, and the extractor as it was', async (_how, body) => {
    const ended = await runScript(script(body));
    expect(ended.stderr).toBe('');
    expect(ended.code).toBe(0);
    const [counts, dims] = ended.stdout.trim().split('\n');
    const { most, left, isSame, ...rest } = JSON.parse(counts!) as Record<string, unknown>;
    expect({ left, isSame, ...rest }, 'what is open').toMatchObject({ left: 0, isSame: true });
    expect(most).toBeGreaterThan(0);
    expect(dims).toBe('128');
  });
});

/** The same photo for ever. */
async function* endless(): AsyncGenerator<string> {
  for (;;) yield photo;
}

class Sink extends Writable {
  constructor({ onRow }: { onRow?: () => void } = {}) {
    super({
      objectMode: true,
      write: (_row, _encoding, done) => {
        onRow?.();
        done();
      },
    });
  }
}
