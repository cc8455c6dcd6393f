/** The manifest that follows from a journal, without a model. */
import { describe, expect, it } from 'vitest';
import { DatasetInputs } from '../../../src/datasets/files/dataset-inputs.js';
import type { JournalRun, JournalShard } from '../../../src/datasets/files/journal.js';
import {
  createManifest,
  decoderOf,
  encodeManifest,
  type DatasetState,
  type RunRecord,
} from '../../../src/datasets/files/manifest.js';
import { NOTHING_REDUCED } from '../../../src/datasets/records/reduced-images.js';
import { TRANSFORM_PRESETS } from '../../../src/photos/images/transform/transform-options.js';

const record: RunRecord = {
  model: { file: 'm.onnx', bytes: 1, sha256: 'a', externalFiles: ['w.bin'] },
  request: [],
  transform: { preset: 'ImageNet1K_V1', ...TRANSFORM_PRESETS.ImageNet1K_V1 },
  engine: 'onnxruntime',
  binding: 'c',
  engineVersion: '1.2.3',
  precision: 'float32',
  device: 'cpu',
  batch: 8,
  batchMode: null,
  keepDims: false,
  normalize: 'cpu',
};
const shard = (number: number, more: Partial<JournalShard> = {}): JournalShard => ({
  type: 'shard',
  number,
  inputs: 2,
  rows: 2,
  firstRow: 2 * number,
  metadata: `metadata/metadata-0000${number}.parquet`,
  features: { f: { path: `features/f/f-0000${number}.npy`, dtype: 'float32', dims: [3] } },
  reduced: NOTHING_REDUCED,
  ...more,
});
const run = { type: 'run', firstShard: 0 } as JournalRun;

async function stateOf(shards: readonly JournalShard[], runs: readonly JournalRun[]): Promise<DatasetState> {
  const inputs = await DatasetInputs.read('', []);
  const item = {
    path: 'x',
    rows: [0, 1] as const,
    width: 1,
    height: 1,
    reduction: 1,
    stamp: null,
    error: null,
  };
  for (const { number } of shards) for (let i = 0; i < 2; i++) inputs.addNew(item, number);
  const source = { kind: 'folder', location: '/photos' };
  const folders = new Map([
    ['g', 'g'],
    ['f', 'f'],
  ]);
  return { seconds: 1, source, format: 'npy', folders, shards, runs, inputs, unreadFiles: {} };
}

describe('createManifest', () => {
  it('lists outputs in the order of the request, if they have rows', async () => {
    const two = shard(1, {
      features: { f: shard(1).features['f']!, g: { ...shard(1).features['f']!, path: 'g' } },
    });
    const manifest = createManifest(record, await stateOf([shard(0), two], [run]));
    expect(Object.keys(manifest.features)).toEqual(['g', 'f']);
    expect(manifest.features['f']).toEqual({
      folder: 'features/f',
      format: 'npy',
      rows: 4,
      dtype: 'float32',
      dims: [3],
    });
    expect(createManifest(record, await stateOf([], [])).features).toEqual({});
    expect(JSON.parse(Buffer.from(encodeManifest(manifest)).toString())).toEqual(manifest);
  });

  it('counts rows that belong to older outcomes as dead', async () => {
    const state = await stateOf([shard(0)], [run]);
    state.inputs.replace(
      { path: 'x', rows: [0, 1], width: 1, height: 1, reduction: 1, stamp: null, error: null },
      1,
    );
    const { shards } = createManifest(record, { ...state, shards: [shard(0, { rows: 3 })] });
    expect(shards).toMatchObject([{ inputs: 2, rows: 3, deadRows: 1 }]);
  });

  it('takes the weights from the latest run that recorded them, without their stamps', async () => {
    const weights = [{ path: 'w.bin', bytes: 4, sha256: 'b', stamp: '1:2:3' }];
    const { model } = createManifest(record, await stateOf([shard(0)], [{ ...run, weights }, run]));
    expect(model).toEqual({ ...record.model, weights: [{ path: 'w.bin', bytes: 4, sha256: 'b' }] });
    expect(createManifest(record, await stateOf([], [run])).model).toEqual(record.model);
  });

  it('has the version of the engine under its name', async () => {
    const state = await stateOf([shard(0)], [run]);
    const { versions, run: settings } = createManifest(record, state);
    expect(versions).toMatchObject({ onnxruntime: '1.2.3' });
    expect(settings).toMatchObject({ engine: 'onnxruntime', precision: 'float32' });
    const other = { ...record, engine: 'openvino', engineVersion: '2026.4.1', precision: 'bfloat16' };
    const made = createManifest(other, state);
    expect(made.versions).toMatchObject({ openvino: '2026.4.1' });
    expect(made.versions).not.toHaveProperty('onnxruntime');
    expect(made.run).toMatchObject({ engine: 'openvino', precision: 'bfloat16' });
    expect(made.run).not.toHaveProperty('engineVersion');
  });

  it('keeps the decoder of an earlier shard', async () => {
    const decoder = { sharp: '0.1', libvips: '8.1' };
    const shards = [shard(0, { decoder: { sharp: '0.0', libvips: '8.0' } }), shard(1, { decoder }), shard(2)];
    expect(createManifest(record, await stateOf(shards, [run])).versions).toMatchObject(decoder);
    expect(decoderOf([shard(0)])).toEqual({ sharp: null, libvips: null });
  });

  it('summarizes reduced images only if the decoder may reduce them', async () => {
    const reduced = { images: 1, measured: 1, sum: 2, max: 3 };
    const state = await stateOf([shard(0, { reduced })], [run]);
    expect(createManifest(record, state).run.reduced).toBeNull();
    const fast = { ...record, transform: { ...record.transform, decode: 'fast' as const } };
    expect(createManifest(fast, state).run.reduced).toEqual({
      images: 1,
      deviation: { images: 1, mean: 2, max: 3 },
    });
  });
});
