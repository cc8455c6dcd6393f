import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { defaultCacheFolder } from '../../../src/base/cache-folder.js';
import { readModelList } from '../../../src/learn/hub/known-models.js';
import { findCachedModel, modelFolder } from '../../../src/learn/hub/model-cache.js';
import { scratchFolder } from '../../support/fixtures.js';

const [first] = await readModelList();
const model = {
  ...first!,
  name: 'm',
  files: ['m.onnx', 'm.data'].map((name, i) => ({
    name,
    url: 'https://a/',
    sizeBytes: i === 0 ? 3 : null,
    sha256: null,
  })),
};

it('is in the user’s cache folder unless another is given', () => {
  expect(modelFolder('m', undefined)).toBe(join(defaultCacheFolder(), 'models/m'));
  expect(modelFolder('m', '/x')).toBe('/x/m');
});

it('holds a model if all its files are there, with the sizes of the list', async () => {
  const folder = scratchFolder();
  const at = join(folder, 'm');
  expect(await findCachedModel(model, folder)).toBeNull();
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, 'm.onnx'), 'abc');
  expect(await findCachedModel(model, folder)).toBeNull();
  writeFileSync(join(at, 'm.data'), 'of any size');
  expect(await findCachedModel(model, folder)).toBe(join(at, 'm.onnx'));
  writeFileSync(join(at, 'm.onnx'), 'abcd');
  expect(await findCachedModel(model, folder)).toBeNull();
});
