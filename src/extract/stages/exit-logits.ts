/** The logits of an exit, checked. */
import { TapirError } from '../../base/errors.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { mismatch, type NamedTensor, type Tensor } from '../../onnx/tensor/tensor.js';

type Dims = NonNullable<TensorInfo['dims']>;

/** The logits of the rows that reached an exit. */
export interface ExitLogits {
  readonly exit: number;
  /** The position in the batch of each row. */
  readonly rows: readonly number[];
  readonly logits: Tensor<'float32'>;
}

/** The rows of a batch. Throws `INPUT_MISMATCH` if inputs differ. */
export function countRows(feeds: readonly NamedTensor[]): number {
  const [first, ...others] = feeds;
  const rows = first?.dims[0] ?? 0;
  const odd = others.find(({ dims }) => dims[0] !== rows);
  if (odd) throw mismatch(odd.name, `of ${rows} rows, as "${first!.name}"`, `[${odd.dims.join(', ')}]`);
  return rows;
}

/** Checks that an exit gives what the first one gave, for as many rows as it got. Throws `OUTPUT_MISFIT`. */
export function checkLogits(
  exit: number,
  logits: Tensor | undefined,
  rows: number,
  classes: string | undefined,
): Tensor<'float32'> {
  const dims = logits?.dims ?? [];
  const isFit = dims[0] === rows && (classes === undefined || dims.slice(1).join() === classes);
  if (logits?.dtype === 'float32' && isFit) return logits;
  const actual = `${logits?.dtype ?? 'nothing'} [${dims.join(', ')}]`;
  throw misfit(exit, actual, `each exit gives float32 [${[rows, classes ?? 'classes'].join(', ')}]`);
}

/**
 * Checks that all exits predict the same classes, as far as their sessions know the sizes of a row's logits. Throws `OUTPUT_MISFIT`: a
 * batch whose rows all leave early would hide it.
 */
export function checkClasses(exits: readonly (TensorInfo['dims'] | undefined)[]): void {
  const final = exits.at(-1);
  const exit = exits.findIndex((dims) => dims && final && !mayAgree(dims, final));
  if (exit < 0) return;
  throw misfit(
    exit,
    rowsOf(exits[exit]!),
    `the network's end gives ${rowsOf(final!)}: each exit predicts the same classes; give the exit a head, or name a node with scores`,
  );
}

function mayAgree(dims: Dims, final: Dims): boolean {
  const isKnown = (size: Dims[number] | undefined): size is number => typeof size === 'number';
  return (
    dims.length === final.length &&
    dims.every((size, axis) => !isKnown(size) || !isKnown(final[axis]) || size === final[axis])
  );
}

function rowsOf(dims: Dims): string {
  return `[${['rows', ...dims.map((size) => size ?? '?')].join(', ')}]`;
}

function misfit(exit: number, actual: string, reason: string): TapirError<'OUTPUT_MISFIT'> {
  return new TapirError('OUTPUT_MISFIT', `exit ${exit} gives ${actual}, but ${reason}`, {
    details: { output: `exit ${exit}`, actual, reason },
  });
}
