/** Batches on a simulated GPU: padded to sizes that are fast there, with no trace in the results. */
import { PhotoMemory } from '../../../src/photos/feeds/photo-memory.js';
import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../src/base/errors.js';
import { packError } from '../../../src/base/packed-error.js';
import { setUpEmbedding } from '../../../src/datasets/embed/embed-options.js';
import { runPhotos } from '../../../src/datasets/embed/embed-batches.js';
import { createFeatureModel } from '../../../src/extract/replicas/feature-model.js';
import { newFeatureExtractor } from '../../../src/extract/feature-extractor.js';
import { ReplicaSet } from '../../../src/extract/replicas/replica-set.js';
import { createTransform } from '../../../src/photos/feeds/create-transform.js';
import { pruneModel } from '../../../src/run/model/oracle/prune-model.js';
import type { ResolvedDevice } from '../../../src/run/runtime/lanes/device.js';
import { LANE_DEFAULTS } from '../../../src/run/runtime/lanes/lane-options.js';
import { openReplica, type Replica } from '../../../src/run/runtime/replica.js';
import { runBatch } from '../../../src/run/runtime/run-batch.js';
import { SESSION_DEFAULTS } from '../../../src/run/runtime/lanes/session-options.js';
import type { TensorInfo } from '../../../src/onnx/tensor/tensor-info.js';
import type { NamedTensor, Tensor } from '../../../src/onnx/tensor/tensor.js';
import { describeLane, done, playLanes } from '../../support/fake-lane.js';
import { modelBytes } from '../../support/graphs.js';

/** A device that returns its rows, and runs out of memory above `most` of them. */
async function simulate(
  type: 'cpu' | 'cuda',
  { most = Infinity, fail }: { readonly most?: number; readonly fail?: () => boolean } = {},
): Promise<{ readonly replica: Replica; readonly sizes: number[] }> {
  const device: ResolvedDevice = { type, id: 0, threads: 0 };
  const sizes: number[] = [];
  const { start } = playLanes((request, events) => {
    if (request.type === 'close') events.gone('closed');
    if (request.type !== 'run') return;
    const [feed] = request.feeds;
    const rows = feed!.dims[0]!;
    sizes.push(rows);
    if (rows > most || fail?.()) {
      const details = { device: 'cuda:0', reason: 'out of memory' };
      const error = new TapirError('RUN_FAILED', 'the model failed on cuda:0: out of memory', { details });
      events.reply({ type: 'failed', id: request.id, error: packError(error) });
      return;
    }
    const data =
      'data' in feed! ? (feed.data as Float32Array).map((value) => -value) : new Float32Array(rows);
    events.reply(done(request.id, [{ name: 'y', dtype: 'float32', dims: [rows], data }]));
  });
  const at = { device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'restart' } as const;
  return { replica: await openReplica(at, describeLane, start), sizes };
}

const inputs: readonly TensorInfo[] = [{ name: 'x', dtype: 'float32', dims: ['n'] }];
const feedOf = (rows: number): NamedTensor => ({
  name: 'x',
  dtype: 'float32',
  dims: [rows],
  data: Float32Array.from({ length: rows }, (_, i) => i + 1),
});
const run = (replica: Replica, rows: number, canPad = true): Promise<Tensor[]> =>
  runBatch(replica, inputs, [feedOf(rows)], ['y'], canPad);
const expected = (rows: number): Tensor[] => [
  { dtype: 'float32', dims: [rows], data: Float32Array.from({ length: rows }, (_, i) => -i - 1) },
];

describe('a batch on a GPU', () => {
  it('is padded with rows that do not come back', async () => {
    const { replica, sizes } = await simulate('cuda');
    for (const rows of [32, 20, 5, 1]) {
      const results = await run(replica, rows);
      expect(results).toEqual(expected(rows));
      expect((results[0]!.data as Float32Array).buffer.byteLength).toBe(4 * rows);
    }
    expect(sizes).toEqual([32, 32, 32, 32]);
    await replica.close();
  });

  it('is never padded on the CPU, and not if rows cannot be added', async () => {
    const cpu = await simulate('cpu');
    for (const rows of [32, 20, 5]) expect(await run(cpu.replica, rows)).toEqual(expected(rows));
    expect(cpu.sizes).toEqual([32, 20, 5]);
    await cpu.replica.close();
    const gpu = await simulate('cuda');
    for (const rows of [32, 20, 5]) await run(gpu.replica, rows, false);
    expect(gpu.sizes).toEqual([32, 20, 5]);
    await gpu.replica.close();
  });

  it('that is out of memory only when padded runs without padding, then and later', async () => {
    const { replica, sizes } = await simulate('cuda', { most: 200 });
    await run(replica, 100);
    expect(await run(replica, 200)).toEqual(expected(200));
    expect(await run(replica, 190)).toEqual(expected(190));
    expect(await run(replica, 150)).toEqual(expected(150));
    expect(sizes).toEqual([100, 256, 200, 200, 200]);
    await replica.close();
  });

  it('leaves no warm size behind if it fails', async () => {
    const { replica, sizes } = await simulate('cuda', { most: 200 });
    await expect(run(replica, 256)).rejects.toMatchObject({ code: 'RUN_FAILED' });
    expect(await run(replica, 200)).toEqual(expected(200));
    expect(await run(replica, 190)).toEqual(expected(190));
    expect(sizes).toEqual([256, 200, 200]);
    await replica.close();
  });

  it('that fails with and without padding fails, and the next one runs unpadded', async () => {
    let isBroken = false;
    const { replica, sizes } = await simulate('cuda', { fail: () => isBroken });
    await run(replica, 32);
    isBroken = true;
    await expect(run(replica, 20)).rejects.toMatchObject({ code: 'RUN_FAILED' });
    isBroken = false;
    await run(replica, 20);
    expect(sizes).toEqual([32, 32, 20, 20]);
    await replica.close();
  });
});

describe('photos on a GPU', () => {
  it('run at one size, because another would cost a search of algorithms', async () => {
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 8, 8] }],
      outputs: [{ name: 'y', dims: ['n'] }],
      nodes: [{ op: 'ReduceMean', inputs: ['x'], outputs: ['y'], ints: { axes: [1, 2, 3], keepdims: 0 } }],
    });
    const { replica, sizes } = await simulate('cuda');
    const setup = { session: SESSION_DEFAULTS, lane: LANE_DEFAULTS };
    const model = createFeatureModel(await pruneModel(bytes, ['y']), setup, replica.facts, {
      outputDtype: 'float32',
      transform: 'auto',
    });
    const extractor = newFeatureExtractor(new ReplicaSet(model, [replica]));
    const embedding = setUpEmbedding(extractor, {
      transform: createTransform({ resize: 8, crop: 8 }),
    });
    expect(embedding.batch).toBe(32);
    const memory = new PhotoMemory(embedding.feeds, 32);
    const places = Array.from({ length: 32 }, (_, i) => i);
    for (const count of [32, 1, 3]) await runPhotos(extractor, memory, places.slice(0, count), embedding);
    expect(sizes).toEqual([32, 32, 32]);
    await extractor.close();
  });
});
