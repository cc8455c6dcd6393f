/** Graphs that OpenVINO computes otherwise than ONNX says, and their neighbours that it computes well. */
import { describe, expect, it } from 'vitest';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import { prunedInternals } from '../../../../src/run/model/prune/pruned-model.js';
import { checkOpenVino } from '../../../../src/run/model/lanes/check-openvino.js';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';

async function check(
  nodes: readonly NodeSpec[],
  dims: readonly number[],
  { initializers = {}, opset = 18 }: Pick<GraphSpec, 'initializers'> & { opset?: number } = {},
): Promise<unknown> {
  const spec = { inputs: [{ name: 'x', dims }], outputs: ['y'], nodes, initializers };
  const pruned = await pruneModel(await openModel(modelBytes(spec, { opset })), ['y']);
  return checkOpenVino(pruned.source, prunedInternals.of(pruned).rewrite).catch((error: unknown) => error);
}

const matrix = (...dims: number[]): WeightSpec => ({
  dims,
  values: Array.from({ length: dims.reduce((a, b) => a * b) }, (_, i) => i),
});

function one(op: string, ints: NodeSpec['ints'] = {}, texts: NodeSpec['texts'] = {}): NodeSpec[] {
  return [{ op, inputs: ['x'], outputs: ['y'], ints, texts }];
}

const IMAGE = [1, 2, 6, 6];

describe('checkOpenVino', () => {
  it.each([
    ['ignores antialias', { antialias: 1 }, { mode: 'linear' }],
    ['ignores keep_aspect_ratio_policy', {}, { keep_aspect_ratio_policy: 'not_larger' }],
    [undefined, { antialias: 1 }, { mode: 'nearest' }],
    [undefined, {}, { mode: 'cubic' }],
  ])('of Resize: %s', async (why, ints, texts) => {
    const nodes = [{ ...one('Resize', ints, texts)[0]!, inputs: ['x', '', 'scales'] }];
    const scales = { dims: [4], values: [1, 1, 0.5, 0.5] };
    const error = await check(nodes, IMAGE, { initializers: { scales } });
    if (why === undefined) expect(error).toBeUndefined();
    else
      expect(error).toMatchObject({
        code: 'ENGINE_UNSUPPORTED',
        message: expect.stringContaining(why) as string,
        details: { operators: ['Resize'] },
      });
  });

  it.each([
    [[3, 3], [2, 2], [0, 0, 1, 1], false],
    [[2, 2], [2, 2], [0, 0, 1, 1], true],
    [[2, 2], [3, 3], [0, 0, 0, 0], true],
  ])(
    'of MaxPool with ceil_mode: kernel %s, strides %s, pads %s',
    async (kernel, strides, pads, isRefused) => {
      const nodes = one('MaxPool', { kernel_shape: kernel, strides, pads, ceil_mode: 1 });
      expect((await check(nodes, IMAGE)) !== undefined).toBe(isRefused);
    },
  );

  it('refuses a softmax over several axes in operator sets 11 and 12', async () => {
    const softmax = one('Softmax', { axis: 1 });
    expect(await check(softmax, IMAGE, { opset: 12 })).toMatchObject({ code: 'ENGINE_UNSUPPORTED' });
    expect(await check(softmax, [1, 5, 1, 1], { opset: 12 })).toBeUndefined();
    expect(await check(softmax, IMAGE, { opset: 13 })).toBeUndefined();
  });

  it('refuses a square weight that is read both ways', async () => {
    const tied = (turned: boolean): NodeSpec[] => [
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['a'] },
      { op: 'Transpose', inputs: ['w'], outputs: ['t'] },
      { op: 'Gemm', inputs: ['a', turned ? 't' : 'w'], outputs: ['y'] },
    ];
    const refused = await check(tied(true), [2, 4], { initializers: { w: matrix(4, 4) } });
    expect(refused).toMatchObject({ details: { operators: ['Gemm'] } });
    expect(await check(tied(false), [2, 4], { initializers: { w: matrix(4, 4) } })).toBeUndefined();
    expect(await check(tied(true), [2, 4], { initializers: { w: matrix(4, 3) } })).toBeUndefined();
  });
});
