/** Where labels come from, what is left out, and what is refused. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { createFeatureExtractor, embedFolder, openDataset, TapirError, type Dataset } from 'onnx-tapir';
import { trainProbe, type Probe, type TrainProbeOptions } from 'onnx-tapir/features';
import { describe, expect, it } from 'vitest';
import { failureOf } from '../../support/failure.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { photosAndPlace } from '../../support/photos.js';
import { storeDataset } from '../../support/stored-dataset.js';
import { datasetOf, farthest, weightsOf, type Labelled } from '../../support/probe-data.js';

const scratch = scratchFolder();
const FAST = { kind: 'ridge', strength: 1, folds: 2 } as const;

/** Two classes that the first element tells apart. */
const easy: Labelled = {
  elements: 2,
  vectors: Array.from({ length: 20 }, (_, i) => Float32Array.of(i % 2 === 0 ? -3 : 3, i / 10)),
  labels: Array.from({ length: 20 }, (_, i) => i % 2),
};

function train(dataset: Dataset, labels: string | ReadonlyMap<string, string>, options = {}): Promise<Probe> {
  return trainProbe(dataset, labels, { ...FAST, ...options });
}

/** Only some kinds have a strength. */
function optionsOf(kind: TrainProbeOptions['kind']): object {
  return { kind, strength: kind === 'logistic' || kind === 'ridge' ? 1 : undefined };
}

describe('labels', () => {
  it('come from a CSV file; unlabelled images and unknown paths are counted', async () => {
    const file = join(scratch, 'labels.csv');
    const known = easy.labels.slice(0, 16).map((label, i) => `${label}/${i}.png,"kind, ${label}"`);
    writeFileSync(file, ['path,label', ...known, 'nowhere.png,x', 'none.png,y'].join('\n'));
    const { classes, warnings, results } = await train(datasetOf(easy), file);
    expect(classes).toEqual(['kind, 0', 'kind, 1']);
    expect(results).toMatchObject({ rows: 16, accuracy: 1, suspectCount: 0 });
    expect(warnings).toEqual([
      '4 images have no label and are left out',
      '1 image left out, which could not be embedded',
      '2 labels for paths that the dataset does not have: "nowhere.png", "none.png" (it has "0/broken.png")',
    ]);
  });

  it('come from a table whose lines end in several ways', async () => {
    const file = join(scratch, 'ends.csv');
    const lines = easy.labels.map((label, i) => `${label}/${i}.png,${label}${['\n', '\r\n', '\r'][i % 3]!}`);
    writeFileSync(file, `\uFEFFpath,label\r\n${lines.join('')}`);
    expect((await train(datasetOf(easy), file)).results).toMatchObject({ rows: 20, accuracy: 1 });
  });

  it.each(['GZIP', 'BROTLI'] as const)('come from a Parquet file with %s', async (codec) => {
    const { parquetWriteBuffer } = await import('hyparquet-writer');
    const file = join(scratch, `${codec}.parquet`);
    const path = easy.labels.map((label, i) => `${label}/${i}.png`);
    const label = [...easy.labels];
    const columnData = [
      { name: 'path', type: 'STRING', data: path } as const,
      { name: 'label', type: 'INT32', data: label } as const,
    ];
    const compressors = { GZIP: gzipSync, BROTLI: brotliCompressSync };
    writeFileSync(file, new Uint8Array(parquetWriteBuffer({ columnData, codec, compressors })));
    expect((await train(datasetOf(easy), file)).results).toMatchObject({ rows: 20, accuracy: 1 });
  });

  it('come from a Parquet file; integers are classes by value', async () => {
    const { parquetWriteBuffer } = await import('hyparquet-writer');
    const file = join(scratch, 'labels.parquet');
    const path = easy.labels.map((label, i) => `${label}/${i}.png`);
    const label = easy.labels.map((one) => [100, 20][one]!);
    const columnData = [
      { name: 'path', type: 'STRING', data: path } as const,
      { name: 'label', type: 'INT32', data: label } as const,
    ];
    writeFileSync(file, new Uint8Array(parquetWriteBuffer({ columnData })));
    const { classes, results } = await train(datasetOf(easy), file);
    expect(classes).toEqual(['20', '100']);
    expect(results?.accuracy).toBe(1);
  });

  it('may be missing in rows of a table, as labelling tools write them', async () => {
    const { parquetWriteBuffer } = await import('hyparquet-writer');
    const [csv, parquet] = [join(scratch, 'some.csv'), join(scratch, 'some.parquet')];
    const path = easy.labels.map((label, i) => `${label}/${i}.png`);
    const label = easy.labels.map((one, i) => (i % 5 === 0 ? null : String(one)));
    writeFileSync(csv, ['path,label', ...path.map((one, i) => `${one},${label[i] ?? ''}`)].join('\n'));
    const columnData = [
      { name: 'path', type: 'STRING', data: path } as const,
      { name: 'label', type: 'STRING', data: label } as const,
    ];
    writeFileSync(parquet, new Uint8Array(parquetWriteBuffer({ columnData })));
    for (const file of [csv, parquet]) {
      // oxlint-disable-next-line no-await-in-loop -- two small probes
      const { results, warnings } = await train(datasetOf(easy), file);
      expect(results).toMatchObject({ rows: 16 });
      expect(warnings[0]).toBe('4 images have no label and are left out');
    }
    writeFileSync(csv, 'Path,Label\na.png,a\n');
    expect((await failureOf(train(datasetOf(easy), csv), TapirError)).message).toContain(
      'it has no column "path"; the columns are Path, Label: a table of labels has the columns path and label',
    );
  });

  it('are refused if they are one class, or none, or contradict each other', async () => {
    const one = new Map(easy.labels.map((label, i) => [`${label}/${i}.png`, 'same']));
    const dataset = datasetOf(easy);
    expect(await failureOf(train(dataset, one), TapirError)).toMatchObject({ code: 'OPTION_INVALID' });
    expect((await failureOf(train(dataset, new Map()), TapirError)).message).toContain('no label fits');
    const misspelt = new Map([
      ['0/0.png', 'cat'],
      ['dgo/1.png', 'dog'],
    ]);
    expect((await failureOf(train(dataset, misspelt), TapirError)).message).toBe(
      'option "labels" must be a source of at least two classes (the only class is "cat"; 1 label for paths that the dataset does not have: "dgo/1.png" (it has "0/broken.png")), got "a Map"',
    );
    const inputs = [
      { path: '0-broken.png' },
      ...easy.labels.map((label, row) => ({ path: `${label}-${row}.png`, row })),
    ];
    const flat = storeDataset({ key: 'f', rows: easy.vectors, inputs }, openDataset);
    expect((await failureOf(train(flat, 'by-folder'), TapirError)).message).toContain(
      'the photos lie in no folder, such as "0-broken.png"; give a table with the columns path and label',
    );
    expect((await failureOf(train(dataset, 'by-colour'), TapirError)).message).toContain('by-folder');
    const file = join(scratch, 'twice.csv');
    writeFileSync(file, 'path,label\n0/0.png,a\n0/0.png,b\n');
    expect(await failureOf(train(dataset, file), TapirError)).toMatchObject({ code: 'SOURCE_INVALID' });
    expect(await failureOf(train(dataset, join(scratch, 'no.csv')), TapirError)).toMatchObject({
      code: 'SOURCE_INVALID',
    });
  });
});

