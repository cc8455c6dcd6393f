/** Search by words, images and vectors together, on a dataset of a CLIP's image tower. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset, TapirError, type Dataset } from 'onnx-tapir';
import {
  classifyByWords,
  classifyZeroShot,
  createTextEncoder,
  encodeLabels,
  openSearch,
  searchDataset,
  type SearchQuery,
  type ZeroShotLabel,
} from 'onnx-tapir/features';
import { beforeAll, describe, expect, it } from 'vitest';
import { encodeNpyHeader } from '../../../../src/datasets/formats/npy.js';
import { failureOf } from '../../../support/failure.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';
import { writeHuggingFacePair } from '../../../support/text-models.js';

const scratch = scratchFolder();
const pair = join(scratch, 'clip');
const textModel = writeHuggingFacePair(pair, 'clip');
const model = join(pair, 'onnx/vision_model.onnx');
const out = join(scratch, 'vectors');
const photo = projectPath('examples/photos/sea/sea-0.jpg');

let dataset: Dataset;
let rows: Float32Array[];

beforeAll(async () => {
  await using extractor = await createFeatureExtractor(model, ['image_embeds']);
  await embedFolder(extractor, projectPath('examples/photos'), { out });
  dataset = await openDataset(out);
  rows = [];
  for await (const { data, rows: count } of dataset.blocks('image_embeds'))
    for (let i = 0; i < count; i++) rows.push(data.slice(i * 12, (i + 1) * 12));
});

const unitOf = (vector: ArrayLike<number>): number[] => {
  const values = Array.from(vector);
  return values.map((value) => value / Math.hypot(...values));
};
const meanOf = (vectors: readonly (readonly number[])[]): number[] =>
  vectors[0]!.map((_, i) => vectors.reduce((sum, vector) => sum + vector[i]!, 0) / vectors.length);
const minus = (a: readonly number[], b: readonly number[]): number[] => a.map((value, i) => value - b[i]!);

/** Cosines with all rows, the largest first. */
function cosines(query: readonly number[]): number[] {
  const unit = unitOf(query);
  return rows
    .map((row) => unitOf(row).reduce((sum, value, i) => sum + value * unit[i]!, 0))
    .toSorted((a, b) => b - a);
}

async function scoresOf(query: SearchQuery): Promise<number[]> {
  const [hits] = await searchDataset(dataset, query, { model, top: 100 });
  return hits!.map(({ score }) => score);
}

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(rows.length);
  actual.forEach((value, i) => expect(value).toBeCloseTo(expected[i]!, 5));
}

async function vectorsOf(...texts: string[]): Promise<number[][]> {
  await using tower = await createTextEncoder(textModel);
  return (await tower.encode(texts)).map(unitOf);
}

describe('a dataset of vectors that were cut', () => {
  it('has their first elements in length 1, and cuts photos and texts of queries likewise', async () => {
    const cut = join(scratch, 'cut');
    await using extractor = await createFeatureExtractor(model, ['image_embeds']);
    const options = { out: cut, dims: 5 } as const;
    const { manifest } = await embedFolder(extractor, projectPath('examples/photos'), options);
    expect(manifest.request[0]!.computed).toEqual(['dims 5']);
    expect(manifest.features['image_embeds']).toMatchObject({ dims: [5], dtype: 'float32' });
    const again = await embedFolder(extractor, projectPath('examples/photos'), options);
    expect(again.embedded).toBe(0);
    const firstOf = (row: ArrayLike<number>): number[] => unitOf(Array.from(row).slice(0, 5));
    const opened = await openDataset(cut);
    let at = 0;
    for await (const { vector } of opened.vectors('image_embeds'))
      for (const [i, value] of firstOf(rows[at++]!).entries()) expect(vector[i]).toBeCloseTo(value, 6);
    const [photos] = await searchDataset(opened, { images: [photo] }, { model, top: 1 });
    expect(photos![0]).toMatchObject({ path: 'sea/sea-0.jpg' });
    expect(photos![0]!.score).toBeCloseTo(1, 6);
    const [text] = await vectorsOf('a cat');
    const wanted = firstOf(text!);
    const best = rows.map((row) => firstOf(row).reduce((sum, value, i) => sum + value * wanted[i]!, 0));
    const [texts] = await searchDataset(opened, { text: 'a cat' }, { model, top: 1 });
    expect(texts![0]!.score).toBeCloseTo(Math.max(...best), 5);
    expect(await classifyZeroShot(opened, ['dog', 'cat'], { model })).toHaveLength(rows.length);
    await expect(embedFolder(extractor, projectPath('examples/photos'), { out: cut })).rejects.toMatchObject({
      code: 'DATASET_MISMATCH',
    });
    await expect(extractor.embed(photo, { dims: 13 })).rejects.toThrow(
      'at most 12, the length of "image_embeds"',
    );
    expect((await extractor.embed(photo, { dims: 5 }))[0]).toBeCloseTo(
      firstOf(rows[[...rows.keys()].find((row) => photos![0]!.row === row)!]!)[0]!,
      6,
    );
  });
});

