/** The logits of an exit, checked. */
import { TapirError } from '../base/errors.js';
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
  const reason = `each exit gives float32 [${[rows, classes ?? 'classes'].join(', ')}]`;
  throw new TapirError('OUTPUT_MISFIT', `exit ${exit} gives ${actual}, but ${reason}`, {
    details: { output: `exit ${exit}`, actual, reason },
  });
}
