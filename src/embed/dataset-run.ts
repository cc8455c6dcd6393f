/** A run into a dataset: it appends new inputs shard by shard, then inputs that failed before or changed. */
import type { Extractor } from '../extract/extractor.js';
import { extractorInternals } from '../extract/extractor.js';
import type { DecodeLanes } from '../image/lanes/decode-lanes.js';
import type { DatasetFolder } from '../dataset/dataset-folder.js';
import type { DatasetInputs } from '../dataset/dataset-inputs.js';
import { embedBatches, type EmbeddedBatch } from './embed-batches.js';
import type { EmbedSetup } from './embed-options.js';
import type { JournalRun, JournalShard, JournalWriter } from '../dataset/journal.js';
import { packageVersion } from '../base/package.js';
import { PendingInputs, type PendingOptions } from './pending-inputs.js';
import { ShardWriter, type ShardPlan } from '../dataset/shard-writer.js';
import type { SourceItem } from '../sources/items/source-item.js';
import type { PrecisionCheck } from './precision-check.js';
import type { RunWeights } from '../dataset/run-record.js';
import type { TriedInput } from '../dataset/tried-input.js';

/** The settings of a run. */
export interface RunPlan extends ShardPlan {
  readonly extractor: Extractor;
  readonly setup: EmbedSetup;
  readonly lanes: DecodeLanes;
  readonly pending: PendingOptions;
  /** Undefined in float32. */
  readonly check: PrecisionCheck | undefined;
  /** Returns the external weights that the run uses. */
  readonly weights: () => Promise<readonly RunWeights[]>;
  /** Called after each batch that was handed to the writer, with the number of inputs skipped so far. */
  readonly onBatch: (batch: EmbeddedBatch, skipped: number) => void;
}

/** A dataset after a run. */
export interface RunResult {
  readonly shards: readonly JournalShard[];
  readonly runs: readonly JournalRun[];
  readonly inputs: DatasetInputs;
  /** The number of inputs that the dataset holds and that have not changed. */
  readonly skipped: number;
  /** The number of inputs that the source repeated. */
  readonly duplicates: number;
}

/** A run into a dataset's folder. */
export class DatasetRun {
  readonly #folder: DatasetFolder;
  readonly #plan: RunPlan;
  readonly #shards: JournalShard[];
  readonly #runs: JournalRun[];
  readonly #startedAt = new Date().toISOString();
  readonly #onFirstShard: () => Promise<void>;
  readonly #journal: JournalWriter;
  #hasBegun = false;

  /** @param onFirstShard - Called before the run's first shard counts. From then on, an earlier manifest is wrong. */
  constructor(
    folder: DatasetFolder,
    plan: RunPlan,
    journal: JournalWriter,
    onFirstShard: () => Promise<void>,
  ) {
    this.#folder = folder;
    this.#plan = plan;
    this.#journal = journal;
    this.#shards = [...(folder.before?.shards ?? [])];
    this.#runs = [...(folder.before?.runs ?? [])];
    this.#onFirstShard = onFirstShard;
  }

  /** Embeds the inputs of the source that are new, that failed before, or that changed. */
  async embed(
    source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
    inputs: DatasetInputs,
  ): Promise<RunResult> {
    const pending = new PendingInputs(source, inputs.known, this.#plan.pending);
    const writer = new ShardWriter(this.#folder.path, this.#plan, this.#shards, (shard) =>
      this.#commit(shard),
    );
    try {
      await this.#append(pending, inputs, writer);
      await this.#appendAgain(pending, inputs, writer);
      await inputs.dropStale(this.#folder.path, this.#shards);
    } catch (error) {
      await writer.discard();
      throw error;
    }
    const { skipped, duplicates } = pending;
    return { shards: this.#shards, runs: this.#runs, inputs, skipped, duplicates };
  }

  async #append(pending: PendingInputs, inputs: DatasetInputs, writer: ShardWriter): Promise<void> {
    const { extractor, setup, lanes, check, onBatch } = this.#plan;
    for await (const batch of embedBatches(extractor, pending.fresh(), setup, lanes, { check })) {
      const shard = writer.number;
      await writer.append(batch);
      for (const item of batch.items) inputs.addNew(item, shard);
      onBatch(batch, pending.skipped);
    }
    await writer.finish();
  }

  /** Retries come after all new inputs, in their own shards, so that failures do not move new inputs. Only changed outcomes are written. */
  async #appendAgain(pending: PendingInputs, inputs: DatasetInputs, writer: ShardWriter): Promise<void> {
    const { extractor, setup, lanes, check, onBatch } = this.#plan;
    if (pending.again.length === 0) return;
    for await (const batch of embedBatches(extractor, pending.again, setup, lanes, { check })) {
      const shard = writer.number;
      const news = new Set<TriedInput>(batch.items.filter((item) => !item.error || inputs.isNews(item)));
      await writer.append(batch, (item) => news.has(item));
      for (const item of news) inputs.replace(item, shard);
      onBatch(batch, pending.skipped);
    }
    await writer.finish();
  }

  async #commit(written: JournalShard): Promise<void> {
    const { decoder } = this.#plan.lanes;
    const againstFloat32 = this.#plan.check?.compared;
    const shard = { ...written, ...(decoder && { decoder }), ...(againstFloat32 && { againstFloat32 }) };
    if (!this.#hasBegun) {
      const run = await this.#describe(shard.number);
      this.#hasBegun = true;
      await this.#onFirstShard();
      await this.#journal.append(run);
      this.#runs.push(run);
    }
    await this.#journal.append(shard);
    this.#shards.push(shard);
  }

  async #describe(firstShard: number): Promise<JournalRun> {
    const { extractor, setup, shardSize } = this.#plan;
    const weights = await this.#plan.weights();
    return {
      type: 'run',
      startedAt: this.#startedAt,
      firstShard,
      device: extractor.device,
      threads: extractorInternals.of(extractor).sessions.map(({ threads }) => threads),
      batch: setup.batch,
      shardSize,
      version: packageVersion(),
      ...(weights.length > 0 ? { weights } : {}),
    };
  }
}
