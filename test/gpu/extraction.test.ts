/** Extraction on a GPU: the numbers of the CPU, whatever the batch, the sessions and the lanes. */
import { createFeatureExtractor, type Device, type Tensor } from 'onnx-tapir';
import { createEarlyExit, Pipeline, type ExitRow } from 'onnx-tapir/stages';
import { describe, expect, it } from 'vitest';
import { modelBytes } from '../support/graphs.js';
import { expectNear, gpu, hasGpu, keepGpuWarm, smallImages } from '../support/gpu.js';
import { smallNet } from '../support/small-net.js';

const NODES = { relu: 'map', avgpool: 'v' } as const;

keepGpuWarm();

async function onCpu(rows: number): Promise<{ readonly map: Tensor; readonly v: Tensor }> {
  await using extractor = await createFeatureExtractor(smallNet(), NODES, { device: 'cpu' });
  return await extractor.run(smallImages(rows));
}

describe.skipIf(!hasGpu)('extraction on a GPU', () => {
  it('gives the numbers of the CPU, and names the device', async () => {
    await using extractor = await createFeatureExtractor(smallNet(), NODES, { device: gpu });
    expect(extractor.device).toBe(gpu);
    const [ours, theirs] = [await extractor.run(smallImages(3)), await onCpu(3)];
    expectNear(ours.v, theirs.v);
    expectNear(ours.map, theirs.map);
  });

  it('pads a smaller batch to the size that is warm', async () => {
    await using extractor = await createFeatureExtractor(smallNet(), NODES, { device: gpu });
    await extractor.run(smallImages(4));
    const [ours, theirs] = [await extractor.run(smallImages(2)), await onCpu(2)];
    expectNear(ours.v, theirs.v);
    expectNear(ours.map, theirs.map);
  });

  it('takes buffers over, and serves several callers with two sessions', async () => {
    await using extractor = await createFeatureExtractor(smallNet(), NODES, {
      devices: [gpu],
      parallel: { sessionsPerDevice: 2 },
    });
    const [images, theirs] = [smallImages(2), await onCpu(2)];
    const results = await Promise.all([
      extractor.run(images, { transfer: true }),
      ...[1, 2, 3].map(() => extractor.run(smallImages(2))),
    ]);
    for (const { v } of results) expectNear(v, theirs.v);
    expect(images.data).toHaveLength(0);
  });

  // Threads in WebGPU at the same time would crash the process.
  it('opens, runs and closes several models at once', async () => {
    const theirs = await onCpu(1);
    const rounds = Array.from({ length: 4 }, async () => {
      await using extractor = await createFeatureExtractor(smallNet(), NODES, { device: gpu });
      const results = [extractor.run(smallImages(1)), extractor.run(smallImages(1))];
      for (const { v } of await Promise.all(results)) expectNear(v, theirs.v);
    });
    await Promise.all(rounds);
  });

  it('prepares a model once, and opens it again from the cache', async () => {
    const options = { device: gpu, cache: 'always' } as const;
    const theirs = await onCpu(1);
    for (let round = 0; round < 2; round++) {
      // oxlint-disable-next-line no-await-in-loop -- the second one finds what the first one left
      await using extractor = await createFeatureExtractor(smallNet(), NODES, options);
      // oxlint-disable-next-line no-await-in-loop
      expectNear((await extractor.run(smallImages(1))).v, theirs.v);
    }
  });

  it('opens a new session where the process of one was killed', async () => {
    await using extractor = await createFeatureExtractor(smallNet(), NODES, {
      devices: [gpu],
      isolation: 'process',
    });
    const theirs = await onCpu(1);
    const [pid] = extractor.replicas[0]!.pids;
    expect(pid).not.toBe(process.pid);
    expectNear((await extractor.run(smallImages(1))).v, theirs.v);
    process.kill(pid!, 'SIGKILL');
    await expect(extractor.run(smallImages(1))).rejects.toThrow(/ended/);
    expectNear((await extractor.run(smallImages(1))).v, theirs.v);
  });

  it('runs a pool that gives out where its maxima are', async () => {
    const pool = modelBytes({
      inputs: [{ name: 'x', dims: ['batch', 1, 4, 4] }],
      outputs: [
        { name: 'y', dims: ['batch', 1, 2, 2] },
        { name: 'i', dims: ['batch', 1, 2, 2], elemType: 7 },
      ],
      nodes: [
        { op: 'Neg', inputs: ['x'], outputs: ['n'], name: 'negative' },
        {
          op: 'MaxPool',
          inputs: ['n'],
          outputs: ['y', 'i'],
          name: 'pool',
          ints: { kernel_shape: [2, 2], strides: [2, 2] },
        },
      ],
    });
    await using extractor = await createFeatureExtractor(pool, ['y', 'i'], {
      outputDtype: 'keep',
      device: gpu,
    });
    const data = Float32Array.of(1, 2, 3, 4, 0, 6, 7, 8, 9, 10, 2, 12, 13, 5, 15, 16);
    const { y, i } = await extractor.run({ dtype: 'float32', dims: [1, 1, 4, 4], data });
    expect([...y.data]).toEqual([-0, -3, -5, -2]);
    expect([...i.data]).toEqual([4n, 2n, 13n, 10n]);
  });
});

describe.skipIf(!hasGpu)('a GPU beside the CPU', () => {
  it('splits a batch over both', async () => {
    await using parallel = await createFeatureExtractor(smallNet(), NODES, { devices: [gpu, 'cpu'] });
    const [ours, theirs] = [await parallel.run(smallImages(5)), await onCpu(5)];
    expectNear(ours.v, theirs.v);
    expect(parallel.replicas.map(({ device, runs }) => [device, runs])).toEqual([
      [gpu, 1],
      ['cpu', 1],
    ]);
  });

  it('puts a stage of a pipeline on each', async () => {
    await using pipeline = await Pipeline.create(smallNet(), NODES, { devices: [gpu, 'cpu'], microBatch: 2 });
    const [ours, theirs] = [await pipeline.run(smallImages(5)), await onCpu(5)];
    expectNear(ours.v, theirs.v);
    expectNear(ours.map, theirs.map);
  });

  it('lets rows leave early', async () => {
    const weight = { dims: [6, 4], data: Float32Array.from({ length: 24 }, (_, i) => Math.cos(i)) };
    const exits = [
      {
        node: 'maxpool',
        head: { weight, pool: 'avg' as const },
        until: ({ index }: ExitRow): boolean => index === 1,
      },
    ];
    const on = async (devices: readonly Device[]): Promise<Tensor> => {
      await using early = await createEarlyExit(smallNet(), { fc: 'logits' }, { exits, devices });
      const { logits, exits: taken } = await early.run(smallImages(3));
      expect(taken).toEqual([1, 0, 1]);
      return logits;
    };
    expectNear(await on([gpu, 'cpu']), await on(['cpu']));
  });
});
