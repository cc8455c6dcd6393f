/** The option `outputDtype`: float32 by default, whatever float the file has; other types are refused, or kept. */
import {
  createFeatureExtractor,
  DataParallel,
  embedFolder,
  embedImages,
  openDataset,
  pruneModel,
  type TensorLike,
} from 'onnx-tapir';
import { Pipeline } from 'onnx-tapir/stages';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { modelBytes } from '../support/graphs.js';

const [FLOAT16, INT64, FLOAT64, BFLOAT16] = [10, 7, 11, 16];
const scratch = scratchFolder();

/** `x` in another element type. */
const cast = (elemType: number): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [{ name: 'y', elemType, dims: ['n', 2] }],
    nodes: [{ op: 'Cast', inputs: ['x'], outputs: ['y'], ints: { to: elemType } }],
  });
const x: TensorLike = { dtype: 'float32', dims: [2, 2], data: Float32Array.of(1.5, -2, 3, 0.1) };
const HALF = 0.0999755859375;

describe('float32', () => {
  it.each([
    ['float64', FLOAT64, [1.5, -2, 3, Math.fround(0.1)]],
    ['float16', FLOAT16, [1.5, -2, 3, HALF]],
    ['bfloat16', BFLOAT16, [1.5, -2, 3, 0.10009765625]],
  ])('is what %s becomes', async (_, elemType, values) => {
    await using extractor = await createFeatureExtractor(cast(elemType), ['y']);
    expect(extractor.outputs).toMatchObject([{ name: 'y', dtype: 'float32', dims: ['n', 2] }]);
    const { y } = await extractor.run(x);
    expect(y).toEqual({ dtype: 'float32', dims: [2, 2], data: Float32Array.from(values) });
  });

  it('leaves the model as the file has it', async () => {
    await using extractor = await createFeatureExtractor(cast(FLOAT16), ['y']);
    expect(await extractor.model.bytes()).toEqual(await (await pruneModel(cast(FLOAT16), ['y'])).bytes());
  });

  it('is given by devices, stages and extractors of extractors', async () => {
    const devices = ['cpu:0', 'cpu:1'] as const;
    await using extractor = await createFeatureExtractor(cast(FLOAT16), ['y']);
    await using parallel = await DataParallel.create(extractor, { devices });
    await using again = await createFeatureExtractor(parallel);
    await using staged = await Pipeline.create(cast(FLOAT16), ['y'], { devices: ['cpu:0'] });
    for (const one of [parallel, again, staged])
      // oxlint-disable-next-line no-await-in-loop
      expect((await one.run(x)).y.data).toEqual(Float32Array.of(1.5, -2, 3, HALF));
    for await (const { y } of parallel.map([x])) expect(y.dtype).toBe('float32');
  });

  it('refuses what is no float, and says how to keep it', async () => {
    const refusal = {
      code: 'OUTPUT_MISFIT',
      message:
        'output "y" is int64 [n, 2]: no float, and outputs are float32 by default; with outputDtype: \'keep\' every output comes as the file has it',
      details: { output: 'y', actual: 'int64 [n, 2]' },
    };
    await expect(createFeatureExtractor(cast(INT64), ['y'])).rejects.toMatchObject(refusal);
    await expect(createFeatureExtractor(await pruneModel(cast(INT64), ['y']))).rejects.toMatchObject(refusal);
    await expect(Pipeline.create(cast(INT64), ['y'], { devices: ['cpu'] })).rejects.toMatchObject(refusal);
  });
});

describe('keep', () => {
  it('gives every output as the file has it', async () => {
    await using halves = await createFeatureExtractor(cast(FLOAT16), ['y'], { outputDtype: 'keep' });
    expect(halves.outputs[0]?.dtype).toBe('float16');
    expect((await halves.run(x)).y.data).toBeInstanceOf(Uint16Array);
    await using same = await createFeatureExtractor(halves);
    expect((await same.run(x)).y.dtype).toBe('float16');
    const pruned = await pruneModel(cast(INT64), ['y']);
    await using integers = await createFeatureExtractor(pruned, undefined, { outputDtype: 'keep' });
    expect((await integers.run(x)).y).toMatchObject({
      dtype: 'int64',
      data: BigInt64Array.of(1n, -2n, 3n, 0n),
    });
  });

  it('may be asked by key; the others are float32', async () => {
    const request = { y: 'a', x: 'b' } as const;
    const outputDtype = { a: 'keep' } as const;
    await using mixed = await createFeatureExtractor(cast(INT64), request, { outputDtype });
    expect(mixed.outputs.map(({ dtype }) => dtype)).toEqual(['int64', 'float32']);
    await expect(
      createFeatureExtractor(cast(INT64), request, { outputDtype: { c: 'keep' } }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});

it('float16 of a model that runs as it is needs names', async () => {
  const pruned = await pruneModel(cast(FLOAT64), ['y']);
  await expect(createFeatureExtractor(pruned, undefined, { outputDtype: 'float16' })).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    details: { option: 'outputDtype' },
  });
});

it('datasets keep what the file has, whoever opened the extractor; rows have what run gives', async () => {
  const bytes = modelBytes({
    inputs: [{ name: 'x', dims: ['n', 3, 224, 224] }],
    outputs: [{ name: 'y', elemType: FLOAT16, dims: ['n', 3] }],
    nodes: [
      { op: 'ReduceMean', inputs: ['x'], outputs: ['m'], ints: { axes: [2, 3], keepdims: 0 } },
      { op: 'Cast', inputs: ['m'], outputs: ['y'], ints: { to: FLOAT16 } },
    ],
  });
  const photos = projectPath('examples/photos/sea');
  const folders = await Promise.all(
    (['float32', 'keep'] as const).map(async (outputDtype) => {
      await using extractor = await createFeatureExtractor(bytes, ['y'], { outputDtype });
      const out = join(scratch, outputDtype);
      await embedFolder(extractor, photos, { out });
      return out;
    }),
  );
  const [one, other] = await Promise.all(folders.map((folder) => openDataset(folder)));
  expect(one!.manifest.features['y']).toMatchObject({ dtype: 'float16', dims: [3] });
  expect(one!.manifest.features).toEqual(other!.manifest.features);
  await using extractor = await createFeatureExtractor(bytes, ['y']);
  for await (const { features } of embedImages(extractor, photos))
    expect(features!.y.data).toBeInstanceOf(Float32Array);
});
