/** Targets: of which score of each row the attribution is. */
import { invalidOption } from '../../base/checks.js';
import { highest } from '../../onnx/tensor/vectors/largest.js';
import { makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { TapirError } from '../../base/errors.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';

/** The seed of one row: what each of its logits counts in the score. */
export type SeedOfRow = (logits: Float32Array, row: number) => ArrayLike<number>;

/**
 * The score of a row: a logit, by the index or the label of its class. `'predicted'` is the largest one of each row; a list has a class
 * per row; a function returns what each logit counts, for sums and differences of several.
 */
export type AttributionTarget = string | number | readonly (string | number)[] | SeedOfRow;

/** A target without labels. */
export type IndexTarget = 'predicted' | number | readonly number[] | SeedOfRow;

/** Whether a target depends on the logits. */
export function readsLogits(target: AttributionTarget): boolean {
  return target === 'predicted' || typeof target === 'function';
}

/** Checks logits. Throws `OUTPUT_MISFIT` for anything but float32 `[N, K]`. */
export function checkScores(output: string, logits: Tensor, rows: number): Tensor<'float32'> {
  const { dtype, dims } = logits;
  if (dtype === 'float32' && dims.length === 2 && dims[0] === rows) return logits;
  throw noScores(output, logits);
}

/** The error for an output whose elements are not the scores of classes. */
export function noScores(output: string, { dtype, dims }: Pick<TensorInfo, 'dtype' | 'dims'>): TapirError {
  const actual = `${dtype} [${dims?.map((size) => size ?? '?').join(', ')}]`;
  const way =
    dims?.length === 4
      ? `pool the map first: pruneModel(model, { "${output}": "scores" }, { pool: "avg" })`
      : 'name such a value as "output"';
  const reason = `the score is an element of float32 [batch, classes]; ${way}`;
  return new TapirError('OUTPUT_MISFIT', `"${output}" is ${actual}: ${reason}`, {
    details: { output, actual, reason },
  });
}

/** The seeds of the backward pass, `[N, K]`; reads the logits only for targets that depend on them. Throws `OPTION_INVALID`. */
export function seedsOf(
  target: IndexTarget,
  [rows, classes]: readonly [rows: number, classes: number],
  logits: Tensor<'float32'> | undefined,
): Tensor<'float32'> {
  const seeds = makeTensor('float32', [rows, classes], new Float32Array(rows * classes));
  if (Array.isArray(target) && target.length !== rows)
    throw invalidOption('target', `a list of ${rows} classes, one per row`, target);
  for (let row = 0; row < rows; row++) {
    const scores = logits?.data.subarray(row * classes, (row + 1) * classes);
    if (typeof target === 'function') seeds.data.set(readSeed(target(scores!, row), classes), row * classes);
    else {
      const index = target === 'predicted' ? highest(scores!) : Array.isArray(target) ? target[row] : target;
      seeds.data[row * classes + checkClass(index, classes)] = 1;
    }
  }
  return seeds;
}

function readSeed(given: unknown, classes: number): ArrayLike<number> {
  const isList = Array.isArray(given) || ArrayBuffer.isView(given);
  const list = Array.from((isList ? given : []) as ArrayLike<number>);
  if (list.length === classes && list.every((value) => Number.isFinite(value))) return list;
  throw invalidOption('target', `a function that returns ${classes} finite numbers, one per class`, given);
}

function checkClass(index: unknown, classes: number): number {
  if (typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < classes) return index;
  const forms = `"predicted", a class from 0 to ${classes - 1}, a label, a list of them, or a function`;
  throw invalidOption('target', forms, index);
}

/** The score of each row. */
export function scoresOf(logits: Tensor<'float32'>, seeds: Tensor<'float32'>): number[] {
  const [rows, classes] = seeds.dims as [number, number];
  return Array.from({ length: rows }, (_, row) => {
    let score = 0;
    for (let i = row * classes; i < (row + 1) * classes; i++) score += logits.data[i]! * seeds.data[i]!;
    return score;
  });
}
