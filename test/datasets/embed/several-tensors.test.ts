/** Transforms of several tensors, through every way in: tiles, the service's batches, and Arrow streams as Ray runs them. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as arrow from 'apache-arrow';
import {
  createFeatureExtractor,
  embedFolder,
  embedImages,
  loadTiles,
  transformFromConfig,
  type FeatureExtractor,
  type Tensor,
  type Transform,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { arrowStream } from '../../support/arrow-streams.js';
import {
  fixturePath,
  projectPath,
  scratchFolder,
  sharedFixtures,
  sharedNote,
} from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { runTapir } from '../../support/run.js';
import { cleanUpServices, postImage, serve, type EmbedReply } from '../../support/service.js';
import { writeFileSync } from 'node:fs';
import { someOf } from '../../support/rounds.js';

const towers = join(sharedFixtures ?? '', 'patches/models');
const NAFLEX = join(towers, 'naflex-tiny/naflex-tiny.onnx');
const QWEN = join(towers, 'qwen2-vl-tiny/qwen2-vl-tiny.onnx');
const configOf = (model: string): Transform =>
  transformFromConfig(JSON.parse(readFileSync(join(model, '../preprocessor_config.json'), 'utf8')));
const scratch = scratchFolder();

/** Photos of unlike shapes, in an order that no sort keeps. */
const photos = (count: number): string[] => {
  const examples = readdirSync(projectPath('examples/photos'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.jpg'))
    .toSorted()
    .map((name) => projectPath(`examples/photos/${name}`));
  const others = ['jpeg_444_375x500.jpg', 'enlarge_100x75.jpg', 'synthetic_noise_300x300.png'].map((name) =>
    fixturePath(`preprocess/images/${name}`),
  );
  return examples.flatMap((photo, i) => [photo, others[i % others.length]!]).slice(0, count);
};

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const floatsOf = (tensor: Tensor): Float32Array => tensor.data as Float32Array;

function farthest(a: ArrayLike<number>, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length);
  return Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}

describe.skipIf(!existsSync(NAFLEX))(`several tensors${sharedNote}`, () => {
  cleanUpServices();
  let naflex: FeatureExtractor<'v'>;
  let transform: Transform;

  beforeAll(async () => {
    transform = configOf(NAFLEX);
    naflex = await createFeatureExtractor(NAFLEX, { pooler_output: 'v' });
  });
  afterAll(() => naflex.close());

  it('go with tiles: NaFlex', async () => {
    const [photo] = photos(1);
    const tiles = { size: { height: 96, width: 160 }, overlap: 16 } as const;
    const rows = await collect(embedImages(naflex, [photo!], { transform, tiles, batch: 4 }));
    const loaded = await collect(loadTiles(photo!, transform, tiles));
    expect(rows.map(({ tile }) => tile)).toEqual(loaded.map(({ tile }) => tile));
    expect(rows.length).toBeGreaterThan(5);
    for (const [i, tile] of loaded.entries()) {
      expect(Object.keys(tile.toTensors())).toEqual([
        'pixel_values',
        'pixel_attention_mask',
        'spatial_shapes',
      ]);
      const { v } = await naflex.run(tile);
      expect(farthest(floatsOf(rows[i]!.features!.v), floatsOf(v))).toBeLessThan(1e-5);
    }
    await expect(
      collect(
        embedImages(naflex, [photo!], {
          transform: configOf(QWEN),
          tiles: { size: { height: 1, width: 201 } },
        }),
      ),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('go with tiles: outputs that differ in length from photo to photo become one array', async () => {
    await using qwen = await createFeatureExtractor(QWEN, { pooler_output: 'v' });
    const out = join(scratch, 'qwen');
    const source = photos(4);
    await expect(embedFolder(qwen, source, { out: join(scratch, 'unlike') })).rejects.toThrow('--tile');
    const { manifest } = await embedFolder(qwen, source, { out, tiles: { size: 128 } });
    expect(manifest.counts).toEqual({ inputs: 4, ok: 4, errors: 0 });
    const [first] = await collect(loadTiles(source[0]!, configOf(QWEN), { size: 128 }));
    const { v } = await qwen.run(first!);
    expect(manifest.features['v']!.dims).toEqual(v.dims);
  });

  it('share the batches of a service', async () => {
    const expected = await collect(embedImages(naflex, photos(12), { transform }));
    const { url } = await serve(naflex, { transform, maxBatch: 4, maxWaitMs: 20 });
    const replies = await Promise.all(
      photos(12).map(async (photo) => {
        const response = await postImage(url, readFileSync(photo));
        expect(response.status).toBe(200);
        return (await response.json()) as EmbedReply;
      }),
    );
    for (const [i, { results }] of replies.entries())
      expect(farthest(results[0]!.features!['v']!, floatsOf(expected[i]!.features!.v))).toBeLessThan(1e-5);
  });

  it('go through an Arrow stream of bytes, as Ray runs it', async () => {
    const expected = await collect(embedImages(naflex, photos(10), { transform }));
    const images = photos(10).map((photo) => new Uint8Array(readFileSync(photo)));
    const batchOf = (from: number, to: number) => ({
      image: arrow.vectorFromArray(images.slice(from, to), new arrow.LargeBinary()),
      tapir_row: arrow.vectorFromArray(
        images.slice(from, to).map((_, i) => from + i),
        new arrow.Int32(),
      ),
    });
    const args = ['embed', '-', '--format', 'arrow', '--out', '-', '--column', 'image', '--batch', '2'];
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [projectPath('dist/lib/bin.cjs'), ...args, '--model', NAFLEX, '--return', 'pooler_output=v'],
      { input: arrowStream(batchOf(0, 7), batchOf(7, 10)), maxBuffer: 2 ** 28 },
    );
    expect(stderr.toString()).toContain('3 tensors: pixel_values, pixel_attention_mask, spatial_shapes');
    const rows = arrow.tableFromIPC(stdout).toArray();
    expect(rows.map((row) => row['tapir_row'] as number)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (const [i, row] of rows.entries())
      expect(
        farthest((row['v'] as { toArray(): Float32Array }).toArray(), floatsOf(expected[i]!.features!.v)),
      ).toBeLessThan(1e-5);
  });

  it('survive a process that is killed at any moment', { timeout: 300_000 }, async () => {
    const folder = join(scratch, 'folder');
    mkdirSync(folder);
    for (const [i, photo] of photos(36).entries())
      for (const copy of [0, 1])
        copyFileSync(photo, join(folder, `${(i * 5) % 7}-${i}-${copy}${extname(photo)}`));
    const start = (out: string) =>
      spawn(
        process.execPath,
        [
          [projectPath('dist/lib/bin.cjs'), 'embed', folder, '--model', NAFLEX, '--out', out],
          ['--return', 'pooler_output=v', '--return', 'last_hidden_state=tokens'],
          ['--batch', '1', '--set', 'shardSize=8', '--set', 'sessions=1', '--set', 'threads=1'],
        ].flat(),
        { stdio: 'ignore' },
      );
    const contentOf = (out: string): Map<string, string> =>
      new Map(
        readdirSync(out, { recursive: true, encoding: 'utf8' })
          .filter((name) => /\.(npy|parquet)$/.test(name))
          .toSorted()
          .map((name) => [name, readFileSync(join(out, name)).toString('base64')]),
      );
    const whole = join(scratch, 'whole');
    expect(await once(start(whole), 'close')).toEqual([0, null]);
    const expected = contentOf(whole);
    expect(expected.size).toBe(9 * 3);
    for (const shards of someOf([2, 0, 4, 6, 8], 5)) {
      const out = join(scratch, `killed-${shards}`);
      const running = start(out);
      const closed = once(running, 'close');
      const shard = join(out, `metadata/metadata-${String(shards).padStart(5, '0')}.parquet`);
      while (!existsSync(shard) && running.exitCode === null) await sleep(1);
      running.kill('SIGKILL');
      await closed;
      expect(await once(start(out), 'close')).toEqual([0, null]);
      expect(contentOf(out), String(shards)).toEqual(expected);
    }
  });
});

it('says once which tensors a model leaves out', async () => {
  const model = join(scratch, 'patches.onnx');
  writeFileSync(
    model,
    modelBytes({
      inputs: [{ name: 'pixel_values', dims: ['patches', 1176] }],
      outputs: [{ name: 'y', dims: ['patches', 1176] }],
      nodes: [{ op: 'Relu', inputs: ['pixel_values'], outputs: ['y'] }],
    }),
  );
  const transform = join(scratch, 'qwen.json');
  writeFileSync(
    transform,
    JSON.stringify({
      image_processor_type: 'Qwen2VLImageProcessor',
      patch_size: 14,
      merge_size: 2,
      temporal_patch_size: 2,
      min_pixels: 3136,
      max_pixels: 50_176,
      do_resize: true,
      do_rescale: true,
      rescale_factor: 1 / 255,
      do_normalize: true,
      image_mean: [0.5, 0.5, 0.5],
      image_std: [0.5, 0.5, 0.5],
      resample: 3,
      do_convert_rgb: true,
    }),
  );
  const [photo] = photos(1);
  const flags = `--model ${model} --transform ${transform} --return y --out ${join(scratch, 'patches')}`;
  const { stderr, code } = await runTapir(['embed', photo!, ...flags.split(' '), '--set', 'sessions=2']);
  expect(code, stderr).toBe(0);
  expect(stderr.match(/no input of the model takes the transform's tensor "image_grid_thw"/g)).toHaveLength(
    1,
  );
});
