/** Scale and bias of logits, from graphs as exporters write them. */
import { describe, expect, it } from 'vitest';
import { readLogitSettings, type LogitSettings } from '../../../src/run/model/read-logit-settings.js';
import { modelBytes, type NodeSpec, type WeightSpec } from '../../support/graphs.js';
import { readTextFixture } from '../../support/text-models.js';
import { openModel } from '../../../src/run/model/open/open-model.js';

const COSINES: NodeSpec = { op: 'MatMul', inputs: ['text', 'images'], outputs: ['cosines'] };
const TRANSPOSE = (of: string): NodeSpec => ({
  op: 'Transpose',
  inputs: [of],
  outputs: ['logits_per_image'],
});

async function read(
  nodes: readonly NodeSpec[],
  initializers: Readonly<Record<string, WeightSpec>>,
): Promise<LogitSettings | undefined> {
  const square = ['n', 'n'];
  const inputs = ['text', 'images'].map((name) => ({ name, dims: square }));
  const outputs = [{ name: 'logits_per_image', dims: square }];
  return readLogitSettings(await openModel(modelBytes({ inputs, outputs, nodes, initializers })));
}

describe('readLogitSettings', () => {
  const exp: NodeSpec = { op: 'Exp', inputs: ['onnx::Exp_864'], outputs: ['e'] };
  const mul: NodeSpec = { op: 'Mul', inputs: ['cosines', 'e'], outputs: ['scaled'] };
  const add: NodeSpec = { op: 'Add', inputs: ['scaled', 'onnx::Add_865'], outputs: ['sum'] };
  const scale = { 'onnx::Exp_864': [2] };

  it('takes the factor of CLIP, before or after Exp', async () => {
    const fused = await openModel(readTextFixture('clip/model.onnx.gz'));
    const found = await readLogitSettings(fused);
    expect(found).toEqual({ scale: expect.closeTo(Math.exp(2.6592), 4), bias: undefined });
    const folded = { ...mul, inputs: ['e', 'cosines'] };
    expect(await read([COSINES, folded, TRANSPOSE('scaled')], { e: { dims: [], values: [50] } })).toEqual({
      scale: 50,
      bias: undefined,
    });
  });

  it('takes the factor and the bias of SigLIP', async () => {
    const nodes = [COSINES, exp, mul, add, TRANSPOSE('sum')];
    expect(await read(nodes, { ...scale, 'onnx::Add_865': [-2.5] })).toEqual({
      scale: Math.exp(2),
      bias: -2.5,
    });
  });

  it.each<[string, readonly NodeSpec[], Readonly<Record<string, WeightSpec>>]>([
    ['no factor', [COSINES, TRANSPOSE('cosines')], {}],
    ['a factor per column', [COSINES, exp, mul, TRANSPOSE('scaled')], { 'onnx::Exp_864': [1, 2] }],
    ['a factor that is computed', [COSINES, { ...exp, inputs: ['text'] }, mul, TRANSPOSE('scaled')], {}],
    ['no product of vectors', [{ ...COSINES, op: 'Sub' }, exp, mul, TRANSPOSE('scaled')], scale],
    [
      'a bias before the factor',
      [
        COSINES,
        exp,
        { ...add, inputs: ['cosines', 'b'] },
        { ...mul, inputs: ['sum', 'e'] },
        TRANSPOSE('scaled'),
      ],
      { ...scale, b: [1] },
    ],
  ])('reads nothing from a graph with %s', async (_what, nodes, initializers) => {
    expect(await read(nodes, initializers)).toBeUndefined();
  });

  it('reads nothing from a text tower', async () => {
    expect(
      await readLogitSettings(await openModel(readTextFixture('clip/text_model.onnx.gz'))),
    ).toBeUndefined();
  });
});
