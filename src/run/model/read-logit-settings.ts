/** How a model that holds both towers makes logits of cosines: what it was trained with. */
import type { OnnxModel } from './open/open-model.js';
import type { Value } from '../../onnx/graph/graph.js';
import { toFloat64 } from './open/encode-values.js';
import { modelInternals, type ModelState } from './open/model-state.js';
import { readInitializer } from './open/read-initializer.js';

/** The logit of an image and a label is `scale × cosine + bias`. */
export interface LogitSettings {
  /** `exp(logit_scale)`. */
  readonly scale: number;
  /** SigLIP's `logit_bias`, before a sigmoid; undefined for CLIP's softmax over all labels. */
  readonly bias: number | undefined;
}

/**
 * Reads what lies between the product of the vectors and the output `logits_per_image` or `logits_per_text`: a factor, and what is
 * added to it. Names of parameters do not matter, because exporters replace them.
 *
 * @returns Undefined if the graph has no such output, as a text tower, or computes it in another way.
 */
export async function readLogitSettings(model: OnnxModel): Promise<LogitSettings | undefined> {
  const state = modelInternals.of(model);
  const output = state.graph.outputs.find(({ name }) => /^logits_per_(?:image|text)$/.test(name));
  const sum = await readOperand(state, output, 'Add');
  const product = await readOperand(state, sum?.other ?? output, 'Mul');
  const cosines = withoutLayout(product?.other)?.producer?.opType;
  if (!product || product.number <= 0 || (cosines !== 'MatMul' && cosines !== 'Gemm')) return undefined;
  return { scale: product.number, bias: sum?.number };
}

/** The number that an operator adds or multiplies with, and what it does that to; undefined if another operator made the value. */
async function readOperand(
  state: ModelState,
  value: Value | undefined,
  operator: 'Add' | 'Mul',
): Promise<{ readonly number: number; readonly other: Value | undefined } | undefined> {
  const producer = withoutLayout(value)?.producer;
  if (producer?.opType !== operator) return undefined;
  for (const [i, input] of producer.inputs.entries()) {
    const number = await readNumber(state, input);
    if (number !== undefined) return { number, other: producer.inputs[1 - i] };
  }
  return undefined;
}

/** The value behind nodes that move or convert its elements. */
function withoutLayout(value: Value | undefined): Value | undefined {
  const { opType, inputs } = value?.producer ?? {};
  const isLayout = opType === 'Transpose' || opType === 'Cast' || opType === 'Identity';
  return isLayout ? withoutLayout(inputs?.[0]) : value;
}

/** The only element of a constant, or Exp of it. */
async function readNumber(state: ModelState, value: Value | undefined): Promise<number | undefined> {
  const { producer, initializer } = withoutLayout(value) ?? {};
  if (producer?.opType === 'Exp') {
    const exponent = await readNumber(state, producer.inputs[0]);
    return exponent === undefined ? undefined : Math.exp(exponent);
  }
  if (!initializer || initializer.dims.some((size) => size !== 1)) return undefined;
  return toFloat64(await readInitializer(state, initializer))[0];
}
