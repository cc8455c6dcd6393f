/** Archives and lists through the whole chain: the same features as from the files themselves. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  embedImages,
  openDataset,
  type EmbedSource,
  type FeatureExtractor,
  type ListedImage,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SourceItem } from '../../../src/photos/feeds/items/source-item.js';
import { makeTar, makeZip } from '../../support/archives.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { inPieces, itemsOf } from '../../support/sources.js';

const scratch = scratchFolder();
const photos = projectPath('examples/photos/sea');
const names = readdirSync(photos)
  .filter((name) => name.endsWith('.jpg'))
  .sort();
const files = names.map((name) => ({ name, bytes: readFileSync(join(photos, name)) }));
const transform = createTransform({ resize: 64, crop: 64 });
let extractor: FeatureExtractor<'embedding'>;

function write(name: string, content: string | Uint8Array): string {
  const file = join(scratch, name);
  writeFileSync(file, content);
  return file;
}

async function embed(source: EmbedSource): Promise<{ paths: (string | null)[]; features: unknown[] }> {
  const found = [];
  for await (const one of embedImages(extractor, source, { transform, batch: 3 })) found.push(one);
  return {
    paths: found.map(({ path }) => path),
    features: found.map(({ features, error }) => features?.embedding.data ?? error?.code),
  };
}

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'embedding' });
});
afterAll(() => extractor.close());

describe('embedImages', () => {
  it('gives the same features from a folder, a pattern, archives and lists', async () => {
    const expected = await embed(photos);
    expect(expected.paths).toEqual(names);
    const tar = await makeTar(files);
    const full = names.map((name) => join(photos, name));
    const sources: Record<string, EmbedSource> = {
      pattern: join(photos, '*.jpg'),
      tar: write('a.tar', tar),
      gzipped: write('a.tgz', gzipSync(tar)),
      zip: write('a.zip', makeZip(files.map((file) => ({ ...file, isDeflated: true })))),
      list: write('a.txt', full.join('\n')),
      csv: write('a.csv', `path\n${full.join('\n')}`),
      stream: { paths: inPieces(Buffer.from(full.join('\n')), 100) },
    };
    for (const [what, source] of Object.entries(sources)) {
      const { paths, features } = await embed(source);
      const isFull = ['list', 'csv', 'stream'].includes(what);
      expect(paths, what).toEqual(isFull ? full : names);
      expect(features, what).toEqual(expected.features);
    }
  });

  it('goes on over a listed file that is missing, and over an entry that is broken', async () => {
    const [first] = files;
    const list = write('b.txt', `${join(photos, names[0]!)}\nnone.jpg\n`);
    expect((await embed(list)).features[1]).toBe('IMAGE_NOT_FOUND');
    const zip = makeZip([{ ...first!, statedCrc: 1 }, { ...first!, isEncrypted: true }, first!]);
    const { features } = await embed(write('b.zip', zip));
    expect(features.slice(0, 2)).toEqual(['IMAGE_UNREADABLE', 'IMAGE_UNREADABLE']);
    expect(features[2]).toBeInstanceOf(Float32Array);
  });

  it('takes Blobs, Responses and web streams, each in its turn', async () => {
    const expected = await embed(files.map(({ bytes }) => bytes));
    const forms = ({ name, bytes }: (typeof files)[number]): ListedImage[] => [
      new Blob([bytes]),
      new File([bytes], name, { lastModified: 5 }),
      new Response(bytes),
      new Blob([bytes]).stream() as ReadableStream<Uint8Array>,
    ];
    const given = files.flatMap(forms);
    const { paths, features } = await embed(given);
    expect(paths).toEqual(given.map(() => null));
    expect(features).toEqual(expected.features.flatMap((one) => [one, one, one, one]));
  });

  it('takes photos with columns, as a list of JSON lines does', async () => {
    const rows = files.map(({ name, bytes }, i) => ({
      image: bytes,
      path: name,
      label: `l${i}`,
      more: { i },
      status: 5,
    }));
    const items = await itemsOf(rows);
    expect(items.map(({ path, image, heldIn }) => [path, image, heldIn])).toEqual(
      files.map(({ name, bytes }, i) => [name, bytes, i]),
    );
    expect([...items[1]!.columns!]).toEqual([
      ['label', '"l1"'],
      ['more', '{"i":1}'],
      ['source_status', '5'],
    ]);
    const list = [{ path: 'a/b.jpg', label: 'x' }, { path: 'c.jpg' }];
    const lines = list.map((row) => JSON.stringify(row)).join('\n');
    const strip = ({ path, columns }: SourceItem) => [path, [...(columns ?? [])]];
    expect((await itemsOf(list)).map(strip)).toEqual(
      (await itemsOf(write('rows.jsonl', Buffer.from(lines)))).map(strip),
    );
    await expect(itemsOf([{ path: 5 }] as never)).rejects.toThrow('not an object {path}');
    await expect(itemsOf([{ path: 'a', image: null }] as never)).rejects.toThrow('not null');
    await expect(itemsOf([{ path: 'a', status: 1, source_status: 2 }])).rejects.toThrow(
      'two columns "source_status"',
    );
  });

  it('names photos with columns by one of them, and keeps every value of JSON', async () => {
    const rows = [
      { image: files[0]!.bytes, id: 2n ** 60n, none: undefined, taken: new Date(0) },
      { path: 'c.jpg', id: 'own', none: null },
    ];
    const items = await itemsOf(rows, { name: { column: 'id' } });
    expect(items.map(({ path, heldIn, columns }) => [path, heldIn, [...columns!]])).toEqual([
      [
        '1152921504606846976',
        0,
        [
          ['id', '1152921504606846976'],
          ['taken', '"1970-01-01T00:00:00.000Z"'],
        ],
      ],
      [
        'own',
        1,
        [
          ['id', '"own"'],
          ['none', 'null'],
        ],
      ],
    ]);
    const unnamed = itemsOf([{ path: 'a.jpg', label: 'x' }], { name: { column: 'id' } });
    await expect(unnamed).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    const loop: { path: string; self?: unknown } = { path: 'a.jpg' };
    loop.self = loop;
    await expect(itemsOf([loop])).rejects.toThrow('column "self" is no value of JSON');
  });

  it('takes bytes of a generator that fills one buffer again and again', async () => {
    const expected = await embed(files.map(({ bytes }) => bytes));
    const buffer = Buffer.alloc(Math.max(...files.map(({ bytes }) => bytes.length)));
    const refill = function* (): Generator<Uint8Array> {
      for (const { bytes } of files) {
        bytes.copy(buffer);
        yield buffer.subarray(0, bytes.length);
      }
    };
    expect((await embed(refill())).features).toEqual(expected.features);
    // Arrays stay as they are.
    const [held] = await itemsOf([buffer]);
    expect(held!.image).toBe(buffer);
  });

  it('gives the error of a Response that is not ok, and ends at one that was read before', async () => {
    const { features } = await embed([new Response('gone', { status: 404 }), new Blob([])]);
    expect(features).toEqual(['IMAGE_NOT_FOUND', 'IMAGE_EMPTY']);
    const read = new Response(files[0]!.bytes);
    await read.arrayBuffer();
    await expect(embed([read])).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(embed(new Blob([files[0]!.bytes]) as never)).rejects.toThrow('put a single image in a list');
    await expect(embed([{ size: 3 }] as never)).rejects.toThrow('not an object {size}');
  });

  it('refuses wrong options of sources, and URLs that were not allowed', async () => {
    for (const options of [{ column: '' }, { httpMaxBytes: 0 }, { httpTimeoutMs: 1.5 }, { allowHttp: 1 }]) {
      const given = { transform, ...options } as object;
      await expect(embedImages(extractor, photos, given).next()).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      });
    }
    await expect(embed(['http://127.0.0.1:9/a.jpg'])).rejects.toThrow('"allowHttp" must be true');
  });
});

describe('embedFolder', () => {
  it('stamps Blobs with their size, and Files with their time too', async () => {
    const [first] = files;
    const { sizeBytes, modifiedMs } = { sizeBytes: first!.bytes.length, modifiedMs: 1234 };
    const source = [
      new Blob([first!.bytes]),
      new File([first!.bytes], 'a.jpg', { lastModified: modifiedMs }),
    ];
    const out = join(scratch, 'blobs');
    await embedFolder(extractor, source, { out, transform });
    const rows = [];
    for await (const row of (await openDataset(out)).rows()) rows.push(row);
    expect(rows.map(({ path, stamp }) => [path, stamp])).toMatchObject([
      ['#0', { sizeBytes, modifiedMs: null }],
      ['#1', { sizeBytes, modifiedMs }],
    ]);
    // Unchanged, they are not embedded again.
    const again = await embedFolder(extractor, source, { out, transform });
    expect([again.embedded, again.skipped]).toEqual([0, 2]);
  });

  it('writes a dataset of a tar, and ends at the cut in one that is not whole', async () => {
    const tar = await makeTar(files);
    const { manifest } = await embedFolder(extractor, write('c.tar', tar), {
      out: join(scratch, 'out'),
      transform,
    });
    expect(manifest.counts).toMatchObject({ inputs: files.length, ok: files.length });
    const cut = write('cut.tar', tar.subarray(0, tar.length - 2048));
    const failing = embedFolder(extractor, cut, { out: join(scratch, 'cut'), transform });
    await expect(failing).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/cut off/),
    });
  });
});
