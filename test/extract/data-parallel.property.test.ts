/** 1,000 random batches over one to four devices: rows come back in order, each once, whatever the lanes do in the meantime. */
import fc from 'fast-check';
import { createFeatureExtractor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { newDataParallel, type DataParallel } from '../../src/extract/data-parallel.js';
import { newFeatureExtractor } from '../../src/extract/feature-extractor.js';
import { createFeatureModel } from '../../src/extract/replicas/feature-model.js';
import { PARALLEL_DEFAULTS } from '../../src/extract/replicas/parallel-options.js';
import { holdReplica, ReplicaSet } from '../../src/extract/replicas/replica-set.js';
import { pruneModel } from '../../src/run/model/oracle/prune-model.js';
import { madeFeeds } from '../../src/onnx/tensor/image-feed.js';
import { LANE_DEFAULTS } from '../../src/run/runtime/lanes/lane-options.js';
import { openReplica } from '../../src/run/runtime/replica.js';
import { SESSION_DEFAULTS } from '../../src/run/runtime/lanes/session-options.js';
import type { Split } from '../../src/extract/replicas/split.js';
import type { Tensor } from '../../src/onnx/tensor/tensor.js';
import { describeLane, done, playLanes } from '../support/fake-lane.js';
import { modelBytes } from '../support/graphs.js';

const COLUMNS = 3;
const bytes = modelBytes({
  inputs: [{ name: 'x', dims: ['n', COLUMNS] }],
  outputs: [{ name: 'y', dims: ['n', COLUMNS] }],
  nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }],
});

function batchOf(rows: number): Tensor<'float32'> {
  const data = Float32Array.from({ length: rows * COLUMNS }, (_, i) => i);
  return { dtype: 'float32', dims: [rows, COLUMNS], data };
}

const negative = (x: Tensor<'float32'>): Tensor => ({ ...x, data: x.data.map((value) => -value) });

/** Lanes that answer after random times, as CUDA devices or CPU ones. */
async function fakeParallel(
  devices: number,
  type: 'cpu' | 'cuda',
  delay: () => number,
): Promise<DataParallel<'y'>> {
  const setup = { session: SESSION_DEFAULTS, lane: LANE_DEFAULTS };
  const { start } = playLanes((request, events) => {
    if (request.type === 'close') events.gone('closed');
    if (request.type !== 'run') return;
    const { id, feeds } = request;
    const { dims, data } = madeFeeds(feeds)[0]!;
    const y = {
      name: 'y',
      dtype: 'float32',
      dims,
      data: (data as Float32Array).map((value) => -value),
    } as const;
    setTimeout(() => events.reply(done(id, [y])), delay());
  });
  const resolved = Array.from({ length: devices }, (_, id) => ({ type, id, threads: 1 }));
  const replicas = await Promise.all(
    resolved.map((device) =>
      openReplica({ device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'restart' }, describeLane, start),
    ),
  );
  const model = createFeatureModel(await pruneModel(bytes, ['y']), setup, replicas[0]!.facts, {
    outputDtype: 'float32',
    transform: 'auto',
  });
  const module = newFeatureExtractor<'y', 'float32'>(new ReplicaSet(model, [holdReplica(replicas[0]!)]));
  return newDataParallel(module, new ReplicaSet(model, replicas, PARALLEL_DEFAULTS), true);
}

const splitOf = (devices: number): fc.Arbitrary<Split> =>
  fc.oneof(
    fc.constantFrom('chunk' as const, 'balanced' as const, 'dynamic' as const, 'none' as const),
    fc.array(fc.integer({ min: 1, max: 9 }), { minLength: devices, maxLength: devices }),
  );

describe('rows of random batches', () => {
  it.each([
    [1, 'cpu'],
    [2, 'cpu'],
    [3, 'cpu'],
    [4, 'cpu'],
    // Filled up to sizes that ran before; the zeros must not come back.
    [3, 'cuda'],
  ] as const)('come back in order from %i fake %s lanes', async (devices, type) => {
    let seed = 1;
    const delay = (): number => (seed = (seed * 48_271) % 0x7fffffff) % 4;
    const parallel = await fakeParallel(devices, type, delay);
    const calls = fc.array(fc.tuple(fc.nat(70), splitOf(devices)), { minLength: 1, maxLength: 8 });
    let batches = 0;
    await fc.assert(
      fc.asyncProperty(calls, async (list) => {
        batches += list.length;
        const runs = list.map(async ([rows, split]) => {
          const x = batchOf(rows);
          expect((await parallel.run(x, { split })).y).toEqual(negative(x));
        });
        await Promise.all(runs);
      }),
      { numRuns: 60, seed: 4 },
    );
    expect(batches).toBeGreaterThan(200);
    await parallel.close();
  });

  it.each([1, 2, 3, 4])('come back in order from %i real lanes', async (count) => {
    const devices = Array.from({ length: count }, (_, id) => ({ type: 'cpu', id, threads: 1 }) as const);
    const parallel = await createFeatureExtractor(bytes, ['y'], { devices });
    await fc.assert(
      fc.asyncProperty(fc.nat(70), splitOf(count), async (rows, split) => {
        const x = batchOf(rows);
        expect((await parallel.run(x, { split })).y).toEqual(negative(x));
      }),
      { numRuns: 100, seed: 4 },
    );
    await parallel.close();
  });
});
