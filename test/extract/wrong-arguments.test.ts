/** The two usual mistakes with arguments. All wrong arguments of all functions: test/wrong-arguments.test.ts. */
import {
  createFeatureExtractor,
  DataParallel,
  describeFeatures,
  getGraphNodeNames,
  openModel,
  pruneModel,
  verifyModel,
} from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { tinyResNet } from '../support/fixtures.js';
import { foreign } from '../support/wrong-values.js';

const model = await openModel(tinyResNet());
const pruned = await pruneModel(model, ['fc']);
const extractor = await createFeatureExtractor(model, ['fc']);
const settled = Promise.resolve(model);
afterAll(() => extractor.close());

describe('the two usual mistakes', () => {
  it.each([
    ['getGraphNodeNames', async () => getGraphNodeNames(settled as never)],
    ['verifyModel', () => verifyModel(Promise.resolve(pruned) as never)],
    ['DataParallel.create', () => DataParallel.create(Promise.resolve(extractor) as never)],
    ['createFeatureExtractor', () => createFeatureExtractor(settled as never, ['fc'])],
  ])('%s asks for a forgotten await', async (_name, call) => {
    await expect(call()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/got a promise \(forgotten "await"\?\)/),
    });
  });

  it('names another copy of the package', async () => {
    await expect(describeFeatures(foreign[0] as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/another copy of onnx-tapir/),
    });
    await expect(DataParallel.create(foreign[2] as never)).rejects.toMatchObject({
      message: expect.stringMatching(/FeatureExtractor, maybe of another copy of onnx-tapir/),
    });
  });
});

describe('getGraphNodeNames', () => {
  it('takes bytes, and gives a typed error for a path without a model', () => {
    expect(getGraphNodeNames(tinyResNet())).toEqual(getGraphNodeNames(model));
    expect(() => getGraphNodeNames('file.onnx')).toThrow(
      expect.objectContaining({ code: 'MODEL_UNREADABLE' }),
    );
  });
});
