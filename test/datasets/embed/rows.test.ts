/** A photo with several rows: its crops, or the tiles of a picture of any size. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  copyFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createFeatureExtractor,
  embedFolder,
  embedImages,
  loadImage,
  loadTiles,
  mergeDataset,
  openDataset,
  type DatasetRow,
  type EmbedFolderOptions,
  type FeatureExtractor,
  type TileOptions,
} from 'onnx-tapir';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readParquetIndex } from '../../../src/datasets/formats/parquet-reading.js';
import { runTapir } from '../../support/run.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { rounds, someOf } from '../../support/rounds.js';

const scratch = scratchFolder();
const SEA = projectPath('examples/photos/sea/sea-0.jpg');
const TRANSFORM = { resize: 72, crop: 64 } as const;
let count = 0;
const place = (): string => join(scratch, `out-${count++}`);
let extractor: FeatureExtractor<'f'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'f' });
});
afterAll(() => extractor.close());

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function rowsOf(out: string): Promise<DatasetRow[]> {
  const dataset = await openDataset(out);
  return collect(dataset.rows());
}

async function columnsOf(out: string): Promise<string[]> {
  const { schema } = await readParquetIndex(join(out, 'metadata/metadata-00000.parquet'));
  return schema.slice(1).map(({ name }) => name);
}

/** All files of a dataset that must not depend on how often it was stopped. */
function contentOf(out: string): Record<string, string> {
  const files = ['features', 'metadata'].flatMap((folder) =>
    readdirSync(join(out, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  );
  return Object.fromEntries(
    files
      .filter((file) => statSync(join(out, file)).isFile())
      .toSorted()
      .map((file) => [file, readFileSync(join(out, file)).toString('base64')]),
  );
}

/** A picture with its own colours everywhere, and a white right half. */
async function savePicture(path: string, width: number, height: number, seed: number): Promise<void> {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    return x > width / 2 ? 255 : (x * seed + y * (1 + (i % 3)) + ((x * y) % 17)) & 255;
  });
  const image = sharp(data, { raw: { width, height, channels: 3 } });
  await (path.endsWith('.tif') ? image.tiff({ tile: true, compression: 'lzw' }) : image.png()).toFile(path);
}

describe('crops', () => {
  const TEN = { transform: { ...TRANSFORM, crops: 'ten' } } as const;

  it('are averaged, or rows of their own', async () => {
    const { data } = (await loadImage(SEA, TEN.transform)).toTensor();
    const { f: crops } = await extractor.run({ dtype: 'float32', dims: [10, 3, 64, 64], data });
    const width = crops.data.length / 10;
    const mean = Array.from({ length: width }, (_, i) => {
      let sum = 0;
      for (let crop = 0; crop < 10; crop++) sum += (crops.data as Float32Array)[crop * width + i]!;
      return sum / 10;
    });
    const close = (found: ArrayLike<number>, expected: ArrayLike<number>): void => {
      expect(found.length).toBe(expected.length);
      for (let i = 0; i < expected.length; i++) expect(found[i]).toBeCloseTo(expected[i]!, 5);
    };
    const [row] = await collect(embedImages(extractor, [SEA], TEN));
    close(row!.features!.f.data as Float32Array, mean);
    expect(row).not.toHaveProperty('crop');
    await using own = await createFeatureExtractor(tinyResNet(), { avgpool: 'f' }, TEN);
    close(await own.embed(SEA), mean);
    const each = await collect(embedImages(extractor, [SEA, SEA], { ...TEN, cropRows: 'each' }));
    expect(each.map(({ index, crop }) => [index, crop])).toEqual(
      [0, 1].flatMap((index) => Array.from({ length: 10 }, (_, crop) => [index, crop])),
    );
    for (const [i, { features }] of each.slice(0, 10).entries())
      close(features!.f.data as Float32Array, crops.data.slice(i * width, (i + 1) * width) as Float32Array);
  });

  it('are a column of a dataset if each has a row', async () => {
    const small = await sharp(SEA).resize(90, 40).png().toBuffer();
    const source = [SEA, small, SEA.replace('sea-0', 'sea-1')];
    const transform = { resize: null, crop: 64, crops: 'five' } as const;
    const out = place();
    const { manifest, failures } = await embedFolder(extractor, source, {
      out,
      transform,
      cropRows: 'each',
      batch: 2,
    });
    expect(failures.map(({ error }) => error.code)).toEqual(['IMAGE_MISFIT']);
    expect(manifest.counts).toEqual({ inputs: 3, ok: 2, errors: 1 });
    expect(manifest.run.cropRows).toBe('each');
    const rows = await rowsOf(out);
    expect(rows.map(({ row, crop }) => [row, crop])).toEqual([
      ...[0, 1, 2, 3, 4].map((i) => [i, i]),
      [null, null],
      ...[0, 1, 2, 3, 4].map((i) => [5 + i, i]),
    ]);
    expect((await columnsOf(out)).at(-1)).toBe('crop');
    const plain = place();
    await embedFolder(extractor, source, { out: plain, transform });
    expect(await columnsOf(plain)).not.toContain('crop');
    expect(await rowsOf(plain)).toHaveLength(3);
    await expect(embedFolder(extractor, source, { out, transform })).rejects.toMatchObject({
      code: 'DATASET_MISMATCH',
    });
  });
});

