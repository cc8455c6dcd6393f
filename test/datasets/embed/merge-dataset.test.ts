/** A dataset that is written in parts, each by a process of its own, and merged. */
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  mergeDataset,
  type EmbedSource,
  type EmbedSummary,
  type FeatureExtractor,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { belongsTo, shardOf } from '../../../src/datasets/records/input-names.js';
import { countInputs } from '../../../src/datasets/sources/count-inputs.js';
import type { JournalShard } from '../../../src/datasets/files/journal.js';
import type { Manifest, ShardRecord } from '../../../src/datasets/files/manifest.js';
import { SOURCE_DEFAULTS } from '../../../src/photos/feeds/items/source-options.js';
import { projectPath } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { photosAndPlace } from '../../support/photos.js';
import { vectorsOf } from '../../support/vectors.js';

const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
const sea = projectPath('examples/photos/sea/sea-0.jpg');
let extractor: FeatureExtractor<'f'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(model, { avgpool: 'f' });
});
afterAll(() => extractor.close());

const setUp = (): { photos: string; out: string } => photosAndPlace('shard-');

const run = (source: EmbedSource, out: string, options: object = {}): Promise<EmbedSummary> =>
  embedFolder(extractor, source, { out, batch: 4, shardSize: 8, decodeThreads: 1, ...options });

async function runAll(source: EmbedSource, out: string, count = 3, options: object = {}): Promise<void> {
  for (let index = 0; index < count; index++) await run(source, out, { shard: { index, count }, ...options });
}

/** The files of the merged dataset itself. */
const mergedFiles = (out: string): string[] => [
  'manifest.json',
  ...readdirSync(join(out, 'metadata'))
    .toSorted()
    .map((name) => `metadata/${name}`),
];
const contentOf = (out: string): Record<string, string> =>
  Object.fromEntries(
    mergedFiles(out).map((name) => [name, readFileSync(join(out, name)).toString('base64')]),
  );

const lockOf = (pid: number): string =>
  JSON.stringify({ host: hostname(), boot: null, pid, started: null, nonce: 'a' });

