/** Targets of a batch → what the loss in the graph is fed, and by what its sum is divided. */
import { show } from '../../../base/checks.js';
import { COSINE_EPSILON, type LossForm } from '../graph/loss-nodes.js';
import type { Dim } from '../../../onnx/file/wire/schema.js';
import { dimsText } from '../../../onnx/tensor/tensor-info.js';
import {
  elementCount,
  makeTensor,
  mismatch,
  readTensor,
  type Tensor,
  type TensorLike,
} from '../../../onnx/tensor/tensor.js';
import type {
  BinaryCrossEntropyLoss,
  CrossEntropyLoss,
  Loss,
  NegativeLogLikelihoodLoss,
} from './loss-options.js';

/** What a row should give: a tensor, or a list of class indices. */
export type Target = TensorLike | readonly number[];

/** The targets of a batch. */
export interface PreparedTarget {
  /** The tensors that the graph's loss takes, of the output's dims. */
  readonly fed: readonly Tensor<'float32'>[];
  /** The loss is the sum of the graph's terms, plus `constant`, divided by `divisor`: 0 for a mean over no class. */
  readonly divisor: number;
  readonly constant: number;
  /** The class index of each row and position; undefined for targets of other kinds. Ignored ones are −1. */
  readonly labels: Int32Array | undefined;
}

/** The name of targets in messages. */
const TARGET = 'target';

/** The form of a loss in the graph. */
export function formOf(loss: Loss): LossForm {
  switch (loss.kind) {
    case 'cross-entropy':
      return { kind: 'log-softmax' };
    case 'nll':
    case 'kl':
      return { kind: 'linear' };
    case 'bce-with-logits':
      return { kind: 'logistic' };
    case 'mse':
      return { kind: 'squared' };
    case 'l1':
      return { kind: 'absolute' };
    case 'smooth-l1':
      return { kind: 'smooth', beta: loss.beta, scale: 1 };
    case 'huber':
      return { kind: 'smooth', beta: loss.delta, scale: loss.delta };
    case 'cosine':
      return { kind: 'cosine' };
  }
}

/** Refuses a mean over no class at all. `divisor` is that of all rows. Throws `INPUT_MISMATCH`. */
export function checkDivisor(divisor: number): void {
  if (divisor !== 0) return;
  const expected = 'classes that count: the mean over none of them does not exist';
  throw mismatch(TARGET, expected, 'classes that are all ignored or of weight 0');
}

/** Prepares targets for an output. Throws `INPUT_MISMATCH` for those that do not suit its dims, and for a class out of range. */
export function prepareTarget(loss: Loss, output: readonly Dim[], given: Target): PreparedTarget {
  const target = readTarget(given);
  if (loss.kind === 'nll') return classTarget(loss, output, target, 0);
  if (loss.kind === 'cross-entropy') {
    const areClasses = target.dtype !== 'float32' && target.dtype !== 'float64';
    return areClasses
      ? classTarget(loss, output, target, loss.labelSmoothing)
      : softTarget(loss, output, floats(target));
  }
  const wanted = floats(target);
  checkDims(output, wanted.dims);
  const { dims, data } = wanted;
  const rows = dims[0] ?? 1;
  const divide = (count: number): number => (loss.reduction === 'sum' ? 1 : count);
  const prepared = { fed: [wanted], divisor: divide(data.length), constant: 0, labels: undefined };
  switch (loss.kind) {
    case 'kl':
      return {
        ...prepared,
        divisor: loss.reduction === 'batchmean' ? rows : prepared.divisor,
        constant: data.reduce((sum, t) => sum + (t > 0 ? t * Math.log(t) : 0), 0),
      };
    case 'bce-with-logits':
      return { ...prepared, fed: binaryTerms(loss, wanted) };
    case 'cosine':
      return { ...prepared, fed: [unitRows(wanted)], divisor: divide(data.length / (dims[1] ?? 1)) };
    case 'mse':
    case 'l1':
    case 'smooth-l1':
    case 'huber':
      return prepared;
  }
}

function readTarget(given: Target): Tensor {
  if (!Array.isArray(given)) return readTensor(TARGET, given);
  const odd = given.find((value) => !Number.isInteger(value));
  if (odd !== undefined || given.length === 0)
    throw mismatch(TARGET, 'a tensor, or a list of class indices', show(odd ?? given));
  return { dtype: 'int32', dims: [given.length], data: Int32Array.from(given) };
}

function floats(target: Tensor): Tensor<'float32'> {
  const { dtype, dims, data } = target;
  if (dtype === 'float32') return target as Tensor<'float32'>;
  if (dtype === 'string' || dtype === 'float16' || dtype === 'int64' || dtype === 'uint64')
    throw mismatch(TARGET, 'float32', dtype);
  return { dtype: 'float32', dims, data: Float32Array.from(data as Float64Array) };
}

function checkDims(output: readonly Dim[], dims: readonly number[]): void {
  const fits =
    dims.length === output.length &&
    dims.every((size, axis) => axis === 0 || typeof output[axis] !== 'number' || output[axis] === size);
  if (fits) return;
  const expected = `of the output's dims ${dimsText({ name: TARGET, dtype: null, dims: output })}`;
  throw mismatch(TARGET, expected, `[${dims.join(', ')}]`);
}

