/** A dataset that several runs write: the same command goes on, adds, heals, and refuses what does not belong. */
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  type EmbedSummary,
  type FeatureExtractor,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { readMetadata, type MetadataRow } from '../../../src/datasets/formats/metadata.js';
import { fixturePath, projectPath } from '../../support/fixtures.js';
import { photosAndPlace } from '../../support/photos.js';
import { readNpy } from '../../support/npy.js';

const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
const sea = projectPath('examples/photos/sea/sea-0.jpg');
const city = projectPath('examples/photos/city/city-0.jpg');
let extractor: FeatureExtractor<'f'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(model, { avgpool: 'f' });
});
afterAll(() => extractor.close());

const setUp = (): { photos: string; out: string } => photosAndPlace('resume-');

const SETTINGS = { batch: 4, shardSize: 8, decodeThreads: 1 };
const run = (photos: string, out: string, options: object = {}): Promise<EmbedSummary> =>
  embedFolder(extractor, photos, { out, ...SETTINGS, ...options });

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

async function rowsOf(out: string): Promise<MetadataRow[]> {
  const files = readdirSync(join(out, 'metadata')).toSorted();
  const rows: MetadataRow[] = [];
  for (const file of files) for await (const row of readMetadata(join(out, 'metadata', file))) rows.push(row);
  return rows;
}

/** The features of a path, found as a reader finds them: by its row. */
async function featureOf(out: string, path: string): Promise<unknown> {
  const rows = (await rowsOf(out)).filter((row) => row.path === path);
  expect(rows, path).toHaveLength(1);
  const folder = join(out, 'features/f');
  const values = readdirSync(folder)
    .toSorted()
    .flatMap((file) => Array.from(readNpy(join(folder, file)).data as Float32Array));
  const row = rows[0]!.row;
  return row === null ? rows[0]!.errorCode : values.slice(128 * row, 128 * (row + 1));
}

describe('a run that was stopped', () => {
  it.each([
    [1, 60],
    [8, 0],
    [13, 60],
    [20, 0],
  ])('goes on as if it had not been, after %i images, saved every %i s', async (stopAt, shardSeconds) => {
    const { photos, out } = setUp();
    const whole = `${out}-whole`;
    await run(photos, whole);
    const abort = new AbortController();
    let shown = 0;
    const first = run(photos, out, {
      shardSeconds,
      signal: abort.signal,
      onProgress: ({ done }: { done: number }) => {
        shown = done;
        if (done >= stopAt) abort.abort(new Error('stop'));
      },
    });
    await expect(first).rejects.toThrow('stop');
    expect(readdirSync(out)).not.toContain('manifest.json');
    expect(await rowsOf(out)).toHaveLength(shown);
    const { manifest, embedded, skipped } = await run(photos, out);
    expect(contentOf(out)).toEqual(contentOf(whole));
    expect(manifest.counts).toEqual({ inputs: 26, ok: 24, errors: 2 });
    // What was done is not done again, except for what had failed.
    expect(embedded + skipped).toBe(26);
    expect(skipped).toBeGreaterThanOrEqual(shown - 2);
    expect(skipped).toBeLessThanOrEqual(shown);
  });

  it('while it added to a dataset leaves that readable as it was, and goes on, wherever it was', async () => {
    const { photos, out } = setUp();
    const options = { batch: 1, shardSize: 100 };
    const change = (): void => {
      copyFileSync(sea, join(photos, 'new-1.jpg'));
      copyFileSync(city, join(photos, 'new-2.jpg'));
      copyFileSync(city, join(photos, 'sea/sea-0.jpg'));
      copyFileSync(sea, join(photos, 'zero.jpg'));
    };
    await run(photos, out, options);
    const manifest = readFileSync(join(out, 'manifest.json'), 'utf8');
    change();
    // Two new ones; one that fails again and one that has changed; the former.
    const there: boolean[] = [];
    for (const stopAt of [1, 1, 2, 1]) {
      const abort = new AbortController();
      const onProgress = ({ done }: { done: number }): void => {
        if (done >= stopAt) abort.abort(new Error('stop'));
      };
      await expect(run(photos, out, { ...options, signal: abort.signal, onProgress })).rejects.toThrow(
        'stop',
      );
      there.push(existsSync(join(out, 'manifest.json')));
      if (there.at(-1)!) expect(readFileSync(join(out, 'manifest.json'), 'utf8')).toBe(manifest);
    }
    // Until a shard is finished, in the second run or the third that of the new ones, the manifest is right.
    expect([there[0], ...there.slice(2)]).toEqual([true, false, false]);
    const { manifest: after } = await run(photos, out, options);
    expect(after.counts).toEqual({ inputs: 28, ok: 27, errors: 1 });
    expect(after.shards.map(({ deadRows }) => deadRows).reduce((a, b) => a + b)).toBe(1);
    expect(after.features['f']).toMatchObject({ rows: 28 });
    expect(await featureOf(out, 'sea/sea-0.jpg')).toEqual(await featureOf(out, 'new-2.jpg'));
    expect(await featureOf(out, 'zero.jpg')).toEqual(await featureOf(out, 'new-1.jpg'));
    expect(await featureOf(out, 'dunes/cut.jpg')).toBe('IMAGE_TRUNCATED');
  });

  it('leaves no file of its own that its journal does not name, and the files of others', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const foreign = ['features/f/index.faiss', 'features/f/f-1.npy', 'metadata/NOTES.md'];
    for (const file of foreign) writeFileSync(join(out, file), 'mine');
    writeFileSync(join(out, 'features/f/f-00009.npy'), 'left over');
    writeFileSync(join(out, 'metadata/.tapir-7-0123abcd.partial'), 'left over');
    await run(photos, out);
    expect(Object.keys(contentOf(out)).filter((file) => /00009|partial/.test(file))).toEqual([]);
    await run(photos, out, { overwrite: true });
    for (const file of foreign) expect(readFileSync(join(out, file), 'utf8')).toBe('mine');
  });

  it('can be started again after its first start failed', async () => {
    const { photos, out } = setUp();
    mkdirSync(out);
    // A journal that cannot be created, after the folders were.
    symlinkSync(join(out, 'nowhere', 'journal'), join(out, 'journal.jsonl'));
    await expect(run(photos, out)).rejects.toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
    rmSync(join(out, 'journal.jsonl'));
    expect(readdirSync(out).toSorted()).toEqual(['features', 'metadata']);
    await expect(run(photos, out)).resolves.toMatchObject({ embedded: 26 });
  });
});

