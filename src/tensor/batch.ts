/** Which axis of which feeds is the batch, and how it is cut into runs. */
import { TapirError } from '../base/errors.js';
import type { Feed } from './image-feed.js';
import { wholePart, type FeedPart } from './tensor-part.js';
import { mismatch } from './tensor.js';
import { dimsText } from './feeds.js';
import type { TensorInfo } from './tensor-info.js';

/** The feeds of a call, and their batch. */
export interface Batch {
  readonly feeds: readonly Feed[];
  readonly axis: number;
  /** By feed: whether it has a row per sample; others go to each run as they are. */
  readonly isBatched: readonly boolean[];
  /** Rows of the batched feeds; null if there is none. */
  readonly rows: number | null;
  /** Rows that each run must have, where the graph has a fixed batch; null if any number will do. */
  readonly fixed: number | null;
}

/** A range of rows: one run. */
export interface RowRange {
  readonly start: number;
  readonly count: number;
}

/**
 * Finds the batch of feeds. Inputs whose size along the axis is open in the graph are batched; where it is a number for all of
 * them, the graph has a fixed batch k and each must be given n·k rows.
 *
 * @throws {@link TapirError} `BATCH_FIXED` if k does not divide the rows; `INPUT_MISMATCH` for any other size that does not fit.
 */
export function readBatch(inputs: readonly TensorInfo[], feeds: readonly Feed[], axis: number): Batch {
  const ratios = inputs.map((input, i) => rowRatio(input, feeds[i]!, axis));
  const isOpen = ratios.map((ratio, i) => ratio === undefined && feeds[i]!.dims.length > axis);
  const rowsOf = (isBatched: readonly boolean[]): number | null =>
    feeds.find((_, i) => isBatched[i])?.dims[axis] ?? null;
  const known = ratios.filter((ratio) => ratio !== undefined);
  if (isOpen.includes(true) || known.every((ratio) => ratio === 1)) {
    const odd = ratios.findIndex((ratio) => ratio !== undefined && ratio !== 1);
    if (odd >= 0) throw batchFixed(inputs[odd]!, feeds[odd]!, axis);
    const isBatched = isOpen.includes(true) ? isOpen : ratios.map((ratio) => ratio !== undefined);
    return {
      feeds,
      axis,
      isBatched,
      rows: rowsOf(isBatched),
      fixed: isOpen.includes(true) ? null : rowsOf(isBatched),
    };
  }
  const [runs = 1] = known;
  const odd = ratios.findIndex(
    (ratio) => ratio !== undefined && (ratio !== runs || !Number.isInteger(ratio) || ratio < 1),
  );
  if (odd >= 0) throw batchFixed(inputs[odd]!, feeds[odd]!, axis);
  const isBatched = ratios.map((ratio) => ratio !== undefined);
  const rows = rowsOf(isBatched)!;
  return { feeds, axis, isBatched, rows, fixed: rows / runs };
}

/** Rows given per row of an axis that is fixed in the graph; undefined if it is open, or the input has none. */
function rowRatio(input: TensorInfo, feed: Feed, axis: number): number | undefined {
  const { dims } = input;
  if (dims === null) return undefined;
  const fail = (): TapirError =>
    mismatch(input.name, `of dims ${dimsText(input)}`, `[${feed.dims.join(', ')}]`);
  if (dims.some((size, at) => at !== axis && typeof size === 'number' && size !== feed.dims[at]))
    throw fail();
  const size = dims[axis];
  if (typeof size !== 'number') return undefined;
  if (size > 0 && dims.length > 1) return feed.dims[axis]! / size;
  if (feed.dims[axis] !== size) throw fail();
  return 1;
}

function batchFixed(input: TensorInfo, feed: Feed, axis: number): TapirError<'BATCH_FIXED'> {
  const batch = Number(input.dims?.[axis] ?? 0);
  const rows = feed.dims[axis] ?? 0;
  return new TapirError(
    'BATCH_FIXED',
    `the graph was exported for a batch of ${batch}, and ${rows} rows are no multiple of it for all inputs; give a multiple, or export with a dynamic batch`,
    { details: { batch, rows } },
  );
}

/**
 * The rows of a batch whose feeds are to be split, all of them with as many.
 *
 * @throws {@link TapirError} `INPUT_MISMATCH` naming each input with its rows: torch drops rows in silence here.
 */
export function checkSameRows({ feeds, axis, isBatched, rows }: Batch): void {
  const flat = feeds.find(({ dims }, i) => !isBatched[i] && dims.length > 0 && dims.length <= axis);
  if (flat) throw mismatch(flat.name, `a tensor with an axis ${axis} to split`, `[${flat.dims.join(', ')}]`);
  const odd = feeds.find(({ dims }, i) => isBatched[i] && dims[axis] !== rows);
  if (!odd) return;
  const sizes = feeds.flatMap(({ name, dims }, i) => (isBatched[i] ? [`${name}: ${dims[axis]}`] : []));
  throw mismatch(
    odd.name,
    `as long along axis ${axis} as the other inputs, so that rows stay together`,
    sizes.join(', '),
  );
}

/** All of a batch as runs: one, or as many as a fixed batch asks for. */
export function wholeRanges({ rows, fixed }: Batch): RowRange[] {
  if (rows === null || fixed === null || rows <= fixed) return [{ start: 0, count: rows ?? 0 }];
  return cutRange({ start: 0, count: rows }, fixed);
}

/** A range in pieces of a size; the last one holds the rest. */
export function cutRange({ start, count }: RowRange, size: number): RowRange[] {
  return Array.from({ length: Math.ceil(count / size) }, (_, i) => ({
    start: start + i * size,
    count: Math.min(size, count - i * size),
  }));
}

/** The feeds of one run, with zeros up to `size` rows. A run of all rows takes the feeds as they are. */
export function partsOf(batch: Batch, { start, count }: RowRange, size: number): FeedPart[] {
  const { feeds, axis, isBatched, rows } = batch;
  if (count === size && count === (rows ?? 0)) return feeds.map(wholePart);
  return feeds.map((feed, i) =>
    isBatched[i] ? { name: feed.name, tensor: feed, axis, start, count, size } : wholePart(feed),
  );
}

/** Whether all batched feeds have as many rows. */
export function hasSameRows({ feeds, axis, isBatched, rows }: Batch): boolean {
  return feeds.every(({ dims }, i) => !isBatched[i] || dims[axis] === rows);
}
