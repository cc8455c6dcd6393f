/** Batches whose rows depend on one another stay whole in a pipeline; all others go through it in parts. */
import { createFeatureExtractor, type Tensor } from 'onnx-tapir';
import { Pipeline } from 'onnx-tapir/stages';
import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { seededImages } from '../../support/exports.js';
import { tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec, type NodeSpec } from '../../support/graphs.js';
import { stagesModel } from '../../support/stages.js';

const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
beforeEach(() => emitWarning.mockClear());
afterAll(() => vi.restoreAllMocks());

const EXACT = { graphOptimizationLevel: 'disabled' } as const;
const TWO = { devices: ['cpu:0', 'cpu:1'], session: EXACT } as const;
const ROWS = 8;

/** A product in front, nodes between `a` and `b`, and a product behind. */
function between(nodes: readonly NodeSpec[], last: NodeSpec[] = [product('b', 'y')]): Uint8Array {
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: ['N', 4] }],
    outputs: [{ name: 'y', dims: ['N', 'columns'] }],
    initializers: {
      w: { dims: [4, 4], values: Array.from({ length: 16 }, (_, i) => Math.sin(i * i + 1)) },
      zero: { dims: [1], values: [0], elemType: 'int64' },
      one: { dims: [1], values: [1], elemType: 'int64' },
      minus: { dims: [1], values: [-1], elemType: 'int64' },
      least: { dims: [1], values: [-(2 ** 40)], elemType: 'int64' },
      constant: { dims: [3], values: [1, 2, 3] },
    },
    nodes: [product('x', 'a'), ...nodes, ...last],
  };
  return modelBytes(spec);
}

function product(from: string, to: string): NodeSpec {
  return { op: 'MatMul', inputs: [from, 'w'], outputs: [to] };
}

const x: Tensor = {
  dtype: 'float32',
  dims: [ROWS, 4],
  data: Float32Array.from({ length: 4 * ROWS }, (_, i) => Math.sin(1.7 * i) + 0.3),
};

const MIXING: Record<string, readonly NodeSpec[]> = {
  'subtracts the mean of the batch': [
    { op: 'ReduceMean', inputs: ['a'], outputs: ['m'], ints: { axes: [0] } },
    { op: 'Sub', inputs: ['a', 'm'], outputs: ['b'] },
  ],
  'attends over the batch': [
    { op: 'Transpose', inputs: ['a'], outputs: ['t'] },
    { op: 'MatMul', inputs: ['a', 't'], outputs: ['s'] },
    { op: 'Softmax', inputs: ['s'], outputs: ['p'] },
    { op: 'MatMul', inputs: ['p', 'a'], outputs: ['b'] },
  ],
  'takes a softmax over the batch': [{ op: 'Softmax', inputs: ['a'], outputs: ['b'], ints: { axis: 0 } }],
  'divides by the largest element': [
    { op: 'ReduceMax', inputs: ['a'], outputs: ['m'], ints: { keepdims: 0 } },
    { op: 'Div', inputs: ['a', 'm'], outputs: ['b'] },
  ],
  'divides by the number of rows': [
    { op: 'Shape', inputs: ['a'], outputs: ['sizes'] },
    { op: 'Gather', inputs: ['sizes', 'zero'], outputs: ['n'] },
    { op: 'Cast', inputs: ['n'], outputs: ['f'], ints: { to: 1 } },
    { op: 'Div', inputs: ['a', 'f'], outputs: ['b'] },
  ],
  'turns the batch round': [
    { op: 'Slice', inputs: ['a', 'minus', 'least', 'zero', 'minus'], outputs: ['b'] },
  ],
  'subtracts the first row': [
    { op: 'Slice', inputs: ['a', 'zero', 'one', 'zero'], outputs: ['m'] },
    { op: 'Sub', inputs: ['a', 'm'], outputs: ['b'] },
  ],
  'adds rows up': [{ op: 'CumSum', inputs: ['a', 'zero'], outputs: ['b'] }],
};

/** Runs of the first stage for one batch, and the output. */
async function piped(model: Uint8Array, options: object = {}, node = 'y', feed: Tensor = x) {
  await using pipeline = await Pipeline.create(model, [node], { ...TWO, ...options });
  const [output] = Object.values(await pipeline.run(feed));
  return { runs: pipeline.stages[0]!.spent[0]!.runs, output };
}

async function whole(model: Uint8Array): Promise<Tensor | undefined> {
  await using extractor = await createFeatureExtractor(model, ['y'], { session: EXACT });
  return (await extractor.run(x)).y;
}

