/** Pipelines whose stages are described one by one, and have several devices. */
import fc from 'fast-check';
import { createFeatureExtractor, type Tensor } from 'onnx-tapir';
import { Pipeline, splitModel, type StagePlace } from 'onnx-tapir/stages';
import { describe, expect, it, vi } from 'vitest';
import { seededImages } from '../../support/exports.js';
import { tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';
import { rounds } from '../../support/rounds.js';

const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
const EXACT = { graphOptimizationLevel: 'disabled' } as const;
const NODES = { layer2: 'early', avgpool: 'pooled' } as const;

function images(rows: number, size = 64): Tensor {
  const dims = [rows, 3, size, size];
  return { dtype: 'float32', dims, data: seededImages('places', dims) };
}

async function wholeOf(input: Tensor) {
  await using extractor = await createFeatureExtractor(tinyResNet(), NODES, { session: EXACT });
  return extractor.run(input);
}

/** A graph in which a branch goes around the module `inner`. */
const AROUND: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 4] }],
  outputs: [{ name: 'y', dims: ['n', 4] }],
  nodes: [
    { op: 'Relu', name: '/first/Relu', inputs: ['x'], outputs: ['a'] },
    { op: 'Neg', name: '/inner/Neg', inputs: ['a'], outputs: ['b'] },
    { op: 'Abs', name: '/around/Abs', inputs: ['a'], outputs: ['c'] },
    { op: 'Mul', name: '/inner/Mul', inputs: ['b', 'a'], outputs: ['d'] },
    { op: 'Add', name: '/last/Add', inputs: ['c', 'd'], outputs: ['y'] },
  ],
};

