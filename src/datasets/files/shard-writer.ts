/** Writes the files of a dataset, features and metadata, shard by shard. */
import { join } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { featurePath, metadataPath, piecePath } from './file-names.js';
import { createFeatureWriter, type FeatureFormat, type FeatureWriter } from '../formats/feature-files.js';
import { MetadataTable, type MetadataRow } from '../formats/metadata.js';
import type { PartKind } from '../formats/part-columns.js';
import { joinPieces, removePieces } from './join-pieces.js';
import type { JournalOpen, JournalShard, ShardFeatures } from './journal.js';
import { addMarked, NOTHING_MARKED, type MarkedCounts } from '../records/marked-images.js';
import { addReduced, NOTHING_REDUCED, type ReducedSums } from '../records/reduced-images.js';
import { MOST_PIECES } from './record-shapes.js';
import { storedTensor } from './stored-tensor.js';
import {
  rowsOfInputs,
  WHOLE,
  type RowPart,
  type TriedBatch,
  type TriedInput,
} from '../../photos/feeds/tried-input.js';

/** How shards are written. */
export interface ShardPlan {
  /** The folder of each output, by key. */
  readonly folders: ReadonlyMap<string, string>;
  /** The number of inputs per shard: a multiple of the batch. */
  readonly shardSize: number;
  readonly format: FeatureFormat;
  /** Write float32 features as float16. */
  readonly half: boolean;
  /** What rows are parts of; undefined for whole images. */
  readonly parts?: PartKind | undefined;
  /** Ends the joining of pieces, which are kept. */
  readonly signal?: AbortSignal | undefined;
}

/** Where shards are recorded. */
export interface ShardRecords {
  /** Called when the files of a shard are on disk. The shard counts once the call has settled. */
  readonly commit: (shard: JournalShard) => Promise<void>;
  /** The same for a piece of a shard that is not full. Without it, nothing is saved in pieces. */
  readonly keep?: (open: JournalOpen) => Promise<void>;
}

/**
 * Writes batches into shards, after the shards that exist. A shard that takes long can be saved in pieces: these are joined when it is
 * finished, in this run or a later one, to the bytes of a shard that was written at once.
 */
export class ShardWriter {
  readonly #out: string;
  readonly #plan: ShardPlan;
  readonly #records: ShardRecords;
  /** The dtype and dims of each output, by key, once they are known. */
  readonly #features: Map<string, Omit<ShardFeatures, 'path'>>;
  #number: number;
  /** The numbers of the shard's first row and of the next one, over all shards. */
  #firstRow: number;
  #row: number;
  /** The pieces of the shard that were saved, and the inputs in them. */
  #pieces = 0;
  #savedInputs = 0;
  /** Rows of no piece. */
  #pending: MetadataTable;
  #unsavedSince: number | undefined;
  /** A batch was appended in part. */
  #isTorn = false;
  /** Pictures whose first tiles are in earlier shards. */
  readonly #goesOn: Set<string>;
  /** Pictures whose first tiles are in this shard. */
  readonly #begun = new Set<string>();
  /** Where the tiles of the latest picture go on. */
  #unfinished: JournalShard['unfinished'];
  #reduced: ReducedSums = NOTHING_REDUCED;
  #marked: MarkedCounts = NOTHING_MARKED;
  #reused = 0;
  #writers = new Map<string, FeatureWriter>();

