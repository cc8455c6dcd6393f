/** Which sessions exist and who ends them: an extractor's own is replica 0 of a data-parallel model. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Tensor } from '../../build/modules/onnx/tensor/tensor.js';
import { modelBytes } from '../support/graphs.js';

/** Lanes that were started and that ended. */
const lanes = { started: 0, ended: 0 };
vi.mock(import('../../build/modules/run/runtime/lanes/lane.js'), async (importOriginal) => {
  const original = await importOriginal();
  const openLane: typeof original.openLane = async (...given) => {
    const lane = await original.openLane(...given);
    lanes.started++;
    void lane.gone.then(() => lanes.ended++);
    return lane;
  };
  return { ...original, openLane };
});
const { createFeatureExtractor, DataParallel } = await import('../../build/modules/index.js');
beforeEach(() => void Object.assign(lanes, { started: 0, ended: 0 }));

const doubling = modelBytes({
  inputs: [{ name: 'x', dims: ['n', 2] }],
  outputs: [{ name: 'y', dims: ['n', 2] }],
  nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
});
const x = (rows: number): Tensor<'float32'> => ({
  dtype: 'float32',
  dims: [rows, 2],
  data: Float32Array.from({ length: 2 * rows }, (_, i) => i),
});
const twice = (rows: number): Float32Array => x(rows).data.map((value) => 2 * value);
const ONE = { type: 'cpu', threads: 1 } as const;
const TWO = [
  { ...ONE, id: 0 },
  { ...ONE, id: 1 },
] as const;
const closed = { code: 'CLOSED' };

describe('DataParallel.create', () => {
  it('opens no second session on the device of the extractor', async () => {
    const extractor = await createFeatureExtractor(doubling, ['y'], { device: ONE });
    const alone = await DataParallel.create(extractor);
    const parallel = await DataParallel.create(extractor, { devices: TWO });
    expect(lanes).toEqual({ started: 2, ended: 0 });
    expect((await parallel.run(x(5))).y.data).toEqual(twice(5));
    expect(parallel.replicas.map(({ runs }) => runs)).toEqual([1, 1]);
    expect((await alone.run(x(3))).y.data).toEqual(twice(3));
    await Promise.all([alone.close(), parallel.close(), extractor.close()]);
    expect(lanes).toEqual({ started: 2, ended: 2 });
  });

  it('closed first, leaves the extractor its session', async () => {
    const extractor = await createFeatureExtractor(doubling, ['y'], { device: ONE });
    const parallel = await DataParallel.create(extractor, { devices: TWO });
    const last = parallel.run(x(4));
    await parallel.close();
    expect((await last).y.data).toEqual(twice(4));
    expect(lanes).toEqual({ started: 2, ended: 1 });
    await expect(parallel.run(x(1))).rejects.toMatchObject({ code: 'REPLICA_FAILED', cause: closed });
    expect((await extractor.run(x(2))).y.data).toEqual(twice(2));
    await extractor.close();
    await extractor.close();
    await parallel.close();
    expect(lanes).toEqual({ started: 2, ended: 2 });
  });

  it('keeps the session of an extractor that is closed first', async () => {
    const extractor = await createFeatureExtractor(doubling, ['y'], { device: ONE });
    const parallel = await DataParallel.create(extractor, { devices: TWO });
    await extractor.close();
    await expect(extractor.run(x(1))).rejects.toMatchObject(closed);
    expect(lanes).toEqual({ started: 2, ended: 0 });
    expect((await parallel.run(x(4))).y.data).toEqual(twice(4));
    await expect(DataParallel.create(extractor)).rejects.toMatchObject(closed);
    await parallel.close();
    expect(lanes).toEqual({ started: 2, ended: 2 });
  });

  it('that fails leaves the extractor as it was', async () => {
    const extractor = await createFeatureExtractor(doubling, ['y'], { device: ONE });
    await expect(DataParallel.create(extractor, { devices: ['cpu', 'cuda:99'] })).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
    });
    expect((await extractor.run(x(2))).y.data).toEqual(twice(2));
    await extractor.close();
    expect(lanes.ended).toBe(lanes.started);
  });

  it('survives the extractor being closed while the others open', async () => {
    const extractor = await createFeatureExtractor(doubling, ['y'], { device: ONE });
    const creating = DataParallel.create(extractor, { devices: TWO });
    await extractor.close();
    const parallel = await creating;
    expect((await parallel.run(x(4))).y.data).toEqual(twice(4));
    await parallel.close();
    expect(lanes).toEqual({ started: 2, ended: 2 });
  });

  it.each([
    ['other threads', { devices: [{ ...TWO[0], threads: 2 }, TWO[1]] }, 3],
    // Each device is a lane with two streams.
    ['two sessions', { devices: TWO, sessionsPerDevice: 2 }, 3],
    ['another policy', { devices: TWO, onLaneDeath: 'remove' }, 3],
    ['other devices', { devices: [{ ...ONE, id: 2 }] }, 2],
  ] as const)('opens a session of its own for %s', async (_what, options, sessions) => {
    const extractor = await createFeatureExtractor(doubling, ['y'], { device: ONE });
    const parallel = await DataParallel.create(extractor, options);
    expect(lanes.started).toBe(sessions);
    expect((await parallel.run(x(6))).y.data).toEqual(twice(6));
    await Promise.all([parallel.close(), extractor.close()]);
    expect(lanes.ended).toBe(sessions);
  });

  it('does not run an extractor on all cores beside other lanes', async () => {
    const extractor = await createFeatureExtractor(doubling, ['y']);
    const parallel = await DataParallel.create(extractor, { devices: ['cpu:0', 'cpu:1'] });
    expect(lanes.started).toBe(3);
    await Promise.all([parallel.close(), extractor.close()]);
  });
});

describe('createFeatureExtractor with devices', () => {
  it('makes one session per device, the first one shared with the module', async () => {
    const parallel = await createFeatureExtractor(doubling, ['y'], { devices: TWO });
    expect(lanes).toEqual({ started: 2, ended: 0 });
    await parallel.module.close();
    expect((await parallel.run(x(3))).y.data).toEqual(twice(3));
    await parallel.close();
    expect(lanes).toEqual({ started: 2, ended: 2 });
  });

  it('closes all of them when the model is refused', async () => {
    const sequence = modelBytes({
      inputs: [{ name: 'x', dims: ['n'] }],
      outputs: [],
      nodes: [
        { op: 'Identity', inputs: ['x'], outputs: ['i'] },
        { op: 'SplitToSequence', inputs: ['i'], outputs: ['s'] },
        { op: 'Identity', inputs: ['s'], outputs: ['y'] },
      ],
    });
    await expect(createFeatureExtractor(sequence, ['y'], { devices: TWO })).rejects.toMatchObject({
      code: 'OUTPUT_NOT_TENSOR',
    });
    expect(lanes).toEqual({ started: 2, ended: 2 });
  });
});