describe('stages of a pipeline', () => {
  it('runs a part of the model on several devices, bit for bit, and says what each device did', async () => {
    const input = images(11);
    const whole = await wholeOf(input);
    await using pipeline = await Pipeline.create(tinyResNet(), NODES, {
      stages: [{ until: 'layer1', devices: ['cpu:0'] }, { devices: ['cpu:1', 'cpu:2'] }],
      microBatch: 2,
      session: EXACT,
    });
    expect(pipeline.device).toBe('cpu:0 → cpu:1 + cpu:2');
    expect(await pipeline.run(input)).toEqual(whole);
    const [first, second] = pipeline.stages;
    expect(first!.spent).toMatchObject([{ device: 'cpu:0', runs: 6 }]);
    expect(second!.devices).toEqual(['cpu:1', 'cpu:2']);
    expect(second!.spent.reduce((sum, { runs }) => sum + runs, 0)).toBe(6);
    for (const { runs, runMs } of second!.spent) {
      expect(runs).toBeGreaterThan(0);
      expect(runMs).toBeGreaterThan(0);
    }
    expect(emitWarning).not.toHaveBeenCalled();
  });

  it('runs a module on two devices and the rest on one of them, as torch does', async () => {
    const input = images(9);
    await using pipeline = await Pipeline.create(tinyResNet(), NODES, {
      stages: [
        { devices: ['cpu:0'] },
        { module: 'layer3', devices: ['cpu:0', 'cpu:1'], split: 'chunk' },
        { devices: ['cpu:0'] },
      ],
      session: EXACT,
    });
    expect(pipeline.stages.map(({ devices }) => devices.length)).toEqual([1, 2, 1]);
    expect(await pipeline.run(input)).toEqual(await wholeOf(input));
    const { stages } = await splitModel(tinyResNet(), { stages: [{}, { module: 'layer3' }, {}] });
    const { nodes } = stages[1]!.model.plan.kept;
    expect(nodes.length).toBeGreaterThan(4);
    expect(nodes.filter((name) => !name.includes('layer3'))).toEqual([]);
  });

  it('gives the same bits for any stages, splits and batches', async () => {
    const place = fc.record({
      devices: fc.constantFrom(['cpu:0'], ['cpu:1', 'cpu:2'], ['cpu:0', 'cpu:1', 'cpu:2']),
      split: fc.constantFrom('dynamic', 'none', 'chunk', 'balanced', undefined),
    });
    const ends = fc.constantFrom(
      [{ until: 'layer1' }, {}],
      [{ until: 'conv1' }, { until: 'layer2' }, {}],
      [{}, { module: 'layer2' }, {}],
      [{ until: 'layer1' }, { module: 'layer2' }, { module: 'layer3' }, {}],
    );
    const wholes = new Map<number, unknown>();
    await fc.assert(
      fc.asyncProperty(
        ends,
        fc.array(place, { minLength: 4, maxLength: 4 }),
        fc.integer({ min: 0, max: 3 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }),
        fc.constantFrom('thread', 'thread', 'thread', 'process'),
        async (spans, places, microBatch, batches, isolation) => {
          const stages = spans.map((span, i) => ({ ...span, ...places[i]! }) as StagePlace);
          await using pipeline = await Pipeline.create(tinyResNet(), NODES, {
            stages,
            microBatch,
            isolation,
            session: EXACT,
          });
          for (const rows of batches) {
            const input = images(rows);
            if (!wholes.has(rows)) wholes.set(rows, await wholeOf(input));
            expect(await pipeline.run(input)).toEqual(wholes.get(rows));
          }
        },
      ),
      { numRuns: rounds(4, 200) },
    );
  });

  it('holds a module with a branch around it, and splits rows by weights', async () => {
    const x = {
      dtype: 'float32',
      dims: [5, 4],
      data: Float32Array.from({ length: 20 }, (_, i) => i - 9),
    } as const;
    await using pipeline = await Pipeline.create(modelBytes(AROUND), ['y'], {
      stages: [
        { devices: ['cpu:0'] },
        { module: 'inner', devices: ['cpu:1', 'cpu:2'], split: [3, 1] },
        { devices: ['cpu:0'] },
      ],
      microBatch: 5,
    });
    const { y } = await pipeline.run(x);
    expect([...(y.data as Float32Array)]).toEqual(
      [...x.data].map((value) => Math.max(value, 0) - Math.max(value, 0) ** 2),
    );
    expect(pipeline.stages[1]!.spent.map(({ runs }) => runs)).toEqual([1, 1]);
  });

  it('names the stage and the device of a failure', async () => {
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: [],
      initializers: { table: [1, 2, 3, 4] },
      nodes: [
        { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'Cast', inputs: ['a'], outputs: ['at'], ints: { to: 7 } },
        { op: 'Gather', inputs: ['table', 'at'], outputs: ['y'] },
      ],
    };
    await using pipeline = await Pipeline.create(modelBytes(spec), ['y'], {
      stages: [{ until: 'first', devices: ['cpu:0'] }, { devices: ['cpu:1', 'cpu:2'] }],
    });
    await expect(
      pipeline.run({ dtype: 'float32', dims: [1], data: Float32Array.of(1000) }),
    ).rejects.toMatchObject({
      code: 'STAGE_FAILED',
      details: { stage: 1, device: expect.stringMatching(/^cpu:[12]$/) },
      cause: { code: 'RUN_FAILED' },
    });
    const { y } = await pipeline.run({ dtype: 'float32', dims: [2], data: Float32Array.of(1, 3) });
    expect([...(y.data as Float32Array)]).toEqual([2, 4]);
  });

  it('opens a device that died again', async () => {
    await using pipeline = await Pipeline.create(tinyResNet(), NODES, {
      stages: [{ until: 'layer2', devices: ['cpu:0'] }, { devices: ['cpu:1', 'cpu:2'] }],
      isolation: 'process',
      session: EXACT,
    });
    const before = await pipeline.run(images(4));
    process.kill(pipeline.stages[1]!.pids[1]!, 'SIGKILL');
    await vi.waitFor(async () => expect(await pipeline.run(images(4))).toEqual(before), { timeout: 20_000 });
  });

  it.each([
    [{ stages: [] }, 'OPTION_INVALID', 'a list of'],
    [{ stages: [{ devices: [] }] }, 'OPTION_INVALID', 'stages[0].devices'],
    [{ stages: [{ devices: ['cpu:0', 'cpu:0'] }] }, 'OPTION_INVALID', 'named twice'],
    [{ stages: [{ devices: ['cpu:0'], untill: 'layer1' }] }, 'OPTION_INVALID', 'stages[0]'],
    [{ stages: [{ devices: ['cpu:0'] }], devices: ['cpu:1'] }, 'OPTION_INVALID', 'devices'],
    [{ stages: [{ devices: ['cpu:0'] }], cuts: ['layer1'] }, 'OPTION_INVALID', 'cuts'],
    [{ stages: [{ devices: ['cpu:0', 'cpu:1'], split: [1, 2, 3] }] }, 'OPTION_INVALID', '2 weights'],
    [{ devices: ['cpu:0', 'cpu:1'], split: 'chunk' }, 'OPTION_INVALID', 'split'],
    [
      { stages: [{ until: 'layr1', devices: ['cpu:0'] }, { devices: ['cpu:1'] }] },
      'NAME_NOT_FOUND',
      'layer1',
    ],
    [
      { stages: [{ devices: ['cpu:0'] }, { module: 'layr3', devices: ['cpu:1'] }] },
      'NAME_NOT_FOUND',
      'layer3',
    ],
    [
      {
        stages: [
          { until: 'layer1', devices: ['cpu:0'] },
          { module: 'layer3', devices: ['cpu:1'] },
          { devices: ['cpu:0'] },
        ],
      },
      'SPLIT_IMPOSSIBLE',
      'layer2',
    ],
    [
      { stages: [{ devices: ['cpu:0'] }, { module: 'layer2', devices: ['cpu:1'] }] },
      'SPLIT_IMPOSSIBLE',
      'what follows "layer2" belongs to no stage',
    ],
    [
      {
        stages: [
          { until: 'layer2', devices: ['cpu:0'] },
          { until: 'layer1', devices: ['cpu:1'] },
          { devices: ['cpu:0'] },
        ],
      },
      'SPLIT_IMPOSSIBLE',
      'in the order',
    ],
  ])('refuses %j', async (options, code, text) => {
    await expect(Pipeline.create(tinyResNet(), NODES, options as never)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(text),
    });
  });

  it('refuses to split rows where the file does not show them, and says what works', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: [{ name: 'y', dims: [4, 'n'] }],
      nodes: [
        { op: 'Transpose', name: 'turned', inputs: ['x'], outputs: ['t'] },
        { op: 'Neg', name: 'late', inputs: ['t'], outputs: ['y'] },
      ],
    };
    const stages = (split: 'balanced' | 'dynamic'): StagePlace[] => [
      { until: 'turned', devices: ['cpu:0'] },
      { devices: ['cpu:1', 'cpu:2'], split },
    ];
    await expect(
      Pipeline.create(modelBytes(spec), ['y'], { stages: stages('balanced') }),
    ).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/stages\[1\].split.*dynamic/),
    });
    await using pipeline = await Pipeline.create(modelBytes(spec), ['y'], { stages: stages('dynamic') });
    expect(pipeline.stages).toHaveLength(2);
    // On one device there is nothing to split.
    await using alone = await Pipeline.create(modelBytes(spec), ['y'], {
      stages: [{ until: 'turned', devices: ['cpu:0'] }, { devices: ['cpu:1'] }],
      split: 'balanced',
    });
    expect(alone.stages).toHaveLength(2);
  });
});