describe('a finished dataset', () => {
  it('is left as it is by a run without news', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const before = contentOf(out);
    const journal = readFileSync(join(out, 'journal.jsonl'), 'utf8');
    const summary = await run(photos, out);
    expect(contentOf(out)).toEqual(before);
    expect(readFileSync(join(out, 'journal.jsonl'), 'utf8')).toBe(journal);
    // The two that failed are tried again.
    expect(summary).toMatchObject({
      embedded: 2,
      failed: 2,
      skipped: 24,
      manifest: { counts: { inputs: 26 } },
    });
    expect(summary.failures.map(({ error }) => error.code)).toEqual(['IMAGE_TRUNCATED', 'IMAGE_EMPTY']);
  });

  it('continues if its journal was written before engines and precisions were recorded', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const path = join(out, 'journal.jsonl');
    const journal = readFileSync(path, 'utf8').replace('"engine":"onnxruntime","precision":"float32",', '');
    expect(journal).not.toContain('engine');
    writeFileSync(path, journal);
    copyFileSync(sea, join(photos, 'new.jpg'));
    const { skipped, manifest } = await run(photos, out);
    expect(skipped).toBe(24);
    expect(manifest.run).toMatchObject({ engine: 'onnxruntime', precision: 'float32' });
    expect(manifest.versions.onnxruntime).toMatch(/^\d/);
  });

  it('keeps the versions of the decoder that made it', async () => {
    const { photos, out } = setUp();
    rmSync(join(photos, 'zero.jpg'));
    rmSync(join(photos, 'dunes/cut.jpg'));
    copyFileSync(fixturePath('preprocess/images/own_alpha.png'), join(photos, 'alpha.png'));
    const { versions } = (await run(photos, out)).manifest;
    expect(versions.sharp).toMatch(/^\d/);
    const again = await run(photos, out);
    expect(again.embedded).toBe(0);
    expect(again.manifest.versions).toEqual(versions);
  });

  it('takes new images into new shards', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const before = contentOf(out);
    copyFileSync(sea, join(photos, 'aaa.jpg'));
    const { manifest, embedded } = await run(photos, out);
    const after = contentOf(out);
    expect(Object.keys(after).length).toBe(Object.keys(before).length + 2);
    expect(after).toMatchObject(before);
    expect(embedded).toBe(3);
    expect(manifest.counts).toEqual({ inputs: 27, ok: 25, errors: 2 });
    expect(manifest.shards.at(-1)).toMatchObject({ inputs: 1, rows: 1, deadRows: 0, firstRow: 24 });
    expect(await featureOf(out, 'aaa.jpg')).toEqual(await featureOf(out, 'sea/sea-0.jpg'));
    expect(manifest.runs).toMatchObject([
      { firstShard: 0, batch: 4, shardSize: 8, device: 'cpu' },
      { firstShard: 4 },
    ]);
  });

  it('heals: an input is in the metadata once, with its latest outcome', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    copyFileSync(sea, join(photos, 'zero.jpg'));
    const { manifest, failures } = await run(photos, out);
    expect(failures.map(({ path }) => path)).toEqual(['dunes/cut.jpg']);
    expect(manifest.counts).toEqual({ inputs: 26, ok: 25, errors: 1 });
    expect((await rowsOf(out)).length).toBe(26);
    expect(await featureOf(out, 'zero.jpg')).toEqual(await featureOf(out, 'sea/sea-0.jpg'));
    expect(manifest.shards.map(({ inputs }) => inputs).reduce((a, b) => a + b)).toBe(26);
    // The next run knows it.
    expect(await run(photos, out)).toMatchObject({ embedded: 1, failed: 1, skipped: 25 });
  });

  it('takes changed files again; their old rows are dead', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    copyFileSync(city, join(photos, 'sea/sea-0.jpg'));
    const { manifest, changed } = await run(photos, out);
    expect(changed).toBe(1);
    expect(await featureOf(out, 'sea/sea-0.jpg')).toEqual(await featureOf(out, 'city/city-0.jpg'));
    expect(manifest.shards.map(({ deadRows }) => deadRows).reduce((a, b) => a + b)).toBe(1);
    expect(manifest.counts).toEqual({ inputs: 26, ok: 24, errors: 2 });
    expect(manifest.features['f']).toMatchObject({ rows: 25 });
    // One that cannot be read any more has the error of what it is now.
    writeFileSync(join(photos, 'sea/sea-0.jpg'), 'no image');
    await run(photos, out);
    expect(await featureOf(out, 'sea/sea-0.jpg')).toBe('IMAGE_UNREADABLE');
    expect((await rowsOf(out)).length).toBe(26);
  });

  it('keeps the features of a file that was deleted', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const before = contentOf(out);
    rmSync(join(photos, 'sea/sea-0.jpg'));
    expect((await run(photos, out)).manifest.counts.inputs).toBe(26);
    expect(contentOf(out)).toEqual(before);
    // Also if a list still names it.
    const list = join(out, '../list');
    const embedList = (): Promise<EmbedSummary> =>
      embedFolder(extractor, [join(photos, 'city/city-0.jpg')], { out: list, ...SETTINGS });
    await embedList();
    rmSync(join(photos, 'city/city-0.jpg'));
    expect(await embedList()).toMatchObject({ embedded: 0, skipped: 1, manifest: { counts: { ok: 1 } } });
  });

  it('goes by content with checksum: touched files are not embedded again', async () => {
    const { photos, out } = setUp();
    await run(photos, out, { checksum: true });
    const touched = join(photos, 'sea/sea-0.jpg');
    utimesSync(touched, 1, 1);
    expect((await run(photos, out, { checksum: true })).skipped).toBe(24);
    const { size } = statSync(touched);
    const bytes = readFileSync(touched);
    // One byte of the picture, with the same size and the same time.
    bytes[size - 400] = bytes[size - 400]! ^ 4;
    writeFileSync(touched, bytes);
    utimesSync(touched, 1, 1);
    expect((await run(photos, out, { checksum: true })).skipped).toBe(23);
    expect(
      (await rowsOf(out)).every(({ stamp }) => stamp === null || /^[0-9a-f]{64}$/.test(stamp.sha256!)),
    ).toBe(true);
  });

  it('is made good after a crash between a new shard and the old metadata', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const stale = readFileSync(join(out, 'metadata/metadata-00003.parquet'));
    copyFileSync(sea, join(photos, 'zero.jpg'));
    await run(photos, out);
    const healed = contentOf(out);
    // As if the run had died before it dropped the old row.
    writeFileSync(join(out, 'metadata/metadata-00003.parquet'), stale);
    rmSync(join(out, 'manifest.json'));
    const { manifest } = await run(photos, out);
    expect(contentOf(out)).toEqual(healed);
    expect(manifest.counts).toEqual({ inputs: 26, ok: 25, errors: 1 });
  });
});

