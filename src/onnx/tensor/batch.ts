/** Which feeds of a call have a row per sample, and how their rows are divided into runs. */
import { TapirError } from '../../base/errors.js';
import type { Feed } from './image-feed.js';
import { wholePart, type FeedPart } from './tensor-part.js';
import { takeRow } from './rows.js';
import { mismatch, nameTensor, type Tensor } from './tensor.js';
import { dimsText, PHOTO_AXES, takesOnePhoto, type TensorInfo } from './tensor-info.js';

/** The feeds of a call, and their batch. */
export interface Batch {
  readonly feeds: readonly Feed[];
  readonly axis: number;
  /** By feed: whether it has a row per sample. The others are passed whole to each run. */
  readonly isBatched: readonly boolean[];
  /** Rows of the batched feeds; null if no feed is batched. */
  readonly rows: number | null;
  /** Rows of each run if the graph has a fixed batch; null if it accepts any number. */
  readonly fixed: number | null;
  /** Whether the only feed is photos, which the graph takes one by one, without the axis of the batch. */
  readonly isPhotos: boolean;
}

/** A range of rows: one run. */
export interface RowRange {
  readonly start: number;
  readonly count: number;
}

/**
 * Finds the batch of feeds. Inputs whose size along the axis is open in the graph are batched. If all inputs have a number there, the graph
 * has a fixed batch of k rows. Each must then have n·k rows, or it throws `BATCH_FIXED`. Any other size that does not fit is
 * `INPUT_MISMATCH`.
 */
export function readBatch(inputs: readonly TensorInfo[], feeds: readonly Feed[], axis: number): Batch {
  const [input] = inputs;
  const [feed] = feeds;
  if (input && feed && takesOnePhoto(input) && feed.dims.length > PHOTO_AXES.length)
    return { feeds, axis, isBatched: [true], rows: feed.dims[0]!, fixed: 1, isPhotos: true };
  const ratios = inputs.map((input, i) => rowRatio(input, feeds[i]!, axis));
  const isOpen = ratios.map(
    (ratio, i) => ratio === undefined && feeds[i]!.dims.length > axis && !takesOnePhoto(inputs[i]!),
  );
  const hasOpen = isOpen.includes(true);
  // With an open batch, the rows of fixed inputs belong to every run.
  const runs = hasOpen ? 1 : (ratios.find((ratio) => ratio !== undefined) ?? 1);
  const odd = ratios.findIndex(
    (ratio) => ratio !== undefined && (ratio !== runs || !Number.isInteger(ratio) || ratio < 1),
  );
  if (odd >= 0) throw batchFixed(inputs[odd]!, feeds[odd]!, axis);
  const isBatched = hasOpen ? isOpen : ratios.map((ratio) => ratio !== undefined);
  const rows = feeds.find((_, i) => isBatched[i])?.dims[axis] ?? null;
  const fixed = hasOpen || rows === null ? null : rows / runs;
  return { feeds, axis, isBatched, rows, fixed, isPhotos: false };
}

/** Rows of the feed per row of the input, if its size along the axis is fixed; undefined if it is open or there is no such axis. */
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
    `the graph was exported for a batch of ${batch}, and the ${rows} rows of input "${input.name}" do not fit; give all inputs the same multiple of their batch, or export with a dynamic batch`,
    { details: { batch, rows } },
  );
}

/** Checks that the feeds of a batch that will be split have equally many rows: torch silently drops some. Throws `INPUT_MISMATCH`. */
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

/** The runs of a whole batch: one, or one per fixed batch. */
export function wholeRanges({ rows, fixed }: Batch): RowRange[] {
  if (rows === null || fixed === null || rows <= fixed) return [{ start: 0, count: rows ?? 0 }];
  return cutRange({ start: 0, count: rows }, fixed);
}

/** Cuts a range into pieces of `size`; the last piece holds the rest. */
export function cutRange({ start, count }: RowRange, size: number): RowRange[] {
  return Array.from({ length: Math.ceil(count / size) }, (_, i) => ({
    start: start + i * size,
    count: Math.min(size, count - i * size),
  }));
}

/** The feeds of one run, with zeros up to `size` rows. A run of all rows uses the whole feeds. */
export function partsOf(batch: Batch, { start, count }: RowRange, size: number): FeedPart[] {
  const { feeds, axis, isBatched, rows } = batch;
  // Only tensors of bytes are given so.
  if (batch.isPhotos)
    return feeds.map((feed) => wholePart(nameTensor(feed.name, takeRow(feed as Tensor, start))));
  if (count === size && count === (rows ?? 0)) return feeds.map(wholePart);
  return feeds.map((feed, i) =>
    isBatched[i] ? { name: feed.name, tensor: feed, axis, start, count, size } : wholePart(feed),
  );
}

/** Whether all batched feeds have the same number of rows. */
export function hasSameRows({ feeds, axis, isBatched, rows }: Batch): boolean {
  return feeds.every(({ dims }, i) => !isBatched[i] || dims[axis] === rows);
}
