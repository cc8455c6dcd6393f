/** Tiles and crops through streams: a row for each, with what it covers, and with what its photo carries. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import * as arrow from 'apache-arrow';
import {
  createFeatureExtractor,
  embedImages,
  embedStream,
  embedTransformStream,
  type Embedded,
  type FeatureExtractor,
} from 'onnx-tapir';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { arrowStream } from '../../support/arrow-streams.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

type EmbeddedItem = Embedded<string>;

const scratch = scratchFolder();
const SEA = projectPath('examples/photos/sea/sea-0.jpg');
const MISSING = join(scratch, 'missing.png');
const folder = join(scratch, 'pictures');
const model = join(scratch, 'model.onnx');
const TRANSFORM = { resize: 72, crop: 64 } as const;
const TILES = { size: 128, overlap: 16 } as const;
const OPTIONS = { transform: TRANSFORM, batch: 8, tiles: TILES } as const;
let extractor: FeatureExtractor<'f'>;
let pictures: readonly string[];

async function savePicture(name: string, width: number, height: number): Promise<string> {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 7 + ((i * i) % 251)) & 255);
  const path = join(folder, name);
  const image = sharp(data, { raw: { width, height, channels: 3 } });
  await (name.endsWith('.tif') ? image.tiff({ tile: true, compression: 'lzw' }) : image.png()).toFile(path);
  return path;
}

beforeAll(async () => {
  mkdirSync(folder);
  writeFileSync(model, tinyResNet());
  pictures = [await savePicture('a.png', 500, 300), await savePicture('b.tif', 700, 410), SEA];
  extractor = await createFeatureExtractor(model, { avgpool: 'f' });
});
afterAll(() => extractor.close());

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const source = (): string[] => [pictures[0]!, MISSING, ...pictures.slice(1)];

describe('streams of rows', () => {
  it('have a row for each tile, with what its record carries', async () => {
    const rows = await collect(embedImages(extractor, source(), OPTIONS));
    expect(rows.length).toBeGreaterThan(40);
    const id = (index: number): string => `photo ${index}`;
    const expected = rows.map((row) => Object.assign(row, { id: id(row.index) }));
    const records = source().map((image, index) => ({ image, id: id(index) }));
    const stream = embedStream(extractor, OPTIONS);
    expect(await collect(Readable.from(records).pipe(stream))).toEqual(expected);
    const web = embedTransformStream(extractor, OPTIONS);
    expect(await collect(ReadableStream.from(records).pipeThrough(web))).toEqual(expected);
  });

  it('have a row for each crop', async () => {
    const options = { transform: { ...TRANSFORM, crops: 'five' }, cropRows: 'each' } as const;
    const rows = await collect(Readable.from([SEA]).pipe(embedStream(extractor, options)));
    expect((rows as EmbeddedItem[]).map(({ crop }) => crop)).toEqual([0, 1, 2, 3, 4]);
  });

  it('do not wait for further pictures while the source pauses', async () => {
    const stream = embedStream(extractor, { ...OPTIONS, batch: 64, maxWaitMs: 5 });
    const rows = stream[Symbol.asyncIterator]();
    const tiles = (await collect(embedImages(extractor, [pictures[0]!], OPTIONS))).length;
    for (let index = 0; index < 3; index++) {
      // The next one is written only when all rows of this one are there.
      stream.write(pictures[0]!);
      for (let tile = 0; tile < tiles; tile++)
        expect((await rows.next()).value).toMatchObject({ index, tile: { level: 0 } });
    }
    stream.end();
    expect((await rows.next()).done).toBe(true);
  });

  it('refuse records with a field of such rows', async () => {
    const refused = async (options: object, record: object): Promise<void> =>
      expect(
        collect(Readable.from([{ image: SEA, ...record }]).compose(embedStream(extractor, options))),
      ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await refused(OPTIONS, { tile: 1 });
    await refused({ transform: { ...TRANSFORM, crops: 'ten' }, cropRows: 'each' }, { crop: 1 });
    const [row] = await collect(
      Readable.from([{ image: SEA, tile: 1 }]).pipe(embedStream(extractor, { transform: TRANSFORM })),
    );
    expect(row).toMatchObject({ tile: 1 });
  });
});

describe('tapir embed --out -', () => {
  const args = [
    [projectPath('dist/lib/bin.cjs'), 'embed', '-', '--model', model, '--return', 'avgpool=f', '--out', '-'],
    ['--transform', JSON.stringify(TRANSFORM), '--batch', '8', '--set', 'sessions=1', '--set', 'threads=1'],
  ].flat();
  const tile = ['--tile', '128,overlap=16'];
  const run = (input: string | Uint8Array, more: readonly string[]) =>
    spawnSync(process.execPath, [...args, ...more], { input, maxBuffer: 2 ** 28 });
  const columns = ['tile_level', 'tile_x', 'tile_y', 'tile_width', 'tile_height'];
  const placeOf = ({ tile: covered }: EmbeddedItem): (number | undefined)[] =>
    covered
      ? [covered.level, covered.x, covered.y, covered.width, covered.height]
      : columns.map(() => undefined);

  it('writes JSON lines with the coordinates of tiles', async () => {
    const rows = await collect(embedImages(extractor, source(), OPTIONS));
    const lines = source().map((path, id) => JSON.stringify({ path, id }));
    const { stdout, stderr, status } = run(lines.join('\n'), ['--format', 'jsonl', ...tile]);
    expect(stderr.toString()).toContain('1 of 4 images could not be embedded');
    expect(status).toBe(1);
    const found = stdout
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(found.map((row) => [row['path'], row['id'], ...columns.map((name) => row[name])])).toEqual(
      rows.map((row) => [row.path, row.index, ...placeOf(row)]),
    );
    expect((found[0]!['f'] as number[]).map(Math.fround)).toEqual([
      ...(rows[0]!.features!['f']!.data as Float32Array),
    ]);
  });

  it('writes Arrow columns of tiles, beside what a stream carries', async () => {
    const rows = await collect(embedImages(extractor, source(), OPTIONS));
    const paths = arrow.vectorFromArray(source(), new arrow.Utf8());
    const id = arrow.vectorFromArray([10, 11, 12, 13], new arrow.Int16());
    const { stdout } = run(arrowStream({ path: paths, id }), ['--format', 'arrow', ...tile]);
    const table = arrow.tableFromIPC(stdout);
    expect(table.schema.fields.map(({ name }) => name)).toEqual([
      'id',
      'path',
      'status',
      'error_code',
      'error_message',
      ...columns,
      'f',
    ]);
    const found = table.toArray().map((row) => row.toJSON() as Record<string, unknown>);
    expect(found.map((row) => [row['id'], row['path'], ...columns.map((name) => row[name])])).toEqual(
      rows.map((row) => [10 + row.index, row.path, ...placeOf(row).map((value) => value ?? null)]),
    );
    expect(found.map((row) => row['status'])).toEqual(rows.map(({ error }) => (error ? 'error' : 'ok')));
    const last = found.at(-1)!['f'] as { toArray(): Float32Array };
    expect([...last.toArray()]).toEqual([...(rows.at(-1)!.features!['f']!.data as Float32Array)]);
    // Without anything carried, rows of many pictures share a batch.
    const plain = arrow.tableFromIPC(run(source().join('\n'), ['--format', 'arrow', ...tile]).stdout);
    expect(plain.numRows).toBe(rows.length);
    expect(plain.batches.length).toBeLessThan(rows.length / 2);
  });

  it('writes a row for each crop', () => {
    const { stdout } = run(SEA, [
      '--format',
      'jsonl',
      '--transform',
      JSON.stringify({ ...TRANSFORM, crops: 'ten' }),
      '--set',
      'cropRows=each',
    ]);
    const found = stdout
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(found.map(({ crop }) => crop)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});