describe('what does not belong', () => {
  it('is refused with the difference', async () => {
    const { photos, out } = setUp();
    await run(photos, out);
    const before = contentOf(out);
    const other = await createFeatureExtractor(model, { layer4: 'f' });
    const attempts: [() => Promise<unknown>, RegExp][] = [
      [
        () => embedFolder(other, photos, { out }),
        /output "f" is tensor ".*" there and tensor ".*" in this run/,
      ],
      [() => run(photos, out, { dtype: 'float16' }), /dtype is "float32" there and "float16" in this run/],
      [() => run(photos, out, { keepDims: true }), /keepDims is false there and true in this run/],
      [() => run(photos, out, { checksum: true }), /checksum/],
      [
        () => run(photos, out, { transform: 'ImageNet1K_V2' }),
        /transform.resize is 256 there and 232 in this run/,
      ],
    ];
    for (const [attempt, message] of attempts)
      await expect(attempt()).rejects.toMatchObject({ code: 'DATASET_MISMATCH', message });
    await other.close();
    expect(contentOf(out)).toEqual(before);
    // What changes no vector may differ.
    const limitPixels = createTransform({ limitPixels: 1e8 });
    await expect(run(photos, out, { transform: limitPixels, batch: 3, shardSize: 9 })).resolves.toBeDefined();
    // A folder that was refused is not locked.
    await expect(run(photos, out, { overwrite: true, dtype: 'float16' })).resolves.toBeDefined();
  });
});

