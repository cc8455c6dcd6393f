/** `embed` of an extractor: a photo and its vector, in one call. */
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  createFeatureExtractor,
  createTransform,
  DataParallel,
  embedImages,
  isTapirError,
  loadImage,
  type Extractor,
  type TransformRequest,
} from 'onnx-tapir';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { buildResNet } from '../../models/resnet.js';
import { sendFile, startServer } from '../support/file-server.js';
import { fixturePath, projectPath, scratchFolder } from '../support/fixtures.js';
import { modelBytes } from '../support/graphs.js';

const scratch = scratchFolder();
const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
const photo = (name: string): string => projectPath(`examples/photos/${name}`);
const SEA = photo('sea/sea-0.jpg');
const CITY = photo('city/city-0.jpg');
const NODES = { avgpool: 'vector', layer4: 'map' } as const;
const ONE = { avgpool: 'vector' } as const;
const open = (transform?: TransformRequest) =>
  createFeatureExtractor(model, ONE, transform === undefined ? {} : { transform });
const openBoth = () => createFeatureExtractor(model, NODES);

/** The vector of a photo as embedImages gives it. */
async function firstOf(
  extractor: Extractor<'vector', 'float32'>,
  path: string,
  transform?: TransformRequest,
): Promise<Float32Array> {
  for await (const { features, error } of embedImages(extractor, [path], transform ? { transform } : {})) {
    if (error) throw error;
    return features.vector.data;
  }
  throw new Error('no row');
}

async function vectorOf(path: string, transform: TransformRequest = 'ImageNet1K_V1'): Promise<Float32Array> {
  await using extractor = await createFeatureExtractor(model, ONE);
  return await firstOf(extractor, path, transform);
}

describe('the model of the package', () => {
  it('has the name "demo"', async () => {
    await using demo = await createFeatureExtractor('demo', ['embedding']);
    const path = projectPath('models/demo.onnx');
    await using same = await createFeatureExtractor(path, ['embedding']);
    expect(await demo.embed(SEA)).toEqual(await same.embed(SEA));
  });
});

