/** Clips: rows of frames of folders, and of pages of GIF and WebP files. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createFeatureExtractor,
  embedFolder,
  embedImages,
  loadClip,
  mergeDataset,
  openDataset,
  searchDataset,
  type DatasetRow,
  type EmbedSummary,
  type FeatureExtractor,
} from '../../support/tapir.js';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readParquetIndex } from '../../../src/datasets/formats/parquet-reading.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';
import { modelBytes } from '../../support/graphs.js';
import { someOf } from '../../support/rounds.js';
import { videoNet } from '../../support/video-net.js';

const scratch = scratchFolder();
const TRANSFORM = {
  resize: { height: 16, width: 16 },
  crop: 16,
  resampler: 'torch',
  antialias: false,
} as const;
const CLIPS = { frames: 4, stride: 1 } as const;
let count = 0;
const place = (): string => join(scratch, `out-${count++}`);
let extractor: FeatureExtractor<'v'>;
/** `a` has 10 frames and a subfolder with 5, `b` two, `c` frames of two sizes, `d` 4 pages as GIF and 6 as WebP. */
const videos = join(scratch, 'videos');

/** A frame whose colours follow its number. */
function pixelsOf(seed: number, width = 24, height = 20): Buffer {
  return Buffer.from(
    Uint8Array.from({ length: width * height * 3 }, (_, i) => ((i * (seed + 3)) ^ (seed * 37)) & 0xf0),
  );
}

async function saveFrame(path: string, seed: number, width = 24, height = 20): Promise<void> {
  const raw = { width, height, channels: 3 } as const;
  await sharp(pixelsOf(seed, width, height), { raw })
    .png()
    .toFile(path);
}

async function saveFrames(folder: string, seeds: readonly number[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const [i, seed] of seeds.entries())
    await saveFrame(join(folder, `${String(i).padStart(6, '0')}.png`), seed);
}

const upTo = (end: number): number[] => Array.from({ length: end }, (_, i) => i);

