/** What embedding refuses before it begins. */
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  embedImages,
  embedStream,
  embedTransformStream,
  type FeatureExtractor,
} from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as copy from '../../../build/modules/index.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { chain, modelBytes } from '../../support/graphs.js';

const photos = projectPath('examples/photos/sea');
const out = scratchFolder();
let extractor: FeatureExtractor<'v'>;
let ofOtherCopy: unknown;

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
  ofOtherCopy = await copy.createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
});
afterAll(async () => {
  await extractor.close();
  await (ofOtherCopy as FeatureExtractor).close();
});

/** Each way to embed, as a promise. */
const calls: Readonly<Record<string, (given: never, options?: object) => Promise<unknown>>> = {
  embedImages: (given, options) => embedImages(given, photos, options).next(),
  embedFolder: (given, options) => embedFolder(given, photos, { out, ...options }),
  embedStream: async (given, options) => embedStream(given, options),
  embedTransformStream: async (given, options) => embedTransformStream(given, options),
};

describe.each(Object.entries(calls))('%s', (_name, call) => {
  it('asks for a forgotten await', async () => {
    await expect(call(Promise.resolve(extractor) as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/^option "extractor" must be an extractor.*forgotten "await"\?/),
    });
  });

  it('recognises an extractor of another copy of the package', async () => {
    await expect(call(ofOtherCopy as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('maybe of another copy of onnx-tapir'),
    });
  });

  it.each([[undefined], [null], [5], ['model.onnx'], [{}], [{ inputs: [], outputs: [] }]])(
    'refuses %j',
    async (given) => {
      await expect(call(given as never)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    },
  );

  it.each([
    [{ batch: 0.5 }, 'batch'],
    [{ batch: 5000 }, 'batch'],
    [{ decodeThreads: -1 }, 'decodeThreads'],
    [{ signal: 'stop' }, 'signal'],
    [{ transform: 'ImageNet9' }, 'transform'],
    [{ transform: createTransform({ resize: 64, crop: 32 }) }, 'transform'],
    [{ transform: createTransform({ resize: 64, crop: null }) }, 'transform'],
  ])('refuses %j', async (options, option) => {
    const error = await call(extractor as never, options).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'OPTION_INVALID', details: { option } });
  });
});

it('refuses a model whose input is not an image', async () => {
  await using other = await createFeatureExtractor(modelBytes(chain(2)), ['t1']);
  await expect(embedImages(other, photos).next()).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    details: { option: 'model' },
  });
});

describe('the key of an output', () => {
  it('is no column that files of the format have already', async () => {
    const options = { transform: { resize: 64, crop: 64 } };
    const named = await createFeatureExtractor(tinyResNet(), { avgpool: 'path' });
    for (const format of ['arrow', 'parquet'] as const)
      await expect(
        embedFolder(named, photos, { ...options, out: `${out}/${format}`, format }),
      ).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringContaining('"path"'),
      });
    const { manifest } = await embedFolder(named, photos, { ...options, out: `${out}/npy` });
    expect(Object.keys(manifest.features)).toEqual(['path']);
    await named.close();
  });
});
