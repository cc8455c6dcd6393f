/** The ONNX graph of logistic regression: loss and gradient of several problems over a block of rows, in double precision. */
import { ELEMENT_TYPE, type Dim } from '../../../onnx/wire/schema.js';
import {
  integerTensor,
  writeModel,
  type NewNode,
  type NewTensor,
  type NewValue,
} from '../../../onnx/wire/write-model.js';

/** Names of the graph's outputs. */
export const OBJECTIVE_OUTPUTS = ['loss', 'weightGradient', 'biasGradient'] as const;

const IR_VERSION = 8;
const OPSET = 13;

/**
 * Makes the model for `problems` P of C classes over rows `[R, D]`. A problem has K rows of weights: one for each class, or one for two
 * classes, whose first class then has the logit 0.
 *
 * Inputs: `rows` `[R, D]` float32, `weight` `[P·K, D]`, `bias` `[P·K]`, `labels` `[R]` int64, and `importance` `[R, P]`, the weight of a
 * row in a problem. Outputs: `loss` `[P]`, the sum of the weighted cross-entropies, and its gradients `[P·K, D]` and `[P·K]`.
 */
export function encodeObjectiveModel(classes: number, elements: number): Uint8Array<ArrayBuffer> {
  const columns = columnsOf(classes);
  const isBinary = columns === 1;
  const node = (
    opType: string,
    inputs: string[],
    output: string,
    attributes: NewNode['attributes'] = {},
  ): NewNode => ({
    name: output,
    opType,
    inputs,
    outputs: [output],
    attributes,
  });
  const { float32, float64, int64 } = ELEMENT_TYPE;
  const value = (name: string, elemType: number, dims: readonly Dim[]): NewValue => ({
    name,
    elemType,
    dims,
  });
  const nodes = [
    node('Cast', ['rows'], 'x', { to: float64 }),
    node('Gemm', ['x', 'weight', 'bias'], 'flat', { transB: 1 }),
    node('Reshape', ['flat', 'byProblem'], isBinary ? 'single' : 'logits'),
    // The logits 0 and z of two classes.
    ...(isBinary ? [node('Mul', ['single', 'pair'], 'logits')] : []),
    node('LogSoftmax', ['logits'], 'logs', { axis: 2 }),
    node('Unsqueeze', ['labels', 'one'], 'labelColumn'),
    node('Equal', ['labelColumn', 'classNumbers'], 'isLabel'),
    node('Cast', ['isLabel'], 'hotRows', { to: float64 }),
    node('Unsqueeze', ['hotRows', 'one'], 'hot'),
    node('Mul', ['logs', 'hot'], 'ownLogs'),
    node('ReduceSum', ['ownLogs', 'two'], 'likelihood', { keepdims: 0 }),
    node('Mul', ['likelihood', 'importance'], 'weighted'),
    node('ReduceSum', ['weighted', 'zero'], 'gain', { keepdims: 0 }),
    node('Neg', ['gain'], 'loss'),
    node('Exp', ['logs'], 'probabilities'),
    node('Sub', ['probabilities', 'hot'], 'residual'),
    node('Unsqueeze', ['importance', 'two'], 'importances'),
    node('Mul', ['residual', 'importances'], 'weightedResidual'),
    ...(isBinary
      ? [
          node('Mul', ['weightedResidual', 'pair'], 'second'),
          node('ReduceSum', ['second', 'two'], 'slopes', { keepdims: 1 }),
        ]
      : []),
    node('Reshape', [isBinary ? 'slopes' : 'weightedResidual', 'byColumn'], 'slope'),
    node('Gemm', ['slope', 'x'], 'weightGradient', { transA: 1 }),
    node('ReduceSum', ['slope', 'zero'], 'biasGradient', { keepdims: 0 }),
  ];
  const pair: NewTensor = {
    name: 'pair',
    elemType: float64,
    dims: [2],
    data: new Uint8Array(Float64Array.of(0, 1).buffer),
  };
  return writeModel({
    irVersion: IR_VERSION,
    opset: OPSET,
    name: 'objective',
    nodes,
    tensors: [
      integerTensor('byProblem', [0, -1, columns]),
      integerTensor('byColumn', [0, -1]),
      integerTensor(
        'classNumbers',
        Array.from({ length: classes }, (_, index) => index),
      ),
      integerTensor('zero', [0]),
      integerTensor('one', [1]),
      integerTensor('two', [2]),
      ...(isBinary ? [pair] : []),
    ],
    inputs: [
      value('rows', float32, ['R', elements]),
      value('weight', float64, ['K', elements]),
      value('bias', float64, ['K']),
      value('labels', int64, ['R']),
      value('importance', float64, ['R', 'P']),
    ],
    outputs: [
      value('loss', float64, ['P']),
      value('weightGradient', float64, ['K', elements]),
      value('biasGradient', float64, ['K']),
    ],
  });
}

/** Rows of weights of a problem: two classes need one. */
export function columnsOf(classes: number): number {
  return classes === 2 ? 1 : classes;
}