describe('tiles', () => {
  const pictures = join(scratch, 'pictures');
  const OPTIONS = {
    transform: TRANSFORM,
    batch: 8,
    shardSize: 16,
    tiles: { size: 128, overlap: 16, scales: [1, 0.5], minStd: 8 },
  } as const satisfies Partial<EmbedFolderOptions>;

  beforeAll(async () => {
    mkdirSync(pictures);
    for (const [i, name] of ['a.png', 'b.tif', 'd.png', 'e.tif'].entries())
      await savePicture(join(pictures, name), 700 + 90 * i, 500 + 40 * i, 3 + i);
    writeFileSync(join(pictures, 'c.png'), 'no picture');
    copyFileSync(SEA, join(pictures, 'f.jpg'));
    await sharp({ create: { width: 300, height: 200, channels: 3, background: 'white' } })
      .png()
      .toFile(join(pictures, 'g.png'));
  });

  async function tilesOf(name: string, tiles: TileOptions | typeof OPTIONS.tiles = OPTIONS.tiles) {
    return collect(loadTiles(join(pictures, name), TRANSFORM, tiles));
  }

  it('are embedded one by one, in order', async () => {
    const { shardSize: _, ...options } = OPTIONS;
    const rows = await collect(embedImages(extractor, pictures, options));
    const failed = rows.filter(({ error }) => error);
    expect(failed.map(({ path, error }) => [path, error!.code])).toEqual([
      ['c.png', 'IMAGE_UNREADABLE'],
      ['g.png', 'IMAGE_MISFIT'],
    ]);
    for (const name of ['a.png', 'b.tif', 'd.png', 'e.tif', 'f.jpg']) {
      const loaded = await tilesOf(name);
      const own = rows.filter(({ path }) => path === name);
      expect(
        own.map(({ tile }) => tile),
        name,
      ).toEqual(loaded.map(({ tile }) => tile));
      const last = loaded.at(-1)!;
      const { f } = await extractor.run(last);
      const found = own.at(-1)!.features!.f.data as Float32Array;
      for (const [i, value] of (f.data as Float32Array).entries()) expect(found[i]).toBeCloseTo(value, 4);
    }
  });

  it('are rows of a dataset with their place', async () => {
    const out = place();
    const { manifest, failed, embedded } = await embedFolder(extractor, pictures, { out, ...OPTIONS });
    expect([embedded, failed]).toEqual([7, 2]);
    expect(manifest.counts).toEqual({ inputs: 7, ok: 5, errors: 2 });
    expect(manifest.shards.length).toBeGreaterThan(3);
    expect(manifest.shards.every(({ deadRows }) => deadRows === 0)).toBe(true);
    expect(manifest.run.tiles).toMatchObject({ size: { height: 128, width: 128 }, minStd: 8 });
    const rows = await rowsOf(out);
    const ok = rows.filter(({ row }) => row !== null);
    expect(ok.map(({ row }) => row)).toEqual(ok.map((_, i) => i));
    expect(manifest.features['f']!.rows).toBe(ok.length);
    expect(ok.filter(({ path }) => path === 'b.tif').map(({ tile }) => tile)).toEqual(
      (await tilesOf('b.tif')).map(({ tile }) => tile),
    );
    expect(ok[0]).toMatchObject({ path: 'a.png', width: 700, height: 500, crop: null });
    expect(rows.filter(({ row }) => row === null).map(({ tile }) => tile)).toEqual([null, null]);
    expect((await columnsOf(out)).slice(-5)).toEqual([
      'tile_level',
      'tile_x',
      'tile_y',
      'tile_width',
      'tile_height',
    ]);
    // A second run tries only what failed, and changes nothing.
    const before = contentOf(out);
    const again = await embedFolder(extractor, pictures, { out, ...OPTIONS });
    expect(again).toMatchObject({ embedded: 2, failed: 2, skipped: 5, changed: 0 });
    expect(contentOf(out)).toEqual(before);
  });

  it('are the same, wherever a run was stopped', async () => {
    const source = ['a.png', 'b.tif', 'd.png', 'e.tif', 'f.jpg'].map((name) => join(pictures, name));
    const whole = place();
    await embedFolder(extractor, source, { out: whole, ...OPTIONS });
    const expected = contentOf(whole);
    let stops = 0;
    for (const afterBatches of someOf([2, 1, 3, 5, 8, 12], 3)) {
      const out = place();
      const controller = new AbortController();
      let batches = 0;
      const onProgress = (): void => {
        if (++batches === afterBatches) controller.abort(new Error('stopped'));
      };
      const stopped = { out, ...OPTIONS, signal: controller.signal, onProgress };
      await embedFolder(extractor, source, stopped).then(
        () => undefined,
        () => stops++,
      );
      await embedFolder(extractor, source, { out, ...OPTIONS });
      expect(contentOf(out), String(afterBatches)).toEqual(expected);
      expect(await rowsOf(out)).toEqual(await rowsOf(whole));
    }
    expect(stops).toBeGreaterThan(rounds(1, 3));
  });

  it('of a picture that changed are all made again', async () => {
    const folder = join(scratch, 'changing');
    mkdirSync(folder);
    for (const name of ['a.png', 'b.tif', 'd.png']) copyFileSync(join(pictures, name), join(folder, name));
    const out = place();
    await embedFolder(extractor, folder, { out, ...OPTIONS });
    const tiles = (await rowsOf(out)).filter(({ path }) => path === 'b.tif').length;
    await savePicture(join(folder, 'b.tif'), 900, 700, 7);
    utimesSync(join(folder, 'b.tif'), 1e9, 1e9);
    const { manifest, changed } = await embedFolder(extractor, folder, { out, ...OPTIONS });
    expect(changed).toBe(1);
    expect(manifest.shards.reduce((sum, { deadRows }) => sum + deadRows, 0)).toBe(tiles);
    expect(manifest.counts).toEqual({ inputs: 3, ok: 3, errors: 0 });
    const rows = await rowsOf(out);
    const now = await collect(loadTiles(join(folder, 'b.tif'), TRANSFORM, OPTIONS.tiles));
    expect(rows.filter(({ path }) => path === 'b.tif').map(({ tile }) => tile)).toEqual(
      now.map(({ tile }) => tile),
    );
    // Removed pictures leave with all of their tiles.
    rmSync(join(folder, 'd.png'));
    const { manifest: left, removed } = await embedFolder(extractor, folder, {
      out,
      ...OPTIONS,
      removeMissing: true,
    });
    expect(removed).toBe(1);
    expect(left.counts).toMatchObject({ inputs: 2, ok: 2, removed: 1 });
    expect(new Set((await rowsOf(out)).map(({ path }) => path))).toEqual(new Set(['a.png', 'b.tif']));
  });

  it('of parts are merged', async () => {
    const out = place();
    for (const index of [0, 1])
      await embedFolder(extractor, pictures, { out, ...OPTIONS, shard: { index, count: 2 } });
    const { manifest } = await mergeDataset(out);
    expect(manifest.counts).toEqual({ inputs: 7, ok: 5, errors: 2 });
    const whole = place();
    await embedFolder(extractor, pictures, { out: whole, ...OPTIONS });
    const facts = async (folder: string) =>
      (await rowsOf(folder)).map(({ path, tile }) => JSON.stringify([path, tile])).toSorted();
    expect(await facts(out)).toEqual(await facts(whole));
  });

  it('refuse what does not go together, before any picture', async () => {
    const refused = async (options: object): Promise<void> =>
      expect(
        embedFolder(extractor, 'nowhere', { out: place(), transform: TRANSFORM, ...options }),
      ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await refused({ tiles: { size: 64 }, transform: { ...TRANSFORM, crops: 'five' } });
    await refused({ tiles: { overlap: 8 } });
    await refused({ tiles: { size: 64, overlap: 64 } });
    await refused({ tiles: { size: 64, scales: [0] } });
    await refused({ cropRows: 'all' });
  });

  it('take transforms without a fixed size, as all tiles have one', async () => {
    const transform = { resize: null, crop: null } as const;
    const tiles = { size: 64 };
    const [row] = await collect(embedImages(extractor, [SEA], { transform, tiles }));
    expect(row!.tile).toEqual({ level: 0, x: 0, y: 0, width: 64, height: 64 });
  });

  it('survive a process that is killed at any moment', async () => {
    const model = join(scratch, 'model.onnx');
    writeFileSync(model, tinyResNet());
    const args = (out: string): string[] =>
      [
        [projectPath('dist/lib/bin.cjs'), 'embed', pictures, '--model', model, '--return', 'avgpool=f'],
        ['--out', out, '--transform', JSON.stringify(TRANSFORM), '--batch', '4', '--set', 'shardSize=8'],
        ['--tile', '96,overlap=8x16,scales=1,0.7,edge=pad,fill=1,2,3'],
        ['--set', 'sessions=1', '--set', 'threads=1'],
      ].flat();
    const end = async (out: string): Promise<number> => {
      const [code] = (await once(spawn(process.execPath, args(out), { stdio: 'ignore' }), 'close')) as [
        number,
      ];
      return code;
    };
    const whole = place();
    // One picture is broken.
    const { code, stdout } = await runTapir(args(whole).slice(1));
    expect(code).toBe(1);
    expect(stdout).toMatch(/images embedded in .*\n[^]* a row per tile /);
    const expected = contentOf(whole);
    for (const shards of someOf([2, 1, 4, 7, 11], 5)) {
      const out = place();
      const running = spawn(process.execPath, args(out), { stdio: 'ignore' });
      const closed = once(running, 'close');
      const shard = join(out, `metadata/metadata-${String(shards).padStart(5, '0')}.parquet`);
      while (!existsSync(shard) && running.exitCode === null) await sleep(1);
      running.kill('SIGKILL');
      await closed;
      expect(await end(out)).toBe(1);
      const content = contentOf(out);
      expect(Object.keys(content).length).toBe(Object.keys(expected).length);
      expect(content, String(shards)).toEqual(expected);
    }
  }, 300_000);
});