describe('results', () => {
  it('name the image with a NaN', async () => {
    const vectors = easy.vectors.map((vector, i) => (i === 13 ? Float32Array.of(Number.NaN, 0) : vector));
    const error = await failureOf(train(datasetOf({ ...easy, vectors }), 'by-folder'), TapirError);
    expect(error.code).toBe('DATASET_INVALID');
    expect(error.message).toContain('1/13.png');
  });

  it.each(['logistic', 'ridge', 'knn', 'centroid'] as const)('%s finds swapped labels', async (kind) => {
    const labels = new Map(easy.labels.map((label, i) => [`${label}/${i}.png`, `class ${label}`]));
    labels.set('0/4.png', 'class 1');
    labels.set('1/9.png', 'class 0');
    const { results } = await train(datasetOf(easy), labels, optionsOf(kind));
    expect(new Set(results!.suspects.map(({ path }) => path))).toEqual(new Set(['0/4.png', '1/9.png']));
    expect(results!.confusion).toEqual([
      [9, 1],
      [1, 9],
    ]);
    expect(results!.calibration === null).toBe(kind === 'ridge' || kind === 'centroid');
  });

  it.each(['logistic', 'ridge', 'knn', 'centroid'] as const)(
    '%s counts a class of one image as wrong, and says so',
    async (kind) => {
      const labels = new Map(
        easy.labels.map((label, i) => [`${label}/${i}.png`, i === 7 ? 'z' : `${label}`]),
      );
      const { results, warnings } = await train(datasetOf(easy), labels, optionsOf(kind));
      expect(results!.classes[2]).toMatchObject({ label: 'z', support: 1, recall: 0 });
      expect(warnings.at(-1)).toContain('1 classes have one image');
    },
  );

  it('need a strength if no folds are held out', async () => {
    const options = { kind: 'logistic', folds: 0, strength: 'auto' } as const;
    expect(await failureOf(train(datasetOf(easy), 'by-folder', options), TapirError)).toMatchObject({
      details: { option: 'strength' },
    });
  });
});

describe('datasets on disk', () => {
  it('give the same classifier in shards of float16 Parquet, with images that failed', async () => {
    const { photos, out } = photosAndPlace('probe-');
    await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'e' });
    const transform = { resize: 64, crop: 64 };
    await embedFolder(extractor, photos, { out, transform });
    const half = `${out}-half`;
    await embedFolder(extractor, photos, {
      out: half,
      transform,
      dtype: 'float16',
      format: 'parquet',
      shardSize: 5,
    });
    const options = { kind: 'ridge', strength: 1, folds: 3 } as const;
    const [whole, parts] = await Promise.all(
      [out, half].map(async (folder) => trainProbe(await openDataset(folder), 'by-folder', options)),
    );
    expect(whole!.warnings).toContain('2 images left out, which could not be embedded');
    expect(parts!.classes).toEqual(whole!.classes);
    expect(farthest(weightsOf(parts!), weightsOf(whole!))).toBeLessThan(1e-2);
    const byStatus = await failureOf(
      trainProbe(await openDataset(half), 'column:status', options),
      TapirError,
    );
    expect(byStatus.message).toContain('the only class is "ok"');
    const absent = await failureOf(trainProbe(await openDataset(half), 'column:kind', options), TapirError);
    expect(absent).toMatchObject({ code: 'DATASET_INVALID' });
  });
});