async function savePages(path: string, pages: number): Promise<void> {
  const data = Buffer.concat(upTo(pages).map((page) => pixelsOf(page)));
  const raw = { width: 24, height: 20 * pages, channels: 3, pageHeight: 20 } as const;
  const image = sharp(data, { raw });
  await (path.endsWith('.gif') ? image.gif() : image.webp({ lossless: true })).toFile(path);
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function rowsOf(out: string): Promise<DatasetRow[]> {
  return collect((await openDataset(out)).rows());
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

beforeAll(async () => {
  extractor = await createFeatureExtractor(videoNet(), { stem: 'v' }, { pool: 'avg' });
  await saveFrames(join(videos, 'a'), upTo(10));
  // Sorts between frames of `a`.
  await saveFrames(join(videos, 'a/000004'), upTo(5));
  await saveFrames(join(videos, 'b'), upTo(2));
  await saveFrames(join(videos, 'c'), upTo(12));
  await saveFrame(join(videos, 'c/000005.png'), 5, 20, 24);
  mkdirSync(join(videos, 'd'));
  await savePages(join(videos, 'd/four.gif'), 4);
  await savePages(join(videos, 'd/six.webp'), 6);
});
afterAll(() => extractor.close());

/** The vector of a clip, loaded by itself. */
async function expected(frames: readonly (string | Uint8Array)[]): Promise<readonly number[]> {
  const clip = await loadClip(frames, TRANSFORM);
  const { v } = await extractor.run(clip.toTensor());
  return Array.from(v.data);
}

const framesOf = (folder: string, numbers: readonly number[]): string[] =>
  numbers.map((number) => join(videos, folder, `${String(number).padStart(6, '0')}.png`));

describe('clips', () => {
  it('are rows of folders of frames and of pages, and failures of their own', async () => {
    const rows = await collect(embedImages(extractor, videos, { clips: CLIPS, transform: TRANSFORM }));
    expect(rows.map(({ path, clipStart, error }) => [path, clipStart, error?.code])).toEqual([
      ['a', 0, undefined],
      ['a/000004', 0, undefined],
      ['a', 4, undefined],
      ['b', 0, 'IMAGE_MISFIT'],
      ['c', 0, undefined],
      ['c', 4, 'IMAGE_MISFIT'],
      ['c', 8, undefined],
      ['d/four.gif', 0, undefined],
      ['d/six.webp', 0, undefined],
    ]);
    const vectorOf = (at: number): number[] => Array.from(rows[at]!.features!.v.data);
    expect(vectorOf(0)).toEqual(await expected(framesOf('a', [0, 1, 2, 3])));
    expect(vectorOf(2)).toEqual(await expected(framesOf('a', [4, 5, 6, 7])));
    expect(vectorOf(6)).toEqual(await expected(framesOf('c', [8, 9, 10, 11])));
    const pages = (file: string, numbers: readonly number[]): Promise<Buffer[]> =>
      Promise.all(numbers.map((page) => sharp(join(videos, file), { page }).removeAlpha().png().toBuffer()));
    expect(vectorOf(7)).toEqual(await expected(await pages('d/four.gif', [0, 1, 2, 3])));
    expect(vectorOf(8)).toEqual(await expected(await pages('d/six.webp', [0, 1, 2, 3])));
    // The WebP is lossless, and its pages are frames of `a`.
    expect(vectorOf(8)).toEqual(vectorOf(0));
    expect(rows[3]!.error!.message).toContain('it has 2 frames, and a clip needs 4');
    expect(rows[5]!.error!.message).toContain('frame 5 has 20×24 pixels, and frame 4 has 24×20');
  });

  it('take every so many frames, and begin where the step says', async () => {
    const clips = { frames: 2, stride: 3, step: 2 };
    const rows = await collect(embedImages(extractor, join(videos, 'a'), { clips, transform: TRANSFORM }));
    expect(rows.map(({ path, clipStart }) => [path, clipStart])).toEqual([
      ['.', 0],
      ['000004', 0],
      ['.', 2],
      ['.', 4],
      ['.', 6],
    ]);
    expect(Array.from(rows[3]!.features!.v.data)).toEqual(await expected(framesOf('a', [4, 7])));
    const apart = { frames: 2, step: 5 };
    const few = await collect(
      embedImages(extractor, framesOf('a', upTo(10)), { clips: apart, transform: TRANSFORM }),
    );
    expect(few.map(({ path, clipStart }) => [path, clipStart])).toEqual([
      [join(videos, 'a'), 0],
      [join(videos, 'a'), 5],
    ]);
    const [paged] = await collect(
      embedImages(extractor, [readFileSync(join(videos, 'd/six.webp'))], { clips, transform: TRANSFORM }),
    );
    expect(Array.from(paged!.features!.v.data)).toEqual(await expected(framesOf('a', [0, 3])));
  });

  it('are refused where names do not sort by their numbers', async () => {
    const folder = join(scratch, 'unpadded');
    mkdirSync(folder);
    for (const frame of upTo(12)) await saveFrame(join(folder, `f${frame}.png`), frame);
    const [row] = await collect(embedImages(extractor, folder, { clips: CLIPS, transform: TRANSFORM }));
    expect(row!.error!.message).toContain('"f10.png" comes right after "f1.png"');
    // A list states its own order.
    const listed = upTo(12).map((frame) => join(folder, `f${frame}.png`));
    const rows = await collect(embedImages(extractor, listed, { clips: CLIPS, transform: TRANSFORM }));
    expect(rows.map(({ clipStart, error }) => [clipStart, error])).toEqual([
      [0, undefined],
      [4, undefined],
      [8, undefined],
    ]);
  });

  it('are a column of a dataset, whose failures are tried again', async () => {
    const out = place();
    const source = join(scratch, 'again');
    cpSync(videos, source, { recursive: true, preserveTimestamps: true });
    const options = { out, clips: CLIPS, transform: TRANSFORM };
    const { manifest, failures } = await embedFolder(extractor, source, options);
    expect(manifest.counts).toMatchObject({ inputs: 9, ok: 7, errors: 2 });
    expect(manifest.run?.clips).toEqual({ frames: 4, stride: 1, step: 4 });
    expect(failures.map(({ path, error }) => [path, error.code])).toEqual([
      ['b', 'IMAGE_MISFIT'],
      ['c', 'IMAGE_MISFIT'],
    ]);
    const { schema } = await readParquetIndex(join(out, 'metadata/metadata-00000.parquet'));
    expect(schema.map(({ name }) => name)).toContain('clip_start');
    const rows = await rowsOf(out);
    expect(rows.map(({ path, clipStart, row, width }) => [path, clipStart, row, width])).toEqual([
      ['a', 0, 0, 24],
      ['a/000004', 0, 1, 24],
      ['a', 4, 2, 24],
      ['b', 0, null, null],
      ['c', 0, 3, 24],
      ['c', 4, null, null],
      ['c', 8, 4, 24],
      ['d/four.gif', 0, 5, 24],
      ['d/six.webp', 0, 6, 24],
    ]);
    expect(await embedFolder(extractor, source, options)).toMatchObject({
      embedded: 2,
      failed: 2,
      skipped: 7,
    });
    // One frame is repaired, another one changed, and a folder grew.
    await saveFrame(join(source, 'c/000005.png'), 5);
    await saveFrame(join(source, 'a/000007.png'), 70);
    utimesSync(join(source, 'a/000007.png'), new Date(), new Date(1e12));
    for (const frame of [10, 11]) await saveFrame(join(source, `a/0000${frame}.png`), frame);
    expect(await embedFolder(extractor, source, options)).toMatchObject({
      embedded: 4,
      failed: 1,
      changed: 1,
    });
    const now = (await rowsOf(out)).filter(({ status }) => status === 'ok');
    expect(now.map(({ path, clipStart }) => `${path} ${clipStart}`).toSorted()).toEqual(
      ['a 0', 'a 4', 'a 8', 'a/000004 0', 'c 0', 'c 4', 'c 8', 'd/four.gif 0', 'd/six.webp 0'].toSorted(),
    );
    const dataset = await openDataset(out);
    for await (const { path, clipStart, vector } of dataset.vectors('v'))
      if (path === 'a' && clipStart === 4)
        expect(Array.from(vector)).toEqual(
          await expected([4, 5, 6, 7].map((number) => join(source, `a/00000${number}.png`))),
        );
    const query = Float32Array.from(await expected(framesOf('c', [8, 9, 10, 11])));
    const [hits] = await searchDataset(dataset, [query], { top: 1 });
    expect(hits![0]).toMatchObject({ path: 'c', clipStart: 8 });
    // A path means all its clips, and the name that results show means one.
    const searched = async (path: string): Promise<string[]> => {
      const { stdout } = await runTapir(['search', out, '--path', path, '--json']);
      const { results } = JSON.parse(stdout) as { results: { query: string }[] };
      return results.map((one) => one.query);
    };
    expect((await searched('a')).toSorted()).toEqual([0, 4, 8].map((start) => `a [from frame ${start}]`));
    expect(await searched('a [from frame 4]')).toEqual(['a [from frame 4]']);
    // New frames are no photo.
    const frames = await runTapir(['search', out, join(videos, 'a'), '--model', 'net.onnx']);
    expect(frames.stderr).toMatch(/name a clip that it has \(tapir search --path\), or in code .*loadClip/);
    expect(frames).toMatchObject({ code: 2, stdout: '' });
    await expect(
      searchDataset(dataset, { images: framesOf('a', [0]) }, { model: 'net.onnx' }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'images' } });
    // Other clips make another dataset.
    await expect(embedFolder(extractor, source, { ...options, clips: { frames: 2 } })).rejects.toMatchObject({
      code: 'DATASET_MISMATCH',
    });
  });

  it('of frames that no longer exist are gone, and removed on request', async () => {
    const out = place();
    const source = join(scratch, 'shrunk');
    await saveFrames(join(source, 'a'), upTo(12));
    await saveFrames(join(source, 'b'), upTo(8));
    await savePages(join(source, 'c.gif'), 9);
    const run = (removeMissing: boolean): Promise<EmbedSummary> =>
      embedFolder(extractor, source, { out, clips: CLIPS, transform: TRANSFORM, removeMissing });
    const clips = async (): Promise<string[]> =>
      (await rowsOf(out)).map(({ path, clipStart, status }) => `${path} ${clipStart} ${status}`).toSorted();
    await run(false);
    const kept = ['a 0 ok', 'b 0 ok', 'b 4 ok', 'c.gif 0 ok'];
    expect(await clips()).toEqual([...kept, 'a 4 ok', 'a 8 ok', 'c.gif 4 ok'].toSorted());
    const drop = (folder: string, from: number, to: number): void => {
      for (const frame of upTo(to).slice(from))
        rmSync(join(source, folder, `${String(frame).padStart(6, '0')}.png`));
    };
    drop('a', 6, 12);
    await savePages(join(source, 'c.gif'), 5);
    expect(await run(false)).toMatchObject({ missing: 3, removed: 0 });
    expect(await run(true)).toMatchObject({ missing: 0, removed: 3 });
    expect(await clips()).toEqual(kept);
    // A pattern that leaves out frames proves nothing.
    const narrow = { out, clips: CLIPS, transform: TRANSFORM, removeMissing: true };
    const runPattern = (frames: string): Promise<EmbedSummary> =>
      embedFolder(extractor, join(source, frames), narrow);
    expect(await runPattern('{a,b}/00000[0-3].png')).toMatchObject({ missing: 2, removed: 0 });
    drop('b', 6, 8);
    expect(await runPattern('{a,b}/*.png')).toMatchObject({ missing: 1, removed: 1 });
    expect(await clips()).toEqual(['a 0 ok', 'b 0 ok', 'c.gif 0 ok']);
    // Too few frames for a clip, and no frame in a folder that is there.
    drop('a', 3, 6);
    drop('b', 0, 6);
    await savePages(join(source, 'c.gif'), 2);
    expect(await run(true)).toMatchObject({ changed: 2, failed: 2, missing: 0, removed: 1 });
    expect(await clips()).toEqual(['a 0 error', 'c.gif 0 error']);
    // Frames that come back are embedded again.
    await saveFrames(join(source, 'a'), upTo(8));
    await run(true);
    expect(await clips()).toEqual(['a 0 ok', 'a 4 ok', 'c.gif 0 error']);
    // A link that leads nowhere proves nothing.
    renameSync(join(source, 'a'), join(scratch, 'shrunk-a'));
    symlinkSync(join(scratch, 'nowhere'), join(source, 'a'));
    await saveFrames(join(source, 'b'), upTo(4));
    await expect(run(true)).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    expect(await run(false)).toMatchObject({ missing: 2 });
    expect(await run(true)).toMatchObject({ missing: 2, removed: 0 });
  });

  it('are embedded in parts, and merged', async () => {
    const out = place();
    for (const index of [0, 1, 2])
      await embedFolder(extractor, videos, {
        out,
        clips: CLIPS,
        transform: TRANSFORM,
        shard: { index, count: 3 },
      });
    const { manifest } = await mergeDataset(out, { source: videos });
    expect(manifest.counts).toMatchObject({ inputs: 9, ok: 7, errors: 2 });
  });

  it('need a model that takes them, and nothing else that makes rows', async () => {
    const run = (given: object, of: FeatureExtractor<'v'> = extractor): Promise<unknown> =>
      collect(embedImages(of, videos, { clips: CLIPS, transform: TRANSFORM, ...given }));
    const invalid = (option: string) => ({ code: 'OPTION_INVALID', details: { option } });
    await expect(run({ tiles: { size: 8 } })).rejects.toMatchObject(invalid('tiles'));
    await expect(run({ transform: { ...TRANSFORM, crops: 'five' } })).rejects.toMatchObject(invalid('crops'));
    await expect(run({ clips: { frames: 0 } })).rejects.toMatchObject(invalid('clips.frames'));
    await expect(run({ clips: { length: 3 } })).rejects.toMatchObject(invalid('length'));
    await expect(run({ clips: undefined })).rejects.toMatchObject(invalid('clips'));
    await expect(run({ transform: { crop: null, resize: null } })).rejects.toMatchObject(
      invalid('transform'),
    );
    await expect(run({ transform: { ...TRANSFORM, crop: 12 } })).rejects.toMatchObject(invalid('transform'));
    await using photos = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
    await expect(run({}, photos)).rejects.toMatchObject(invalid('clips'));
    // As MViT, whose encodings of positions have a fixed number of frames.
    await using fixed = await createFeatureExtractor(videoNet(16), { stem: 'v' }, { pool: 'avg' });
    await expect(run({ clips: { frames: 8 } }, fixed)).rejects.toThrow('"clips.frames" must be 16');
  });

  it('are vectors where frames, height and width are one, unless all dims are to be kept', async () => {
    const pooled = modelBytes({
      inputs: [{ name: 'input', dims: ['batch', 3, 'frames', 16, 16] }],
      outputs: [{ name: 'v', dims: ['batch', 3, 1, 1, 1] }],
      nodes: [{ op: 'GlobalAveragePool', inputs: ['input'], outputs: ['v'] }],
    });
    await using means = await createFeatureExtractor(pooled, ['v']);
    const dimsOf = async (keepDims: boolean): Promise<unknown> => {
      for await (const { features } of embedImages(means, join(videos, 'a'), {
        transform: TRANSFORM,
        clips: CLIPS,
        keepDims,
      }))
        return features!.v.dims;
      return undefined;
    };
    expect(await dimsOf(false)).toEqual([3]);
    expect(await dimsOf(true)).toEqual([3, 1, 1, 1]);
  });

  it('survive a process that is killed at any moment', async () => {
    const model = join(scratch, 'model.onnx');
    writeFileSync(model, videoNet());
    const many = join(scratch, 'many');
    await saveFrames(join(many, 'long'), upTo(160));
    await saveFrames(join(many, 'short'), upTo(3));
    const args = (out: string): string[] =>
      [
        [
          projectPath('dist/lib/bin.cjs'),
          'embed',
          many,
          '--model',
          model,
          '--return',
          'stem=v',
          '--pool',
          'avg',
        ],
        ['--out', out, '--transform', JSON.stringify(TRANSFORM), '--batch', '2', '--set', 'shardSize=4'],
        ['--clip', '4,stride=2,step=3', '--set', 'sessions=1', '--set', 'threads=1'],
      ].flat();
    const end = async (out: string): Promise<number> => {
      const [code] = (await once(spawn(process.execPath, args(out), { stdio: 'ignore' }), 'close')) as [
        number,
      ];
      return code;
    };
    const whole = place();
    // One folder is too short.
    expect(await end(whole)).toBe(1);
    const content = contentOf(whole);
    expect((await rowsOf(whole)).length).toBe(53);
    for (const shards of someOf([4, 1, 8], 3)) {
      const out = place();
      const running = spawn(process.execPath, args(out), { stdio: 'ignore' });
      const closed = once(running, 'close');
      const shard = join(out, `metadata/metadata-${String(shards).padStart(5, '0')}.parquet`);
      while (!existsSync(shard) && running.exitCode === null) await sleep(1);
      running.kill('SIGKILL');
      await closed;
      expect(await end(out)).toBe(1);
      expect(contentOf(out), String(shards)).toEqual(content);
    }
    rmSync(many, { recursive: true });
  }, 300_000);

  it('are refused as rows on standard output', async () => {
    const { code, stderr } = await runTapir([
      'embed',
      videos,
      '--model',
      projectPath('models/demo.onnx'),
      '--return',
      'x',
      '--out',
      '-',
      '--format',
      'jsonl',
      '--clip',
      '4',
    ]);
    expect(code).not.toBe(0);
    expect(stderr).toContain('--clip must be left out with --out -');
  });
});
