/** The files of a dataset: features and metadata, shard by shard. */
import { join } from 'node:path';
import { TapirError } from '../base/errors.js';
import type { Tensor } from '../tensor/tensor.js';
import type { EmbeddedBatch } from '../embed/embed-batches.js';
import type { JournalShard, ShardFeatures } from './journal.js';
import type { LoadedItem } from '../embed/loader.js';
import { addReduced, NOTHING_REDUCED, type ReducedSums } from './reduced-images.js';
import { writeAtomically } from '../base/atomic-file.js';
import { createFeatureWriter, type FeatureFormat, type FeatureWriter } from './formats/feature-writer.js';
import { metadataFile, metadataRow, MetadataTable, shardDigits } from './formats/write-metadata.js';
import { storedTensor } from './stored-tensor.js';

/** How shards are written. */
export interface ShardPlan {
  /** Folder name by output key. */
  readonly folders: ReadonlyMap<string, string>;
  /** Inputs per shard; a multiple of the batch. */
  readonly shardSize: number;
  readonly format: FeatureFormat;
  /** Write float32 features as float16. */
  readonly half: boolean;
}

/** Writes batches into shards, behind those that are there. */
export class ShardWriter {
  readonly #out: string;
  readonly #plan: ShardPlan;
  readonly #commit: (shard: JournalShard) => Promise<void>;
  /** What the features of an output are, by key, as far as it is known. */
  readonly #features: Map<string, Omit<ShardFeatures, 'path'>>;
  #number: number;
  /** Of the next row, over all shards. */
  #row: number;
  #pending = new MetadataTable();
  #reduced: ReducedSums = NOTHING_REDUCED;
  #writers = new Map<string, FeatureWriter>();

  /**
   * @param before - The shards that are there.
   * @param commit - Called when the files of a shard are on disk; it counts when that has returned.
   */
  constructor(
    out: string,
    plan: ShardPlan,
    before: readonly JournalShard[],
    commit: (shard: JournalShard) => Promise<void>,
  ) {
    this.#out = out;
    this.#plan = plan;
    this.#commit = commit;
    this.#features = new Map(before.flatMap(({ features }) => Object.entries(features)));
    this.#number = before.length;
    this.#row = before.reduce((sum, { rows }) => sum + rows, 0);
  }

  /** Number of the shard under way. */
  get number(): number {
    return this.#number;
  }

  /**
   * Appends a batch; a full shard is completed.
   *
   * @param isWritten - Whether a failed input is written; all are by default.
   */
  async append(batch: EmbeddedBatch, isWritten: (item: LoadedItem) => boolean = () => true): Promise<void> {
    const paths = batch.items.filter(({ error }) => !error).map(({ path }) => path);
    for (const [key, tensor] of Object.entries(batch.features))
      await this.#appendFeature(key, storedTensor(tensor, this.#plan.half), paths);
    for (const item of batch.items) {
      if (item.error && !isWritten(item)) continue;
      this.#pending.add(metadataRow(item, item.error ? null : this.#row++));
      this.#reduced = addReduced(this.#reduced, item);
    }
    if (this.#pending.length >= this.#plan.shardSize) await this.finish();
  }

  /** Completes the shard under way, if there is anything in it. */
  async finish(): Promise<void> {
    if (this.#pending.length === 0) return;
    const features: Record<string, ShardFeatures> = {};
    let rows = 0;
    for (const [key, writer] of this.#writers) {
      rows = await writer.finish();
      features[key] = { path: this.#featurePath(key), ...this.#features.get(key)! };
    }
    this.#writers.clear();
    const metadata = metadataFile(this.#number);
    await writeAtomically(join(this.#out, metadata), await this.#pending.encode());
    await this.#commit({
      type: 'shard',
      number: this.#number++,
      inputs: this.#pending.length,
      rows,
      firstRow: this.#row - rows,
      metadata,
      features,
      reduced: this.#reduced,
    });
    this.#pending = new MetadataTable();
    this.#reduced = NOTHING_REDUCED;
  }

  /** Removes the files of the shard under way. */
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

  /** All rows of an output have the dims and dtype of the first one. */
  #checkSame(key: string, { dtype, dims }: Tensor): void {
    const known = this.#features.get(key);
    if (!known || (known.dtype === dtype && known.dims.join() === dims.slice(1).join())) return;
    throw new TapirError(
      'OUTPUT_NOT_BATCHED',
      `output "${key}" has rows of [${dims.slice(1).join(', ')}] after rows of [${known.dims.join(', ')}], so it makes no array; ask for another tensor`,
      { details: { output: key, dims, rows: dims[0]! } },
    );
  }

  #featurePath(key: string): string {
    const folder = this.#plan.folders.get(key)!;
    return `features/${folder}/${folder}-${shardDigits(this.#number)}.${this.#plan.format}`;
  }
}
