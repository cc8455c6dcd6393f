/** The logits of an exit, checked. */
import { TapirError } from '../base/errors.js';
import type { TensorInfo } from '../tensor/tensor-info.js';
import { mismatch, type NamedTensor, type Tensor } from '../tensor/tensor.js';

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
  const known = exits.map((dims) =>
    dims?.every((size) => typeof size === 'number') ? dims.join(', ') : undefined,
  );
  const final = known.at(-1);
  const exit = known.findIndex(
    (classes) => classes !== undefined && final !== undefined && classes !== final,
  );
  if (exit < 0) return;
  throw misfit(
    exit,
    `[rows, ${known[exit]}]`,
    `the network's end gives [rows, ${final}]: each exit predicts the same classes`,
  );
}

function misfit(exit: number, actual: string, reason: string): TapirError<'OUTPUT_MISFIT'> {
  return new TapirError('OUTPUT_MISFIT', `exit ${exit} gives ${actual}, but ${reason}`, {
    details: { output: `exit ${exit}`, actual, reason },
  });
}
