/** The head of a classifier: its last linear layer. */
import { invalidOption } from '../../base/checks.js';
import { createRandom, seedOf } from '../../base/random.js';
import { findProbabilities } from '../../graph/probabilities.js';
import { modelInternals } from '../../model/open/model-state.js';
import type { Parameter } from '../../model/open/named-parameters.js';
import type { OnnxModel } from '../../model/open/open-model.js';
import { elementCount, makeTensor, type Tensor } from '../../tensor/tensor.js';

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
  /** The number of classes that the head had, if it was replaced. */
  readonly replaced: number | null;
}

/**
 * Gives a model as many outputs as there are classes: another number replaces the head by a new one, whose numbers are those of torch's
 * `Linear`: uniform between ±1/√(inputs).
 *
 * @param seed - Chooses the numbers.
 * @throws {@link TapirError} `OPTION_INVALID` for a model whose head cannot be found; `STATE_MISMATCH` if its result is no output.
 */
export async function fitHead(model: OnnxModel, classes: number, seed: number): Promise<FittedModel> {
  const head = findHead(model);
  const [output] = model.outputs;
  const outputs = output?.dims?.at(-1);
  const now = typeof outputs === 'number' ? outputs : head?.weight.dims[0];
  if (now === classes) return { model, head, replaced: null };
  if (!head)
    throw invalidOption('model', `one that ends with a linear layer, or has ${classes} outputs`, model.label);
  const bound = 1 / Math.sqrt(head.weight.dims[1]!);
  const start = ({ name, dims }: Parameter): Tensor => {
    const random = createRandom(seedOf(seed, name));
    const sizes = [classes, ...dims.slice(1)];
    const values = Float32Array.from({ length: elementCount(sizes) }, () => (2 * random() - 1) * bound);
    return makeTensor('float32', sizes, values);
  };
  const fresh = [head.weight, ...(head.bias ? [head.bias] : [])].map(
    (parameter) => [parameter.name, start(parameter)] as const,
  );
  const fitted = await model.withParameters(Object.fromEntries(fresh));
  return { model: fitted, head: findHead(fitted), replaced: now ?? null };
}
