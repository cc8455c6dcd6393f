/** Feeds: what a caller passes to `run`, checked against the model's inputs and cut to its batch. */
import { show } from '../checks.js';
import { TapirError } from '../errors.js';
import type { NamedTensor } from '../runtime/protocol.js';
import { takeRows } from '../runtime/rows.js';
import { mismatch, readTensor } from '../runtime/tensor.js';
import type { TensorInfo } from './value-info.js';

/** A checked input of one run. */
export type Feed = NamedTensor;

/**
 * Reads the feeds of a run. Extra feeds are refused: a misspelt name would otherwise pass unseen.
 *
 * @throws {@link TapirError} `INPUT_MISMATCH`.
 */
export function readFeeds(inputs: readonly TensorInfo[], given: unknown): Feed[] {
  const names = inputs.map((input) => `"${input.name}"`).join(', ');
  if (given === null || typeof given !== 'object') {
    throw mismatch(
      inputs[0]?.name ?? '',
      'a tensor { dtype, dims, data }, or a record of them by input name',
      show(given),
    );
  }
  const isTensor = 'data' in given && 'dims' in given && Array.isArray(given.dims);
  if (isTensor && inputs.length !== 1) {
    throw mismatch(
      inputs[0]?.name ?? '',
      `given by name: the model has ${inputs.length} inputs (${names})`,
      'a single tensor',
    );
  }
  const record: Readonly<Record<string, unknown>> = isTensor ? { [inputs[0]!.name]: given } : { ...given };
  const extra = Object.keys(record).find((name) => !inputs.some((input) => input.name === name));
  if (extra !== undefined)
    throw mismatch(
      extra,
      `one of the model's inputs: ${names || 'it has none'}`,
      'a name that it does not have',
    );
  return inputs.map((input) => {
    if (!Object.hasOwn(record, input.name)) throw mismatch(input.name, 'given', 'nothing');
    const tensor = readTensor(input.name, record[input.name]);
    if (input.dtype !== null && input.dtype !== tensor.dtype)
      throw mismatch(input.name, input.dtype, tensor.dtype);
    if (input.dims !== null && input.dims.length !== tensor.dims.length) {
      throw mismatch(input.name, `of dims ${dimsText(input)}`, `[${tensor.dims.join(', ')}]`);
    }
    return { name: input.name, ...tensor };
  });
}

function dimsText(input: TensorInfo): string {
  return `[${(input.dims ?? []).map((size) => size ?? '?').join(', ')}]`;
}

/**
 * Cuts feeds into the runs that the graph can take: one, or n where each input has a fixed batch k and was given n·k rows.
 *
 * @throws {@link TapirError} `BATCH_FIXED` if k does not divide the rows; `INPUT_MISMATCH` for any other size.
 */
export function splitBatch(inputs: readonly TensorInfo[], feeds: readonly Feed[]): Feed[][] {
  const ratios = inputs.map((input, i) => rowRatio(input, feeds[i]!));
  const fixed = ratios.filter((ratio) => ratio !== undefined);
  const [runs = 1] = fixed;
  if (fixed.every((ratio) => ratio === 1)) return [[...feeds]];
  const odd = inputs.findIndex((_, i) => ratios[i] !== runs);
  if (odd >= 0 || !Number.isInteger(runs) || runs < 1) {
    const input = inputs[Math.max(odd, 0)]!;
    const batch = Number(input.dims?.[0] ?? 0);
    const rows = feeds[Math.max(odd, 0)]!.dims[0]!;
    throw new TapirError(
      'BATCH_FIXED',
      `the graph was exported for a batch of ${batch}, and ${rows} rows are no multiple of it for all inputs; give a multiple, or export with a dynamic batch`,
      { details: { batch, rows } },
    );
  }
  return Array.from({ length: runs }, (_, run) =>
    feeds.map((feed, i) => {
      const batch = Number(inputs[i]!.dims![0]);
      return { name: feed.name, ...takeRows(feed, run * batch, batch) };
    }),
  );
}

/** Rows given per row of a fixed first axis; undefined if that axis is open. Other fixed axes must fit. */
function rowRatio(input: TensorInfo, feed: Feed): number | undefined {
  const { dims } = input;
  if (dims === null) return undefined;
  const wrong = dims.findIndex(
    (size, axis) => axis > 0 && typeof size === 'number' && size !== feed.dims[axis],
  );
  if (wrong >= 0) throw mismatch(input.name, `of dims ${dimsText(input)}`, `[${feed.dims.join(', ')}]`);
  const [batch] = dims;
  if (typeof batch !== 'number') return undefined;
  if (batch === 0 || dims.length === 1) {
    if (feed.dims[0] !== batch)
      throw mismatch(input.name, `of dims ${dimsText(input)}`, `[${feed.dims.join(', ')}]`);
    return 1;
  }
  return feed.dims[0]! / batch;
}
