/** Which axis holds the channels, by the operators that made a tensor. */
import { describe, expect, it } from 'vitest';
import { channelAxis } from '../../../src/onnx/graph/layout.js';
import { modelInternals } from '../../../src/run/model/open/model-state.js';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { modelBytes, type NodeSpec } from '../../support/graphs.js';

/** The axis of the channels of `y`. */
async function axisOf(rank: number, ...nodes: readonly NodeSpec[]): Promise<number | undefined> {
  const dims = Array.from({ length: rank }, (_, k) => `d${k}`);
  const bytes = modelBytes({
    inputs: [{ name: 'x', dims }],
    // A reduction is followed where the rank of what it reads is stated.
    outputs: nodes.flatMap(({ outputs }) => outputs.map((name) => ({ name, dims }))),
    nodes,
    initializers: { w: { dims: [3, 3, 1, 1], values: Array<number>(9).fill(1) }, scale: [1, 1, 1] },
  });
  const { graph } = modelInternals.of(await openModel(bytes));
  return channelAxis(graph, graph.outputs.at(-1)!, rank);
}

const conv: NodeSpec = { op: 'Conv', inputs: ['x', 'w'], outputs: ['maps'] };

describe('channelAxis', () => {
  it.each(['Selu', 'Swish', 'Softsign', 'Mish', 'Abs', 'Exp', 'Floor', 'LogSoftmax', 'Relu'])(
    'follows %s, which keeps elements in their places',
    async (op) => {
      expect(await axisOf(4, conv, { op, inputs: ['maps'], outputs: ['y'] })).toBe(1);
    },
  );

  it.each(['Max', 'Min', 'Sum', 'Mean', 'Mod', 'Greater'])('follows %s of two maps', async (op) => {
    expect(await axisOf(4, conv, { op, inputs: ['maps', 'maps'], outputs: ['y'] })).toBe(1);
  });

  it.each(['ReduceL2', 'ReduceMin', 'ReduceMean', 'ArgMax'])('follows %s that keeps the rank', async (op) => {
    expect(await axisOf(4, conv, { op, inputs: ['maps'], outputs: ['y'], ints: { keepdims: 1 } })).toBe(1);
  });

  it.each(['LpPool', 'GlobalLpPool', 'MaxUnpool', 'GridSample'])(
    'knows that %s gives [N, C, …]',
    async (op) => {
      expect(await axisOf(4, { op, inputs: ['x', 'x'], outputs: ['y'] })).toBe(1);
    },
  );

  it.each(['LayerNormalization', 'RMSNormalization', 'SimplifiedLayerNormalization'])(
    'takes the axis that %s works along',
    async (op) => {
      expect(await axisOf(3, { op, inputs: ['x', 'scale'], outputs: ['y'] })).toBe(2);
    },
  );

  it.each(['FusedMatMul', 'FusedGemm', 'MatMulNBits'])(
    'takes the last axis of the linear layer %s',
    async (op) => {
      expect(await axisOf(2, { op, domain: 'com.microsoft', inputs: ['x', 'w'], outputs: ['y'] })).toBe(1);
    },
  );

  it('leaves functions and convolutions with channels last alone', async () => {
    const rectified: NodeSpec = { op: 'Relu', domain: 'local', inputs: ['maps'], outputs: ['y'] };
    expect(await axisOf(4, conv, rectified)).toBeUndefined();
    const quantized: NodeSpec = {
      op: 'QLinearConv',
      domain: 'com.microsoft',
      inputs: ['x'],
      outputs: ['y'],
      ints: { channels_last: 1 },
    };
    expect(await axisOf(4, quantized)).toBeUndefined();
  });
});
