/** The head of a classifier: its last linear layer. */
import { invalidOption } from '../../../base/checks.js';
import { createRandom, seedOf } from '../../../base/random.js';
import { findProbabilities } from '../../../onnx/graph/probabilities.js';
import { withLinearHead } from '../../../onnx/graph/rewrite/linear-head.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import type { Parameter } from '../../../run/model/open/named-parameters.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { withHeads } from '../../../extract/with-heads.js';
import { elementCount, makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';

/** The last linear layer of a model. */
export interface Head {
  /** Its module, such as `fc`. */
  readonly name: string;
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
}

const WEIGHT = '.weight';

/** Finds the last parameter that is a matrix and the weight of a module; undefined if the model has no such parameter. */
export function findHead(model: OnnxModel): Head | undefined {
  const parameters = model.parameters();
  const weight = parameters.findLast(({ name, dims }) => dims.length === 2 && name.endsWith(WEIGHT));
  if (!weight) return undefined;
  const name = weight.name.slice(0, -WEIGHT.length);
  return { name, weight, bias: parameters.find((parameter) => parameter.name === `${name}.bias`) };
}

/** Checks that a classifier gives logits: the loss takes their softmax itself. Throws `OPTION_INVALID` for one that gives probabilities. */
export function checkLogits(model: OnnxModel): void {
  const [output] = modelInternals.of(model).graph.outputs;
  const producer = findProbabilities(output!);
  // A LogSoftmax leaves log probabilities, whose softmax gives the same loss.
  if (!producer || producer.opType === 'LogSoftmax') return;
  const logits = producer.inputs[0]!.name;
  throw invalidOption(
    'model',
    `one that gives logits: "${output!.name}" comes from ${producer.opType} (cut that off: tapir extract MODEL --return "tensor:${logits}=logits" -o logits.onnx)`,
    model.label,
  );
}

/** A model for a number of classes. */
export interface FittedModel {
  readonly model: OnnxModel;
  readonly head: Head | undefined;
  /** What was done to the head, in words; null if it has as many outputs as there are classes. */
  readonly note: string | null;
}

/** The module of a head that is put on features: one that the model does not have, such as the demo, which ends in `head.conv`. */
function freeModule(model: OnnxModel): string {
  const names = model.parameters().map(({ name }) => name);
  const isFree = (module: string): boolean => !names.some((name) => name.startsWith(`${module}.`));
  for (let module = 'head', n = 2; ; module = `head${n++}`) if (isFree(module)) return module;
}

/**
 * Gives a model as many outputs as there are classes: a new head in place of one with another number, or on the features of a model
 * without one. Its numbers are those of torch's `Linear`: uniform between ±1/√(inputs).
 *
 * @param seed - Chooses the numbers.
 * @throws {@link TapirError} `OPTION_INVALID` for a model that has neither a head nor features of a known size; `STATE_MISMATCH` if the
 * head's result is no output.
 */
export async function fitHead(model: OnnxModel, classes: number, seed: number): Promise<FittedModel> {
  const head = findHead(model);
  const [output] = model.outputs;
  const outputs = output?.dims?.at(-1);
  const now = typeof outputs === 'number' ? outputs : head?.weight.dims[0];
  if (now === classes) return { model, head, note: null };
  if (!head) return putHead(model, classes, seed);
  const features = head.weight.dims[1]!;
  const fresh = [head.weight, ...(head.bias ? [head.bias] : [])].map(
    ({ name, dims }) => [name, startTensor(name, [classes, ...dims.slice(1)], features, seed)] as const,
  );
  const fitted = await model.withParameters(Object.fromEntries(fresh));
  const note = `"${head.name}" gets ${classes} outputs in place of ${now}, and starts from scratch`;
  return { model: fitted, head: findHead(fitted), note };
}

/** Puts a head on the first output. */
async function putHead(model: OnnxModel, classes: number, seed: number): Promise<FittedModel> {
  const [output] = model.outputs;
  const sizes = output?.dims?.slice(1) ?? [null];
  const features = sizes.reduce<number>((product, size) => product * Number(size ?? Number.NaN), 1);
  if (!(features > 0))
    throw invalidOption(
      'model',
      'one that ends with a linear layer, or in features of a known size',
      model.label,
    );
  const module = freeModule(model);
  const [weight, bias] = [[classes, features], [classes]].map(
    (dims, i) => startTensor(`${module}.${i === 0 ? 'weight' : 'bias'}`, dims, features, seed).data,
  ) as [Float32Array, Float32Array];
  const linear = { weight, bias, module };
  const fitted = await withHeads(
    model,
    [{ node: `tensor:${output!.name}`, key: 'logits', attach: (...at) => withLinearHead(...at, linear) }],
    {},
  );
  const note = `a new layer "${module}" takes the ${features} features of "${output!.name}" to ${classes} classes`;
  return { model: fitted, head: findHead(fitted), note };
}

function startTensor(
  name: string,
  dims: readonly number[],
  features: number,
  seed: number,
): Tensor<'float32'> {
  const random = createRandom(seedOf(seed, name));
  const bound = 1 / Math.sqrt(features);
  const values = Float32Array.from({ length: elementCount(dims) }, () => (2 * random() - 1) * bound);
  return makeTensor('float32', [...dims], values);
}