/** Class indices: minus the coefficients of the log probabilities. */
function classTarget(
  { reduction, ignoreIndex, weights }: Omit<NegativeLogLikelihoodLoss, 'kind'>,
  output: readonly Dim[],
  { dtype, dims, data }: Tensor,
  smoothing: number,
): PreparedTarget {
  const classes = classCount(output, weights);
  if (dtype === 'string' || dtype === 'float16' || dtype === 'float32' || dtype === 'float64')
    throw mismatch(TARGET, 'class indices (int64, int32)', dtype);
  checkDims(output.toSpliced(1, 1), dims);
  const labels = Int32Array.from(data as Int32Array | BigInt64Array as Int32Array, Number);
  const places = elementCount(dims.slice(1));
  const all = new Float32Array(labels.length * classes);
  const spread = smoothing / classes;
  const weightOf = (k: number): number => weights?.[k] ?? 1;
  let kept = 0;
  for (const [position, label] of labels.entries()) {
    if (label === ignoreIndex) {
      labels[position] = -1;
      continue;
    }
    if (label < 0 || label >= classes)
      throw mismatch(
        TARGET,
        `class indices from 0 to ${classes - 1}${ignoreIndex < 0 ? ` (${ignoreIndex} leaves a row out)` : ''}`,
        `${label} in row ${Math.floor(position / places)}`,
      );
    const first = Math.floor(position / places) * classes * places + (position % places);
    if (spread > 0) for (let k = 0; k < classes; k++) all[first + k * places] = spread * weightOf(k);
    all[first + label * places]! += (1 - smoothing) * weightOf(label);
    kept += weightOf(label);
  }
  const divisor = reduction === 'sum' ? 1 : kept;
  const [rows = 0, ...rest] = dims;
  return { fed: [makeTensor('float32', [rows, classes, ...rest], all)], divisor, constant: 0, labels };
}

/** Class probabilities. torch divides their mean by positions, not by weights. */
function softTarget(
  { reduction, weights, labelSmoothing }: CrossEntropyLoss,
  output: readonly Dim[],
  { dims, data }: Tensor<'float32'>,
): PreparedTarget {
  const classes = classCount(output, weights);
  checkDims(output, dims);
  const places = elementCount(dims.slice(2));
  const all = data.map((t, at) => {
    const k = Math.floor(at / places) % classes;
    return (t * (1 - labelSmoothing) + labelSmoothing / classes) * (weights?.[k] ?? 1);
  });
  const divisor = reduction === 'sum' ? 1 : data.length / classes;
  return { fed: [makeTensor('float32', dims, all)], divisor, constant: 0, labels: undefined };
}

function classCount(output: readonly Dim[], weights: readonly number[] | undefined): number {
  const classes = output[1];
  if (typeof classes !== 'number')
    throw mismatch(
      TARGET,
      'classes of an output [N, K, …] whose K the graph states (export it with a fixed number of classes)',
      dimsText({ name: TARGET, dtype: null, dims: output }),
    );
  if (weights && weights.length !== classes)
    throw mismatch('loss.weights', `${classes} numbers, one for each class`, String(weights.length));
  return classes;
}

/** The factors of x and of softplus(−x). */
function binaryTerms(
  { weight: given, posWeight }: BinaryCrossEntropyLoss,
  { dims, data }: Tensor<'float32'>,
): Tensor<'float32'>[] {
  const classes = dims[1] ?? 1;
  if (posWeight && posWeight.length !== classes)
    throw mismatch('loss.posWeight', `${classes} numbers, one for each class`, String(posWeight.length));
  const places = elementCount(dims.slice(2));
  const weightAt = given === undefined ? () => 1 : broadcast(readTensor('loss.weight', given), dims);
  const positive = (at: number): number => posWeight?.[Math.floor(at / places) % classes] ?? 1;
  const terms = [
    data.map((t, at) => weightAt(at) * (1 - t)),
    data.map((t, at) => weightAt(at) * (1 + (positive(at) - 1) * t)),
  ];
  return terms.map((term) => makeTensor('float32', dims, term));
}

/** Reads a tensor at the places of larger dims, to which it is broadcast. */
function broadcast({ dims: own, data: given }: Tensor, dims: readonly number[]): (at: number) => number {
  const data = Float32Array.from(given as Float32Array);
  const added = dims.length - own.length;
  if (added < 0 || own.some((size, axis) => size !== 1 && size !== dims[axis + added]))
    throw mismatch('loss.weight', `dims that broadcast to [${dims.join(', ')}]`, `[${own.join(', ')}]`);
  return (at) => {
    let rest = at;
    let [from, stride] = [0, 1];
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      const place = rest % dims[axis]!;
      rest = Math.floor(rest / dims[axis]!);
      const size = own[axis - added] ?? 1;
      if (size > 1) from += place * stride;
      stride *= size;
    }
    return data[from]!;
  };
}

/** Vectors along axis 1 with length 1. */
function unitRows({ dims, data }: Tensor<'float32'>): Tensor<'float32'> {
  const length = dims[1] ?? 1;
  const places = elementCount(dims.slice(2));
  const unit = new Float32Array(data.length);
  for (let vector = 0; vector < data.length / length; vector++) {
    const first = Math.floor(vector / places) * length * places + (vector % places);
    let squares = COSINE_EPSILON;
    for (let k = 0; k < length; k++) squares += data[first + k * places]! ** 2;
    for (let k = 0; k < length; k++)
      unit[first + k * places] = data[first + k * places]! / Math.sqrt(squares);
  }
  return makeTensor('float32', dims, unit);
}