describe('openSearch', () => {
  it('takes photos where a step was added to a tensor that the dataset is named after', async () => {
    const steps = join(scratch, 'steps');
    await using extractor = await createFeatureExtractor(model, ['image_embeds'], { l2Normalize: true });
    await embedFolder(extractor, projectPath('examples/photos'), { out: steps });
    await using search = await openSearch(await openDataset(steps), { model });
    const [hits] = await search.search({ images: [photo] }, { top: 1 });
    expect(hits?.[0]).toMatchObject({ path: 'sea/sea-0.jpg', score: expect.closeTo(1, 5) });
  });

  it('answers many queries as searchDataset answers one, until it is closed', async () => {
    const search = await openSearch(dataset, { model });
    expect(search).toMatchObject({ key: 'image_embeds', takesTexts: true, takesImages: true });
    for (const query of [{ text: 'a dog' }, { text: 'the sea', images: [photo] }, [rows[2]!]])
      // oxlint-disable-next-line no-await-in-loop -- one after the other, as a service asks
      expect(await search.search(query, { top: 5 })).toEqual(
        await searchDataset(dataset, query, { model, top: 5 }), // oxlint-disable-line no-await-in-loop
      );
    await search.close();
    const error = await failureOf(search.search({ text: 'a dog' }), TapirError);
    expect(error).toMatchObject({ code: 'CLOSED', details: { what: 'search' } });
  });

  it('knows what it can be asked', async () => {
    await using plain = await openSearch(dataset);
    expect(plain).toMatchObject({ takesTexts: false, takesImages: false });
    expect((await plain.search([rows[0]!]))[0]).toHaveLength(10);
    await using words = await openSearch(dataset, { textModel });
    expect(words).toMatchObject({ takesTexts: true, takesImages: false });
    expect((await words.search({ text: 'a dog' }))[0]).toHaveLength(10);
    const other = join(pair, 'onnx/model.onnx');
    const error = await failureOf(openSearch(dataset, { model: other }), TapirError);
    expect(error).toMatchObject({ code: 'CHECKSUM_MISMATCH' });
  });
});