describe('a pipeline keeps a batch whole whose rows depend on one another', () => {
  it.each(Object.entries(MIXING))('%s', async (_, nodes) => {
    const model = between(nodes);
    expect(await piped(model)).toEqual({ runs: 1, output: await whole(model) });
  });

  it('gives outputs that have no row per row: products of all rows with all, and constants', async () => {
    const similar = between(
      [{ op: 'Transpose', inputs: ['a'], outputs: ['t'] }],
      [{ op: 'MatMul', inputs: ['a', 't'], outputs: ['y'] }],
    );
    const { output } = await piped(similar, { maxTensors: 2 });
    expect(output).toEqual(await whole(similar));
    expect(output?.dims).toEqual([ROWS, ROWS]);
    const model = between([
      { op: 'Relu', inputs: ['constant'], outputs: ['k'] },
      { op: 'Relu', inputs: ['a'], outputs: ['b'] },
    ]);
    await using pipeline = await Pipeline.create(model, ['k', 'y'], TWO);
    const { k } = await pipeline.run(x);
    expect([...(k.data as Float32Array)]).toEqual([1, 2, 3]);
    await using inParts = await Pipeline.create(model, ['k', 'y'], { ...TWO, microBatch: 2 });
    await expect(inParts.run(x)).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
      message: expect.stringContaining('in a Pipeline with a microBatch of all rows'),
    });
  });

  it('does as microBatch says, with a warning', async () => {
    const model = between(MIXING['subtracts the mean of the batch']!);
    expect((await piped(model, { microBatch: 2 })).runs).toBe(4);
    expect(emitWarning).toHaveBeenCalledWith(expect.stringMatching(/ReduceMean.*microBatch/), {
      code: 'TAPIR_ROWS_DEPENDENT',
    });
    emitWarning.mockClear();
    expect((await piped(tinyResNet(), { microBatch: 2 }, 'fc', images(64))).runs).toBe(4);
    expect(emitWarning.mock.calls.flat()).not.toContainEqual({ code: 'TAPIR_ROWS_DEPENDENT' });
  });

  it('does not split the rows of a stage over its devices', async () => {
    const model = between(MIXING['takes a softmax over the batch']!, [product('b', 'c'), product('c', 'y')]);
    const create = (stages: object[]) =>
      Pipeline.create(model, ['y'], { stages, split: 'balanced', session: EXACT } as never);
    const both = ['cpu:0', 'cpu:1'];
    await expect(
      create([{ until: 'tensor:a', devices: ['cpu:2'] }, { devices: both }]),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining('Softmax') });
    await using pipeline = await create([{ until: 'tensor:c', devices: ['cpu:2'] }, { devices: both }]);
    expect(Object.values(await pipeline.run(x))[0]).toEqual(await whole(model));
    expect(pipeline.stages[1]!.spent.map(({ runs }) => runs)).toEqual([1, 1]);
  });
});

const FREE: Record<string, readonly NodeSpec[]> = {
  'reduces each row': [
    { op: 'ReduceMean', inputs: ['a'], outputs: ['m'], ints: { axes: [1] } },
    { op: 'Sub', inputs: ['a', 'm'], outputs: ['b'] },
  ],
  'divides by the number of columns': [
    { op: 'Shape', inputs: ['a'], outputs: ['sizes'] },
    { op: 'Gather', inputs: ['sizes', 'one'], outputs: ['n'] },
    { op: 'Cast', inputs: ['n'], outputs: ['f'], ints: { to: 1 } },
    { op: 'Div', inputs: ['a', 'f'], outputs: ['b'] },
  ],
  'runs two views as one batch': [
    { op: 'Neg', inputs: ['a'], outputs: ['n'] },
    { op: 'Concat', inputs: ['a', 'n'], outputs: ['v'], ints: { axis: 0 } },
    { op: 'Tanh', inputs: ['v'], outputs: ['h'] },
    { op: 'Split', inputs: ['h'], outputs: ['h1', 'h2'], ints: { axis: 0 } },
    { op: 'Max', inputs: ['h1', 'h2'], outputs: ['b'] },
  ],
  'reads only the sizes of a mean': [
    { op: 'ReduceMean', inputs: ['a'], outputs: ['m'], ints: { axes: [0] } },
    { op: 'Shape', inputs: ['m'], outputs: ['sizes'] },
    { op: 'Expand', inputs: ['a', 'sizes'], outputs: ['b'] },
  ],
};

function images(size: number): Tensor {
  const dims = [ROWS, 3, size, size];
  return { dtype: 'float32', dims, data: seededImages('dependent', dims) };
}

describe('a pipeline runs all other batches in parts', () => {
  it.each(Object.entries(FREE))('%s', async (_, nodes) => {
    const model = between(nodes);
    const { runs, output } = await piped(model, { maxTensors: 4 });
    expect(runs).toBeGreaterThan(1);
    expect(output).toEqual(await whole(model));
  });

  it.each([
    ['a ResNet', tinyResNet(), 'fc', 64],
    ['a dense network', stagesModel('dense'), 'output', 32],
    ['a U-Net', stagesModel('unet'), 'output', 32],
    ['a ViT', stagesModel('vit'), 'output', 32],
  ])('%s', async (_, model, node, size) => {
    expect((await piped(model, { maxTensors: 8 }, node, images(size))).runs).toBeGreaterThan(1);
  });
});