  /**
   * @param before - The shards that exist.
   * @param open - The shard to continue.
   */
  constructor(
    out: string,
    plan: ShardPlan,
    before: readonly JournalShard[],
    records: ShardRecords,
    open?: JournalOpen,
  ) {
    this.#out = out;
    this.#plan = plan;
    this.#pending = new MetadataTable(plan.parts);
    this.#records = records;
    this.#features = new Map([...before, open].flatMap((shard) => Object.entries(shard?.features ?? {})));
    this.#number = before.length;
    this.#row = this.#firstRow = before.reduce((sum, { rows }) => sum + rows, 0);
    this.#goesOn = new Set(open?.goesOn);
    if (!open) return;
    this.#row += open.rows;
    this.#pieces = open.pieces;
    this.#savedInputs = open.inputs;
    this.#unfinished = open.unfinished;
    if (open.unfinished && !this.#goesOn.has(open.unfinished.path)) this.#begun.add(open.unfinished.path);
    this.#reduced = open.reduced;
    this.#marked = open.marked ?? NOTHING_MARKED;
    this.#reused = open.reused ?? 0;
  }

  /** The number of the current shard. */
  get number(): number {
    return this.#number;
  }

  /** When the oldest row was appended that is in no file yet (`performance.now`); undefined if all are. */
  get unsavedSince(): number | undefined {
    return this.#unsavedSince;
  }

  /**
   * Appends a batch, and completes the shard if it is full.
   *
   * @param isWritten - Whether a failed input is written. By default, all are.
   */
  async append(batch: TriedBatch, isWritten: (item: TriedInput) => boolean = () => true): Promise<void> {
    this.#isTorn = true;
    const rows = [...rowsOfInputs(batch.items)];
    const paths = rows.flatMap(({ item, row }) => (row === null ? [] : [item.path]));
    for (const [key, tensor] of Object.entries(batch.features))
      await this.#appendFeature(key, storedTensor(key, tensor, this.#plan.half), paths);
    for (const { item, row, part } of rows) {
      if (row !== null) this.#pending.add(metadataRow(item, this.#row++, part));
      else if (isWritten(item)) this.#pending.add(metadataRow(item, null, part));
    }
    for (const item of batch.items) {
      this.#follow(item);
      // A picture counts once, however many batches have tiles of it.
      if (item.cut?.isBegun === true) continue;
      this.#reduced = addReduced(this.#reduced, item);
      this.#marked = addMarked(this.#marked, item);
      if (item.isReused) this.#reused++;
    }
    this.#isTorn = false;
    await this.#added();
  }

  /** Appends a row that marks an input as removed, and completes the shard if it is full. Its features stay where they are. */
  async appendRemoved(row: MetadataRow): Promise<void> {
    this.#pending.add({
      ...row,
      status: 'removed',
      row: null,
      errorCode: null,
      errorMessage: null,
      ...WHOLE,
      clipStart: row.clipStart,
    });
    await this.#added();
  }

  async #added(): Promise<void> {
    this.#unsavedSince ??= performance.now();
    if (this.#inputs >= this.#plan.shardSize || this.#pieces >= MOST_PIECES) await this.finish();
  }

  /** Saves the rows that are in no file yet as a piece of the current shard. */
  async save(): Promise<void> {
    const { keep } = this.#records;
    if (!keep || this.#pending.length === 0 || this.#isTorn) return;
    await this.#close((path) => piecePath(path, this.#pieces));
    this.#pieces++;
    await keep({ type: 'open', ...this.#shard(), pieces: this.#pieces });
  }

  /** Completes the current shard, unless it is empty. */
  async finish(): Promise<void> {
    if (this.#inputs === 0) return;
    const shard = this.#shard();
    const pieces = this.#pieces;
    if (pieces === 0) await this.#close((path) => path);
    else {
      await this.save();
      await joinPieces(this.#out, shard, this.#pieces, this.#plan);
    }
    await this.#records.commit({ type: 'shard', ...shard });
    await removePieces(this.#out, shard, this.#pieces);
    this.#number++;
    this.#firstRow = this.#row;
    this.#pieces = this.#savedInputs = 0;
    this.#goesOn.clear();
    this.#begun.clear();
    this.#reduced = NOTHING_REDUCED;
    this.#marked = NOTHING_MARKED;
    this.#reused = 0;
  }

  get #inputs(): number {
    return this.#savedInputs + this.#pending.length;
  }

  /** The current shard, as if it were finished now. */
  #shard(): Omit<JournalShard, 'type'> {
    const rows = this.#row - this.#firstRow;
    const features = [...this.#features].map(
      ([key, feature]) =>
        [key, { path: this.#featurePath(key), dtype: feature.dtype, dims: feature.dims }] as const,
    );
    return {
      number: this.#number,
      inputs: this.#inputs,
      rows,
      firstRow: this.#firstRow,
      metadata: metadataPath(this.#number),
      features: rows > 0 ? Object.fromEntries(features) : {},
      ...(this.#goesOn.size > 0 ? { goesOn: [...this.#goesOn] } : {}),
      ...(this.#unfinished ? { unfinished: this.#unfinished } : {}),
      reduced: this.#reduced,
      marked: this.#marked,
      ...(this.#reused > 0 && { reused: this.#reused }),
    };
  }

  /** Finishes the files that hold the rows of no piece. */
  async #close(nameOf: (path: string) => string): Promise<void> {
    for (const [key, writer] of this.#writers)
      await writer.finish(join(this.#out, nameOf(this.#featurePath(key))));
    this.#writers.clear();
    await writeAtomically(join(this.#out, nameOf(metadataPath(this.#number))), await this.#pending.encode());
    this.#savedInputs += this.#pending.length;
    this.#pending = new MetadataTable(this.#plan.parts);
    this.#unsavedSince = undefined;
  }

  /** Notes which pictures reach over the ends of the shard. */
  #follow({ path, cut }: TriedInput): void {
    const name = path ?? '';
    if (cut?.isBegun === false) this.#begun.add(name);
    else if (cut && !this.#begun.has(name)) this.#goesOn.add(name);
    this.#unfinished = cut && cut.next !== null ? { path: name, tile: cut.next } : undefined;
  }

  async discard(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.discard();
    this.#writers.clear();
  }

  async #appendFeature(key: string, tensor: Tensor, paths: readonly (string | null)[]): Promise<void> {
    const { dtype, dims } = tensor;
    this.#checkSame(key, tensor);
    let writer = this.#writers.get(key);
    if (!writer) {
      const path = join(this.#out, this.#featurePath(key));
      writer = await createFeatureWriter(this.#plan.format, path, key, dtype, dims.slice(1));
      this.#writers.set(key, writer);
      this.#features.set(key, { dtype, dims: dims.slice(1) });
    }
    await writer.append({ tensor, firstRow: this.#row, paths });
  }

  /** All rows of an output must have the dims and dtype of the first one. */
  #checkSame(key: string, { dtype, dims }: Tensor): void {
    const known = this.#features.get(key);
    if (!known || (known.dtype === dtype && known.dims.join() === dims.slice(1).join())) return;
    throw new TapirError(
      'OUTPUT_NOT_BATCHED',
      `output "${key}" has rows of [${dims.slice(1).join(', ')}] after rows of [${known.dims.join(', ')}], so it cannot be stored as one array; ask for a tensor with a row per photo, cut pictures into tiles of one size (tiles, --tile), or take each photo's own from embedImages`,
      { details: { output: key, dims, rows: dims[0]! } },
    );
  }

  #featurePath(key: string): string {
    return featurePath(this.#plan.folders.get(key)!, this.#number, this.#plan.format);
  }
}

function metadataRow(
  { path, width, height, stamp, columns, error }: TriedInput,
  row: number | null,
  part: RowPart,
): MetadataRow {
  // The stack of the error is not kept.
  const [errorCode, errorMessage] = error ? [error.code, error.details.reason] : [null, null];
  const { crop, tile, clipStart } = part;
  const status = error ? 'error' : 'ok';
  const named = {
    path,
    status,
    row,
    errorCode,
    errorMessage,
    width,
    height,
    stamp,
    crop,
    tile,
    clipStart,
  } as const;
  return columns ? Object.assign(named, { columns }) : named;
}