describe('searchDataset', () => {
  it('ranks by the cosine with a text', async () => {
    const [dog] = await vectorsOf('a dog on grass');
    expectClose(await scoresOf({ text: 'a dog on grass' }), cosines(dog!));
    const [hits] = await searchDataset(dataset, { text: 'a dog on grass' }, { textModel, top: 1 });
    expect(hits![0]!.score).toBeCloseTo(cosines(dog!)[0]!, 5);
  });

  it('takes the mean of texts, images and vectors, less the mean of what is not wanted', async () => {
    const [dog, cat, sea, car] = await vectorsOf('a dog', 'two cats', 'the sea', 'a car');
    expectClose(await scoresOf({ text: ['a dog', 'two cats'] }), cosines(meanOf([dog!, cat!])));
    const row = rows[3]!;
    const not = { text: ['the sea', 'a car'] };
    expectClose(
      await scoresOf({ text: 'a dog', vectors: [row], not }),
      cosines(minus(meanOf([dog!, unitOf(row)]), meanOf([sea!, car!]))),
    );
    const [hits] = await searchDataset(dataset, { images: [photo], not: { vectors: [row] } }, { model });
    const [own] = await searchDataset(dataset, { images: [photo] }, { model, top: 1 });
    expect(own![0]).toMatchObject({ path: 'sea/sea-0.jpg' });
    expect(hits!.map(({ score }) => score)).toEqual(
      hits!.map(({ score }) => score).toSorted((a, b) => b - a),
    );
  });

  it.each([
    ['nothing', {}, 'query'],
    ['only what is not wanted', { not: { vectors: [[1]] } }, 'query'],
    ['an unknown part', { words: 'a dog' }, 'query'],
    ['texts that are none', { text: [1] }, 'query.text'],
    ['a vector of another length', { vectors: [[1, 2]] }, 'query'],
    ['numbers that are none', { vectors: [[NaN]] }, 'query.vectors'],
    ['nested exclusion', { text: 'a', not: { not: {} } }, 'query.not'],
  ])('refuses %s', async (_what, query, option) => {
    const error = await failureOf(searchDataset(dataset, query as SearchQuery, { model }), TapirError);
    expect(error).toMatchObject({ code: 'OPTION_INVALID', details: { option } });
  });

  it('asks for the models that it needs, and refuses those that do not belong together', async () => {
    const refused = (query: SearchQuery, options: object) =>
      failureOf(searchDataset(dataset, query, options), TapirError);
    expect(await refused({ text: 'a' }, {})).toMatchObject({ details: { option: 'textModel' } });
    expect(await refused({ images: [photo] }, { textModel })).toMatchObject({ details: { option: 'model' } });
    // Beside the model of another pair lies a tower of another space.
    const other = join(pair, 'onnx/model.onnx');
    expect(await refused({ text: 'a' }, { model: other })).toMatchObject({ code: 'CHECKSUM_MISMATCH' });
    const siglip = writeHuggingFacePair(join(scratch, 'siglip'), 'siglip');
    const misfit = await refused({ text: 'a' }, { textModel: siglip });
    expect(misfit).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining('12 elements') });
  });
});

describe('classifyByWords', () => {
  it('gives photos the labels and probabilities that a dataset of them gets', async () => {
    const labels = ['sea', 'city'];
    const templates = ['a photo of {}.'];
    const expected = await classifyZeroShot(dataset, labels, { model, templates });
    const byPath = new Map(expected.map(({ path, ...label }) => [path, label]));
    const photos = ['sea/sea-0.jpg', 'city/city-0.jpg'].map((name) => projectPath(`examples/photos/${name}`));
    const found = [];
    for await (const { classes, error } of classifyByWords(model, photos, labels)) {
      expect(error).toBeNull();
      found.push(classes);
    }
    for (const [at, name] of ['sea/sea-0.jpg', 'city/city-0.jpg'].entries()) {
      const [first, second] = found[at]!;
      expect(first!.label).toBe(byPath.get(name)!.label);
      expect(first!.score).toBeCloseTo(byPath.get(name)!.probability, 4);
      expect(first!.score + second!.score).toBeCloseTo(1, 5);
    }
    const printed = await runTapir([
      'classify',
      photos[0]!,
      '--words',
      'sea, city',
      '--model',
      model,
      '--json',
    ]);
    expect(JSON.parse(printed.stdout)).toMatchObject({ classes: found[0]!.map(({ label }) => ({ label })) });
    const one = await runTapir(['classify', photos[0]!, '--words', 'sea', '--model', model]);
    expect(one.stderr).toContain('two or more');
  });
});

describe('classifyZeroShot', () => {
  it('gives each image the label with the largest cosine, and its softmax', async () => {
    const labels = ['dog', 'sea', 'street'];
    const templates = ['a photo of a {}.', 'a {} at night'];
    const found = await classifyZeroShot(dataset, labels, { model, templates, scale: 20 });
    await using tower = await createTextEncoder(textModel);
    const classes = await encodeLabels(tower, labels, { templates });
    expect(found).toHaveLength(rows.length);
    for (const { row, label, score, probability, path } of found) {
      const image = unitOf(rows[row]!);
      const all = classes.map((one) => image.reduce((sum, value, i) => sum + value * one[i]!, 0));
      const best = Math.max(...all);
      expect(label).toBe(labels[all.indexOf(best)]);
      expect(score).toBeCloseTo(best, 5);
      expect(probability).toBeCloseTo(1 / all.reduce((sum, one) => sum + Math.exp(20 * (one - best)), 0), 4);
      expect(path).toMatch(/jpg$/);
    }
    // The file of both towers says the scale; a text tower does not.
    const scales = [
      [join(pair, 'onnx/model.onnx'), Math.exp(2.6592)],
      [textModel, 100],
    ] as const;
    for (const [tower, usual] of scales) {
      const given = await classifyZeroShot(dataset, labels, { textModel: tower, scale: usual });
      const left = await classifyZeroShot(dataset, labels, { textModel: tower });
      left.forEach(({ probability }, i) => expect(probability).toBeCloseTo(given[i]!.probability, 5));
    }
    const one = classifyZeroShot(dataset, ['dog'], { textModel });
    expect(await failureOf(one, TapirError)).toMatchObject({ details: { option: 'labels' } });
    const scaled = classifyZeroShot(dataset, labels, { textModel, scale: 0 });
    expect(await failureOf(scaled, TapirError)).toMatchObject({ details: { option: 'scale' } });
  });
});