describe('the parts of a dataset', () => {
  it('merge into what one process writes', async () => {
    const { photos, out } = setUp();
    await run(photos, `${out}-whole`);
    const whole = await vectorsOf(`${out}-whole`);
    await runAll(photos, out);
    const { manifest, parts } = await mergeDataset(out, { source: photos });
    expect(parts).toBe(3);
    expect(manifest.counts).toEqual({ inputs: 26, ok: 24, errors: 2 });
    expect(manifest.features['f']).toMatchObject({ rows: 24, dims: [128], dtype: 'float32' });
    expect(await vectorsOf(out)).toEqual(whole);
    expect(whole.size).toBe(26);
    // Nothing is copied.
    expect(readdirSync(out).toSorted()).toEqual(['manifest.json', 'metadata', 'parts']);
    expect(readdirSync(join(out, 'parts'))).toEqual(['0-of-3', '1-of-3', '2-of-3']);
    // Each part is a dataset by itself.
    expect((await vectorsOf(join(out, 'parts/2-of-3'))).size).toBeLessThan(26);
  });

  it('may be named without zeros, as $JOB_COMPLETION_INDEX is, but not in both ways', async () => {
    const { photos, out } = setUp();
    await run(photos, `${out}-whole`);
    await runAll(photos, out, 11);
    renameSync(join(out, 'parts/03-of-11'), join(out, 'parts/3-of-11'));
    expect((await mergeDataset(out, { source: photos })).parts).toBe(11);
    expect(await vectorsOf(out)).toEqual(await vectorsOf(`${out}-whole`));
    cpSync(join(out, 'parts/3-of-11'), join(out, 'parts/03-of-11'), { recursive: true });
    await expect(mergeDataset(out)).rejects.toThrow('"03-of-11" is the same part');
  });

  it.each(['npy', 'arrow', 'parquet'] as const)('keep NaN and infinities, as %s', async (format) => {
    const { photos, out } = setUp();
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 224, 224] }],
      outputs: [{ name: 'y', dims: ['n', 3] }],
      initializers: { scale: [NaN, Infinity, -0] },
      nodes: [
        { op: 'GlobalAveragePool', inputs: ['x'], outputs: ['pooled'] },
        { op: 'Flatten', inputs: ['pooled'], outputs: ['flat'] },
        { op: 'Mul', inputs: ['flat', 'scale'], outputs: ['y'] },
      ],
    });
    const odd = await createFeatureExtractor(bytes, { y: 'f' });
    const settings = { format, batch: 4, shardSize: 8, decodeThreads: 1 };
    await embedFolder(odd, photos, { out: `${out}-whole`, ...settings });
    for (let index = 0; index < 2; index++)
      await embedFolder(odd, photos, { out, ...settings, shard: { index, count: 2 } });
    await odd.close();
    await mergeDataset(out, { source: photos });
    const vectors = await vectorsOf(out);
    expect(vectors).toEqual(await vectorsOf(`${out}-whole`));
    const seen = [...vectors.values()].flatMap((vector) => (typeof vector === 'string' ? [] : vector));
    expect(seen).toEqual(expect.arrayContaining([NaN, Infinity, -Infinity]));
  });

  it('are counted each for itself', async () => {
    const { photos } = setUp();
    const { signal } = new AbortController();
    const list = [readFileSync(sea), readFileSync(sea), sea];
    const count = (source: EmbedSource, index: number): Promise<number | null> =>
      countInputs(source, SOURCE_DEFAULTS, signal, (path, position) =>
        belongsTo({ index, count: 2 }, path, position),
      );
    const counts = await Promise.all([count(photos, 0), count(photos, 1), count(list, 0), count(list, 1)]);
    expect(counts.every((inputs) => inputs !== null && inputs > 0)).toBe(true);
    expect([counts[0]! + counts[1]!, counts[2]! + counts[3]!]).toEqual([26, 3]);
  });

  it('are named so that they sort', async () => {
    const { photos, out } = setUp();
    const summary = await run(photos, out, { shard: { index: 7, count: 12 } });
    expect(summary.out).toBe(join(out, 'parts/07-of-12'));
  });

  it('may be added to; the same parts give the same bytes', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out);
    await mergeDataset(out);
    const first = contentOf(out);
    const vectors = await vectorsOf(out);
    // What a merge that was killed may leave.
    writeFileSync(join(out, 'metadata/.tapir-7-0123abcd.partial'), 'left over');
    writeFileSync(join(out, 'metadata/metadata-00090.parquet'), 'left over');
    rmSync(join(out, 'manifest.json'));
    writeFileSync(join(out, 'metadata/NOTES.md'), 'mine');
    await mergeDataset(out);
    expect(readFileSync(join(out, 'metadata/NOTES.md'), 'utf8')).toBe('mine');
    rmSync(join(out, 'metadata/NOTES.md'));
    expect(contentOf(out)).toEqual(first);
    await mergeDataset(out);
    expect(contentOf(out)).toEqual(first);

    for (let i = 0; i < 12; i++) copyFileSync(sea, join(photos, `new-${i}.jpg`));
    const shard = { index: 0, count: 3 };
    const before = shardsOf(out);
    const added = await run(photos, out, { shard });
    // Only new ones are new: no other input has moved to this part.
    const own = Array.from({ length: 12 }, (_, i) => shardOf(`new-${i}.jpg`, 3)).filter((at) => at === 0);
    expect(own.length).toBeGreaterThan(0);
    expect(added.embedded - added.failed).toBe(own.length);
    // What was merged can still be read.
    expect(await vectorsOf(out)).toEqual(vectors);
    await expect(mergeDataset(out, { source: photos })).rejects.toMatchObject({
      code: 'DATASET_INCOMPLETE',
      details: { count: 12 - own.length },
      message: expect.stringMatching(/inputs of the source are in no part: new-\d+\.jpg/) as string,
    });
    expect(contentOf(out)).toEqual(first);

    await runAll(photos, out);
    const { manifest } = await mergeDataset(out, { source: photos });
    expect(manifest.counts).toEqual({ inputs: 38, ok: 36, errors: 2 });
    expect(shardsOf(out)).toBeGreaterThan(before);
    const now = await vectorsOf(out);
    for (const [path, vector] of vectors) expect(now.get(path)).toEqual(vector);
    expect(now.get('new-3.jpg')).toEqual(now.get('sea/sea-0.jpg'));
  });

  it('may be empty, the source may not', async () => {
    const { out } = setUp();
    const one = join(out, '../one');
    mkdirSync(one);
    await expect(run(one, out, { shard: { index: 0, count: 3 } })).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
    });
    copyFileSync(sea, join(one, 'sea.jpg'));
    await runAll(one, out);
    const { manifest } = await mergeDataset(out, { source: one });
    expect(manifest.shards).toHaveLength(1);
    expect(manifest.versions.onnxruntime).toMatch(/^\d/);
    expect([...(await vectorsOf(out)).keys()]).toEqual(['sea.jpg']);
    // Again, with nothing in two of them.
    await runAll(one, out);
    // One that was made in another way does not fit, however empty.
    const empty = [0, 1, 2].find((index) => index !== shardOf('sea.jpg', 3))!;
    await run(one, out, { shard: { index: empty, count: 3 }, dtype: 'float16' });
    await expect(mergeDataset(out)).rejects.toMatchObject({ code: 'DATASET_MISMATCH' });
  });

  it('take bytes by position, named as in the whole', async () => {
    const { out } = setUp();
    const bytes = readFileSync(sea);
    const list = [bytes, sea, bytes, bytes, sea];
    await run(list, `${out}-whole`);
    await runAll(list, out, 2);
    await mergeDataset(out, { source: list });
    expect(await vectorsOf(out)).toEqual(await vectorsOf(`${out}-whole`));
    expect([...(await vectorsOf(join(out, 'parts/0-of-2'))).keys()]).toEqual(
      expect.arrayContaining(['#0', '#2']),
    );
    expect((await vectorsOf(join(out, 'parts/1-of-2'))).has('#3')).toBe(true);
  });

  it('take what was merged with them when they are overwritten', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out);
    await mergeDataset(out);
    await run(photos, out, { shard: { index: 1, count: 3 }, overwrite: true });
    expect(existsSync(join(out, 'manifest.json'))).toBe(false);
    await mergeDataset(out);
    expect((await vectorsOf(out)).size).toBe(26);
  });
});