describe('embed', () => {
  it('gives the vector of a photo, whatever form the photo has', async () => {
    const bytes = readFileSync(SEA);
    const { url } = await startServer((request, response) => sendFile(request, response, bytes));
    const forms = [
      SEA,
      pathToFileURL(SEA),
      bytes,
      new Blob([bytes]),
      new Response(bytes),
      new Blob([bytes]).stream(),
      `${url}/sea.jpg`,
      new URL(`${url}/sea.jpg`),
      await fetch(`${url}/sea.jpg`),
    ];
    await using extractor = await open();
    const expected = await vectorOf(SEA);
    expect(expected).toHaveLength(128);
    for (const form of forms) {
      // oxlint-disable-next-line no-await-in-loop -- as a user calls it
      const vector = await extractor.embed(form);
      expectTypeOf(vector).toEqualTypeOf<Float32Array>();
      expect(vector).toEqual(expected);
    }
  });

  it('gives a list for a list, in order, in batches of its own', async () => {
    const [sea, city] = [await vectorOf(SEA), await vectorOf(CITY)];
    const names = Array.from({ length: 21 }, (_, i) => (i % 3 === 0 ? CITY : SEA));
    await using extractor = await open();
    const vectors = await extractor.embed(names);
    expectTypeOf(vectors).toEqualTypeOf<Float32Array[]>();
    expect(vectors).toHaveLength(21);
    // Bit for bit for equal batches; the last batch is smaller.
    for (const [i, vector] of vectors.entries())
      for (const [k, value] of vector.entries()) expect(value).toBeCloseTo((i % 3 === 0 ? city : sea)[k]!, 5);
    expect(new Set(vectors.map(({ buffer }) => buffer)).size).toBe(21);
    expect(await extractor.embed([])).toEqual([]);
  });

  it('asks which of several outputs is meant, and refuses one that is not there', async () => {
    await using extractor = await openBoth();
    // @ts-expect-error -- there are several outputs
    await expect(extractor.embed(SEA)).rejects.toThrow(
      'option "output" must be given, as there are several outputs: one of "vector", "map"',
    );
    // @ts-expect-error -- there are several outputs
    await expect(extractor.embed([SEA], { dims: 3 })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    expect(await extractor.embed(SEA, { output: 'vector' })).toEqual(await vectorOf(SEA));
    expect(await extractor.embed(SEA, { output: 'map' })).toHaveLength(128 * 7 * 7);
    // @ts-expect-error -- no such output
    await expect(extractor.embed(SEA, { output: 'features' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('"vector", "map"'),
    });
  });

  it('rejects with the code of the photo that fails, and lists several', async () => {
    await using extractor = await open();
    const cut = fixturePath('preprocess/bad/truncated.jpg');
    await expect(extractor.embed(cut)).rejects.toMatchObject({ code: 'IMAGE_TRUNCATED' });
    await expect(extractor.embed([SEA, 'nowhere.jpg'])).rejects.toMatchObject({ code: 'IMAGE_NOT_FOUND' });
    const error: unknown = await extractor
      .embed([cut, SEA, new Uint8Array(0)])
      .catch((reason: unknown) => reason);
    if (!isTapirError(error, 'PHOTOS_FAILED')) throw error;
    expect(error.details.failures.map(({ index, code }) => [index, code])).toEqual([
      [0, 'IMAGE_TRUNCATED'],
      [2, 'IMAGE_EMPTY'],
    ]);
    expect(error.errors.map(({ message }) => message)).toEqual(
      error.details.failures.map(({ message }) => message),
    );
    expect(error.message).toContain('2 of 3 photos');
    expect(error.message).toContain(basename(cut));
    // The extractor goes on.
    expect(await extractor.embed(SEA)).toHaveLength(128);
  });

  it('refuses what is no photo', async () => {
    await using extractor = await open();
    await expect(extractor.embed(42 as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'photo' },
    });
    await expect(extractor.embed(new URL('ftp://example.com/a.jpg'))).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });

  it('stops when its signal fires, and after close', async () => {
    const extractor = await open();
    const stopped = AbortSignal.abort(new Error('enough'));
    await expect(extractor.embed(SEA, { signal: stopped })).rejects.toThrow('enough');
    await extractor.embed(SEA);
    await extractor.close();
    await expect(extractor.embed(SEA)).rejects.toMatchObject({ code: 'CLOSED' });
    const unused = await open();
    await unused.close();
    await expect(unused.embed(SEA)).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it('converts halves to float32, and refuses integers', async () => {
    const halves = await createFeatureExtractor(model, ONE, { outputDtype: 'float16' });
    const vector = await halves.embed(SEA);
    await halves.close();
    const exact = await vectorOf(SEA);
    for (const [k, value] of vector.entries()) expect(Math.abs(value - exact[k]!)).toBeLessThan(0.01);
    const bytes = modelBytes({
      nodes: [
        { op: 'Flatten', inputs: ['x'], outputs: ['flat'] },
        { op: 'ArgMax', inputs: ['flat'], outputs: ['best'], ints: { axis: 1 } },
      ],
      inputs: [{ name: 'x', dims: ['N', 3, 224, 224] }],
      outputs: [{ name: 'best', elemType: 7, dims: ['N', 1] }],
    });
    await using integers = await createFeatureExtractor(bytes, ['best'], { outputDtype: 'keep' });
    await expect(integers.embed(SEA)).rejects.toThrow(/best has int64/);
  });

  it('runs over devices', async () => {
    await using parallel = await createFeatureExtractor(model, ONE, { devices: ['cpu:0', 'cpu:1'] });
    const vectors = await parallel.embed(Array.from({ length: 40 }, () => SEA));
    expect(vectors).toHaveLength(40);
    expect(vectors[39]).toEqual(vectors[0]);
  });
});

describe('the transform of an extractor', () => {
  const file = join(scratch, 'preprocessor_config.json');
  writeFileSync(
    file,
    JSON.stringify({
      image_processor_type: 'CLIPImageProcessor',
      size: { shortest_edge: 224 },
      crop_size: { height: 224, width: 224 },
    }),
  );
  const spellings: readonly TransformRequest[] = [
    'ImageNet1K_V2',
    'torchvision:ResNet50_Weights.DEFAULT',
    file,
    { resize: 224, crop: 224 },
    createTransform({ resize: 240, crop: 224 }),
    { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] },
  ];

  it.each(spellings)('is that of embed, in each of its spellings: %j', async (transform) => {
    await using extractor = await open(transform);
    const vector = await extractor.embed(SEA);
    expect(vector).toEqual(await vectorOf(SEA, transform));
    expect(vector).not.toEqual(await vectorOf(SEA));
  });

  it('is what "auto" means in other calls, which may state another, or change it', async () => {
    await using extractor = await open('ImageNet1K_V2');
    const given = (transform?: TransformRequest) => firstOf(extractor, SEA, transform);
    expect(await given()).toEqual(await vectorOf(SEA, 'ImageNet1K_V2'));
    expect(await given('ImageNet1K_V1')).toEqual(await vectorOf(SEA));
    const changed = createTransform('ImageNet1K_V2').with({ mean: [0.5, 0.5, 0.5] });
    expect(await given({ mean: [0.5, 0.5, 0.5] })).toEqual(await vectorOf(SEA, changed));
  });

  it('goes on to extractors that are made of it', async () => {
    await using extractor = await open('ImageNet1K_V2');
    const expected = await vectorOf(SEA, 'ImageNet1K_V2');
    await using same = await createFeatureExtractor(extractor);
    await using other = await createFeatureExtractor(extractor, ['avgpool'], { transform: 'ImageNet1K_V1' });
    await using parallel = await DataParallel.create(extractor, { devices: ['cpu:0', 'cpu:1'] });
    const vectors = await Promise.all([same, other, parallel].map((one: Extractor) => one.embed(SEA)));
    expect(vectors).toEqual([expected, await vectorOf(SEA), expected]);
  });

  it('is refused when the extractor is made', async () => {
    await expect(open('ImageNet')).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'transform' },
    });
  });
});

describe('run', () => {
  it('takes a photo from loadImage', async () => {
    await using extractor = await open();
    const image = await loadImage(SEA);
    const { vector } = await extractor.run(image);
    expect(vector).toEqual((await extractor.run(image.toTensor())).vector);
    const [input] = extractor.inputs;
    expect((await extractor.run({ [input!.name]: image.toTensor() })).vector.dims).toEqual([1, 128, 1, 1]);
  });
});