interface Printed {
  readonly results: readonly {
    readonly query: string;
    readonly hits: readonly { readonly score: number }[];
  }[];
}

async function search(args: readonly string[], input?: string): Promise<Printed['results']> {
  const run = await runTapir(
    ['search', out, ...args, '--json', '--top', '100'],
    input === undefined ? {} : { input },
  );
  expect(run).toMatchObject({ code: 0, stderr: '' });
  return (JSON.parse(run.stdout) as Printed).results;
}

describe('tapir search', () => {
  it('takes texts, and --not and --mean of them', async () => {
    const [dog, cat, sea] = await vectorsOf('a dog', 'two cats', 'the sea');
    const texts = ['--text', 'a dog', '--text', 'two cats'];
    const apart = await search([...texts, '--model', model]);
    expect(apart.map(({ query }) => query)).toEqual(['a dog', 'two cats']);
    const scores = ({ hits }: Printed['results'][number]): number[] => hits.map(({ score }) => score);
    expectClose(scores(apart[1]!), cosines(cat!));
    const [mean] = await search([...texts, '--not', 'the sea', '--mean', '--text-model', textModel]);
    expectClose(scores(mean!), cosines(minus(meanOf([dog!, cat!]), sea!)));
  });

  it('takes vectors from .npy files and from standard input', async () => {
    const file = join(scratch, 'q.npy');
    const two = Buffer.concat([rows[0]!, rows[5]!].map((row) => Buffer.from(row.buffer)));
    writeFileSync(file, Buffer.concat([encodeNpyHeader('float32', [2, 12]), two]));
    const found = await search(['--vector', file]);
    expect(found.map(({ query }) => query)).toEqual([`${file}[0]`, `${file}[1]`]);
    expect(found[1]!.hits[0]!.score).toBeCloseTo(1, 6);
    expectClose(
      found[1]!.hits.map(({ score }) => score),
      cosines(unitOf(rows[5]!)),
    );
    const [piped] = await search(['--vector', '-'], JSON.stringify([...rows[5]!]));
    expect(piped!.hits).toEqual(found[1]!.hits);
  });

  it.each([
    ['no query', [], '[images...]'],
    ['a text without a model', ['--text', 'a dog'], '--text-model'],
    ['a file that is missing', ['--vector', 'nowhere.npy'], '--vector'],
    ['standard input that is no vector', ['--vector', '-'], '--vector'],
  ])('refuses %s', async (_what, args, option) => {
    const run = await runTapir(['search', out, ...args], { input: '{"a": 1}' });
    expect(run).toMatchObject({ code: 2 });
    expect(run.stderr).toContain(option);
  });
});

describe('tapir probe --zero-shot', () => {
  it('labels the images, and counts what agrees with given labels', async () => {
    const labels = join(scratch, 'labels.txt');
    const folders = ['sea', 'city'];
    writeFileSync(labels, `${folders.join('\n')}\n\n`);
    const args = ['probe', out, '--zero-shot', labels, '--model', model, '--labels', 'by-folder'];
    const run = await runTapir([...args, '--json']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const printed = JSON.parse(run.stdout) as {
      readonly agreement: { readonly images: number; readonly right: number; readonly accuracy: number };
      readonly labels: readonly ZeroShotLabel[];
    };
    expect(printed.labels).toEqual(await classifyZeroShot(dataset, folders, { model }));
    const right = printed.labels.filter(({ path, label }) => path!.startsWith(`${label}/`)).length;
    expect(printed.agreement).toEqual({ images: rows.length, right, accuracy: right / rows.length });
    const text = await runTapir(args);
    expect(text.stdout).toContain(`(${right} of ${rows.length} labelled images)`);
  });
});