const shardsOf = (out: string): number =>
  (JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as { shards: unknown[] }).shards.length;

describe('a folder that is something else', () => {
  it('is refused, and left as it is', async () => {
    const { photos, out } = setUp();
    const shard = { index: 0, count: 3 };
    await run(photos, out, { shard });
    const refuse = (options: object, message: RegExp, folder = out): Promise<void> =>
      expect(run(photos, folder, options)).rejects.toMatchObject({
        code: 'OUTPUT_EXISTS',
        message: expect.stringMatching(message) as string,
      });
    await refuse(
      { shard: { index: 0, count: 4 } },
      /it holds parts\/0-of-3, and this run writes a part of 4/,
    );
    await refuse({ shard: { index: 0, count: 4 }, overwrite: true }, /parts\/0-of-3/);
    await refuse({}, /not empty/);
    await refuse({ overwrite: true }, /not empty/);
    expect(readdirSync(join(out, 'parts'))).toEqual(['0-of-3']);

    const whole = `${out}-whole`;
    await run(photos, whole);
    await refuse({ shard }, /a dataset without parts/, whole);
    expect(readdirSync(whole)).not.toContain('parts');
    await expect(mergeDataset(whole)).rejects.toThrow(/a dataset without parts/);
    await refuse({ shard }, /it holds ".+" and no parts/, join(out, '..'));
    // What others write beside the parts is in nobody's way.
    writeFileSync(join(out, 'report.html'), '');
    await run(photos, out, { shard });
    writeFileSync(join(out, 'parts/notes.txt'), '');
    await refuse({ shard }, /parts\/notes.txt.*not a part/);
  });

  it.each([
    { index: 3, count: 3 },
    { index: -1, count: 3 },
    { index: 0, count: 0 },
    { index: 0.5, count: 2 },
    { rank: 0 },
    'auto',
  ])('refuses the shard %o', async (shard) => {
    const { photos, out } = setUp();
    await expect(run(photos, out, { shard })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    expect(existsSync(out)).toBe(false);
  });
});

describe('parts that do not fit together', () => {
  /** Merging is refused, and what was merged before stays. */
  async function refuse(out: string, code: string, message: RegExp, details: object = {}): Promise<void> {
    await expect(mergeDataset(out)).rejects.toMatchObject({
      code,
      details,
      message: expect.stringMatching(message) as string,
    });
    expect(readdirSync(out)).not.toContain('.tapir-lock');
  }

  it('are refused: missing, unfinished, of several counts, misnamed', async () => {
    const { photos, out } = setUp();
    await expect(mergeDataset(out)).rejects.toThrow(/there is no such folder/);
    mkdirSync(out);
    await refuse(out, 'DATASET_INVALID', /it holds no parts/);
    await run(photos, out, { shard: { index: 1, count: 3 } });
    await refuse(out, 'DATASET_INCOMPLETE', /parts\/0-of-3, parts\/2-of-3; run tapir embed/, {
      missing: ['parts/0-of-3', 'parts/2-of-3'],
      count: 2,
    });
    await runAll(photos, out);
    const abort = new AbortController();
    copyFileSync(sea, join(photos, 'more.jpg'));
    for (let i = 0; i < 60; i++) copyFileSync(sea, join(photos, `more-${i}.jpg`));
    await expect(
      run(photos, out, {
        shard: { index: 1, count: 3 },
        signal: abort.signal,
        onProgress: ({ done }: { done: number }) => done >= 9 && abort.abort(new Error('stop')),
      }),
    ).rejects.toThrow('stop');
    await refuse(out, 'DATASET_INCOMPLETE', /missing or unfinished: parts\/1-of-3;/, { count: 1 });
    await runAll(photos, out);
    await expect(mergeDataset(out, { source: photos })).resolves.toBeDefined();
    renameSync(join(out, 'parts/1-of-3'), join(out, 'parts/01-of-3'));
    await refuse(out, 'DATASET_INVALID', /01-of-3.*not the name of a part/);
    renameSync(join(out, 'parts/01-of-3'), join(out, 'parts/1-of-4'));
    await refuse(out, 'DATASET_INVALID', /parts of 3 and of 4/);
  });

  it('are refused: an input twice', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out);
    rmSync(join(out, 'parts/2-of-3'), { recursive: true });
    cpSync(join(out, 'parts/0-of-3'), join(out, 'parts/2-of-3'), { recursive: true });
    await refuse(out, 'DATASET_INVALID', /the input ".+" more than once: in parts\/0-of-3 and parts\/2-of-3/);
    expect(readdirSync(out)).toEqual(['parts']);
  });

  it('are refused: made in another way', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out, 2);
    await run(photos, out, { shard: { index: 1, count: 2 }, dtype: 'float16', overwrite: true });
    await refuse(
      out,
      'DATASET_MISMATCH',
      /different settings: dtype is "float16" in "parts\/1-of-2" and "float32" in "parts\/0-of-2"/,
      { differences: [{ what: 'dtype', there: '"float16"', asked: '"float32"' }] },
    );
  });

  it('are refused: being written', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out, 2);
    const lock = join(out, 'parts/1-of-2/.tapir-lock');
    writeFileSync(lock, lockOf(process.pid));
    await refuse(out, 'OUTPUT_LOCKED', /another run is writing here/, { pid: process.pid });
    // Left by a process that has ended: no process has this number.
    writeFileSync(lock, lockOf(2 ** 22 + 1));
    await expect(mergeDataset(out)).resolves.toBeDefined();
  });

  it('are refused: stopped in the middle of new inputs', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out, 2);
    const journal = join(out, 'parts/1-of-2/journal.jsonl');
    const last = JSON.parse(readFileSync(journal, 'utf8').trim().split('\n').at(-1)!) as JournalShard;
    const open = {
      ...last,
      type: 'open',
      number: last.number + 1,
      firstRow: last.firstRow + last.rows,
      pieces: 1,
    };
    appendFileSync(journal, `${JSON.stringify(open)}\n`);
    await refuse(out, 'DATASET_INCOMPLETE', /missing or unfinished: parts\/1-of-2;/, { count: 1 });
  });

  it('are refused: damaged', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out, 2);
    const part = join(out, 'parts/1-of-2');
    const change = (name: string, edit: (text: string) => string): (() => void) => {
      const before = readFileSync(join(part, name), 'utf8');
      writeFileSync(join(part, name), edit(before));
      return () => writeFileSync(join(part, name), before);
    };
    const attempts: [() => () => void, RegExp][] = [
      [() => change('manifest.json', () => '{'), /manifest\.json/],
      [
        () => change('manifest.json', (text) => text.replace('"inputs": 8', '"inputs": 9')),
        /its shards hold \d+ inputs, its counts say \d+/,
      ],
      [
        () =>
          change('manifest.json', (text) => {
            const manifest = JSON.parse(text) as Manifest;
            const { counts, shards } = manifest;
            Object.assign(counts, { inputs: counts.inputs + 1, ok: counts.ok + 1 });
            Object.assign(shards[0]!, { inputs: shards[0]!.inputs + 1 });
            return JSON.stringify(manifest);
          }),
        /holds \d inputs, the manifest says \d/,
      ],
      [
        () =>
          change('manifest.json', (text) => {
            const manifest = JSON.parse(text) as Manifest;
            const [a, b] = manifest.shards as [ShardRecord, ShardRecord];
            Object.assign(a, { rows: a.rows + 1 });
            Object.assign(b, { rows: b.rows - 1, firstRow: b.firstRow + 1 });
            return JSON.stringify(manifest);
          }),
        /row \d+ is not one of the \d+ rows from \d+/,
      ],
      [
        () => change('journal.jsonl', (text) => text.split('\n').slice(0, -2).join('\n') + '\n'),
        /name different shards/,
      ],
      [() => change('manifest.json', (text) => text.replaceAll('features/f/', '../f/')), /leaves the folder/],
    ];
    for (const [damage, message] of attempts) {
      const restore = damage();
      await refuse(out, 'DATASET_INVALID', message);
      restore();
    }
    rmSync(join(part, 'features/f/f-00000.npy'));
    await refuse(out, 'DATASET_INVALID', /f-00000.npy.*missing/);
    expect(readdirSync(out)).toEqual(['parts']);
  });

  it('a signal stops it', async () => {
    const { photos, out } = setUp();
    await runAll(photos, out, 2);
    await expect(mergeDataset(out, { signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop');
    await expect(mergeDataset(out, { sauce: 'x' } as object)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});
