/** Batches as users give them → pieces that sessions run. */
import { TapirError } from '../../base/errors.js';
import { checkIterable } from '../../base/checks.js';
import { checkSameRows, partsOf, readBatch, type Batch } from '../../onnx/tensor/batch.js';
import { shareRows } from './parallel-plan.js';
import type { BatchSplit } from './split.js';
import type { FeedPart } from '../../onnx/tensor/tensor-part.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { Task } from './dispatch.js';
import { readRunInput } from './read-run-input.js';
import type { RunInput } from './run-options.js';

/** Batches: tensors, or tensors by input name. */
export type BatchSource = Iterable<RunInput> | AsyncIterable<RunInput>;

/** Rows of a batch that run on one device at once. */
export interface Piece extends Task {
  /** The feeds by the names of the model's inputs. */
  readonly feeds: ReadonlyMap<string, FeedPart>;
}

/** Reads batches, and passes over those without rows. Throws `INPUT_MISMATCH`; `SOURCE_INVALID` if there is no row at all; the signal's reason. */
export async function* readBatches(
  inputs: readonly TensorInfo[],
  source: BatchSource,
  signal: AbortSignal | undefined,
): AsyncGenerator<Batch> {
  checkIterable('source', source, 'an iterable of batches: put a single tensor in a list');
  let isEmpty = true;
  for await (const given of source) {
    signal?.throwIfAborted();
    const batch = readBatch(inputs, readRunInput(inputs, given), 0);
    checkSameRows(batch);
    if (batch.rows === 0) continue;
    isEmpty = false;
    yield batch;
  }
  signal?.throwIfAborted();
  if (!isEmpty) return;
  const reason = 'it holds no rows';
  throw new TapirError('SOURCE_INVALID', `statistics cannot be estimated from this source: ${reason}`, {
    details: { source: 'batches', reason },
  });
}

/** Splits a batch over devices; see {@link shareRows}. */
export function splitBatch(batch: Batch, devices: number, split: BatchSplit, most?: number): Piece[] {
  const replicas = Array.from({ length: devices }, (_, i) => i);
  return shareRows(batch, split, replicas, most).map(({ replica, range }) => {
    const { start, count } = batch.rows === null ? { start: 0, count: 0 } : range;
    const parts = partsOf(batch, { start, count }, count);
    return { replica, range, feeds: new Map(parts.map((part) => [part.name, part])) };
  });
}

/** Refuses to normalise the rows of a device in several pieces, because the graph has a fixed batch. Throws `BATCH_FIXED`. */
export function checkOnePiece({ rows, fixed }: Batch, pieces: readonly Piece[]): void {
  if (new Set(pieces.map(({ replica }) => replica)).size === pieces.length) return;
  throw new TapirError(
    'BATCH_FIXED',
    `the graph was exported for a batch of ${fixed}, so it cannot normalise ${rows} rows together; give batches of ${fixed} rows, choose mode "synced" or "adabn", or export with a dynamic batch`,
    { details: { batch: fixed!, rows: rows! } },
  );
}
