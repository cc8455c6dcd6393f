/** An extractor and its settings as plain records: they survive JSON. */
import { createFeatureExtractor } from '../../../build/modules/extract/create-feature-extractor.js';
import { expect, it } from 'vitest';
import { compareIdentities } from '../../../src/datasets/records/dataset-identity.js';
import { describeIdentity, describeRun } from '../../../build/modules/datasets/embed/describe-run.js';
import { setUpEmbedding } from '../../../build/modules/datasets/embed/embed-options.js';

import { buildResNet } from '../../../models/resnet.js';

const model = { file: 'm.onnx', bytes: 5, sha256: 'a', externalFiles: [] };
const stored = { dtype: 'float32', format: 'npy' };

it('describes the model, the request and the settings', async () => {
  const { bytes } = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 });
  const extractor = await createFeatureExtractor(bytes, { avgpool: 'f' });
  const setup = setUpEmbedding(extractor, { batch: 3 });
  const run = describeRun(extractor, setup, model);
  expect(JSON.parse(JSON.stringify(run))).toEqual(run);
  expect(run).toMatchObject({
    model,
    request: [{ request: 'avgpool', key: 'f', computed: [] }],
    transform: { preset: 'ImageNet1K_V1', resize: 256, interpolation: 'bilinear', decode: 'exact' },
    device: 'cpu',
    batch: 3,
    batchMode: null,
    keepDims: false,
    normalize: 'cpu',
  });
  expect(run).toMatchObject({ engine: 'onnxruntime', precision: 'float32' });
  expect(run.engineVersion).toMatch(/^\d+\./);
  const identity = describeIdentity(extractor, model, setup, stored);
  expect(identity).toMatchObject({ model: { bytes: 5, sha256: 'a' }, ...stored, checksum: false });
  expect(identity).toMatchObject({ engine: 'onnxruntime', precision: 'float32' });
  expect(identity.transform).not.toHaveProperty('limitPixels');
  // Batches may change from run to run; settings that change vectors may not.
  const other = describeIdentity(extractor, model, setUpEmbedding(extractor), stored);
  expect(compareIdentities(identity, other)).toEqual([]);
  const kept = setUpEmbedding(extractor, { keepDims: true });
  expect(compareIdentities(identity, describeIdentity(extractor, model, kept, stored))).toMatchObject([
    { what: 'keepDims' },
  ]);
  await extractor.close();
});