describe('a list', () => {
  it('of bytes is compared by content: one of another photo of the same size is embedded again', async () => {
    const { out } = setUp();
    const photos = [sea, city].map((file) => readFileSync(file));
    const settings = { out, ...SETTINGS };
    await embedFolder(extractor, photos, settings);
    expect((await rowsOf(out)).map(({ stamp }) => stamp?.sha256)).toEqual(
      photos.map((bytes) => createHash('sha256').update(bytes).digest('hex')),
    );
    expect(await embedFolder(extractor, photos, settings)).toMatchObject({ embedded: 0, skipped: 2 });
    const other = Buffer.from(photos[1]!);
    other[other.length - 400]! ^= 4;
    const changed = await embedFolder(extractor, [photos[0]!, other], settings);
    expect(changed).toMatchObject({ embedded: 1, changed: 1, skipped: 1 });
  });

  it('with an input twice has it once, and bytes are known by their position', async () => {
    const { out } = setUp();
    const list = [sea, city, sea, readFileSync(city), sea];
    const options = { out, ...SETTINGS };
    const summary = await embedFolder(extractor, list, options);
    expect(summary).toMatchObject({ embedded: 3, duplicates: 2, skipped: 0 });
    expect((await rowsOf(out)).map(({ path }) => path)).toEqual([sea, city, '#3']);
    expect(await embedFolder(extractor, list, options)).toMatchObject({
      embedded: 0,
      duplicates: 2,
      skipped: 3,
    });
  });
});

describe('maxFailures', () => {
  it('ends a run at a number or a share, with what is finished kept', async () => {
    const { photos, out } = setUp();
    for (let i = 0; i < 5; i++) writeFileSync(join(photos, `a-${i}.jpg`), 'no image');
    await expect(run(photos, out, { maxFailures: 2 })).rejects.toMatchObject({
      code: 'TOO_MANY_FAILURES',
      details: { failed: 4, done: 4, limit: '2' },
    });
    // A share is judged at the end if there are few; the dataset is there then.
    await expect(run(photos, out, { maxFailures: '20%' })).rejects.toMatchObject({
      code: 'TOO_MANY_FAILURES',
      details: { failed: 7, done: 31, limit: '20%' },
    });
    expect(readdirSync(out)).toContain('manifest.json');
    await expect(run(photos, out, { maxFailures: 7 })).resolves.toBeDefined();
    await expect(run(photos, out, { maxFailures: 0 })).rejects.toThrow(/failed, more than the 0 allowed/);
  });

  it.each([-1, 1.5, '101%', 'many', '%'])('refuses %s', async (maxFailures) => {
    const { photos, out } = setUp();
    await expect(run(photos, out, { maxFailures })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
