import { describe, expect, it } from 'vitest';
import {
  checkSame,
  compareIdentities,
  compareWeights,
  latestWeights,
  type DatasetIdentity,
} from '../../../src/datasets/records/dataset-identity.js';
import type { RunWeights } from '../../../src/datasets/records/run-record.js';
import { TRANSFORM_PRESETS } from '../../../src/photos/images/transform/transform-options.js';

const { limitPixels: _, ...transform } = TRANSFORM_PRESETS.ImageNet1K_V1;
const identity: DatasetIdentity = {
  model: { bytes: 10, sha256: 'a'.repeat(64) },
  request: [
    { key: 'f', tensor: '/pool', computed: [] },
    { key: 'g', tensor: '/map', computed: ['pool avg', 'l2Normalize'] },
  ],
  transform,
  engine: 'onnxruntime',
  precision: 'float32',
  keepDims: false,
  dtype: 'float32',
  format: 'npy',
  checksum: false,
};

describe('identities', () => {
  it('do not differ in how a square crop is spelled', () => {
    const spelled = { ...identity, transform: { ...transform, crop: { height: 224, width: 224 } } };
    expect(compareIdentities(identity, spelled)).toEqual([]);
    const [other] = compareIdentities(identity, {
      ...spelled,
      transform: { ...transform, crop: { height: 224, width: 192 } },
    });
    expect(other).toMatchObject({ what: 'transform.crop', there: '224' });
  });

  it('differ in the model alone, if one has none', () => {
    const imported = { ...identity, model: null, request: [], transform: {}, engine: 'none' };
    expect(compareIdentities(imported, identity)).toEqual([
      { what: 'the model', there: 'unknown (tapir import)', asked: 'aaaaaaaaaaaaaaaa… of 10 bytes' },
    ]);
    expect(compareIdentities(imported, imported)).toEqual([]);
  });

  it('are the same after JSON', () => {
    expect(compareIdentities(JSON.parse(JSON.stringify(identity)) as DatasetIdentity, identity)).toEqual([]);
    expect(() => checkSame('out', compareIdentities(identity, { ...identity }))).not.toThrow();
  });

  it('differ by name and value', () => {
    const asked: DatasetIdentity = {
      ...identity,
      model: { bytes: 11, sha256: 'b'.repeat(64) },
      request: [identity.request[0]!, { ...identity.request[1]!, computed: [] }],
      transform: { ...transform, resize: 232 },
      engine: 'openvino',
      precision: 'bfloat16',
      dtype: 'float16',
    };
    expect(compareIdentities(identity, asked)).toEqual([
      { what: 'the model', there: `${'a'.repeat(16)}… of 10 bytes`, asked: `${'b'.repeat(16)}… of 11 bytes` },
      { what: 'output "g"', there: 'tensor "/map" with pool avg, l2Normalize', asked: 'tensor "/map"' },
      { what: 'transform.resize', there: '256', asked: '232' },
      { what: 'engine', there: '"onnxruntime"', asked: '"openvino"' },
      { what: 'precision', there: '"float32"', asked: '"bfloat16"' },
      { what: 'dtype', there: '"float32"', asked: '"float16"' },
    ]);
  });

  it('with another key can be read: the list of outputs is named, not each of them', () => {
    const asked = { ...identity, request: [{ key: 'embedding', tensor: '/pool', computed: [] }] };
    expect(() => checkSame('out', compareIdentities(identity, asked))).toThrow(
      expect.objectContaining({
        code: 'DATASET_MISMATCH',
        message:
          '"out" holds a dataset that was made with other settings: the list of outputs is "f", "g" there and "embedding" in this ' +
          'run. Choose another folder, or replace the dataset (option "overwrite")',
        details: {
          path: 'out',
          differences: [{ what: 'the list of outputs', there: '"f", "g"', asked: '"embedding"' }],
        },
      }),
    );
  });

  it('name settings that only one of them has', () => {
    const older = { ...identity, transform: { ...transform, extra: 1 } };
    expect(compareIdentities(older, identity)).toEqual([
      { what: 'transform.extra', there: '1', asked: 'missing' },
    ]);
  });
});

describe('weights', () => {
  const file = (sha256: string, bytes = 4): RunWeights => ({ path: 'w.bin', bytes, sha256, stamp: 's' });

  it('are those of the latest run that recorded them', () => {
    expect(latestWeights([])).toBeUndefined();
    expect(latestWeights([{}, {}])).toBeUndefined();
    expect(latestWeights([{ weights: [file('a')] }, { weights: [file('b')] }, {}])).toEqual([file('b')]);
  });

  it('differ by content, and by size where no content is known', () => {
    expect(compareWeights([file('a')], [file('a')])).toEqual([]);
    expect(compareWeights([file('a')], [file('b')])).toMatchObject([{ what: 'the file of weights "w.bin"' }]);
    const { sha256: _hash, ...unread } = file('b');
    expect(compareWeights([file('a')], [unread])).toEqual([]);
    expect(compareWeights([file('a')], [{ ...unread, bytes: 5 }])).toMatchObject([
      { there: 'a… of 4 bytes', asked: '5 bytes' },
    ]);
    expect(compareWeights([], [file('a')])).toMatchObject([{ there: 'missing' }]);
  });
});
