/** One run into a dataset: what is new is appended shard by shard, then what had failed or changed. */
import type { Extractor } from '../extract/extractor.js';
import { internalsOf } from '../extract/extractor.js';
import type { DecodeLanes } from '../image/lanes/decode-lanes.js';
import { collectGarbage } from './collect-garbage.js';
import type { DatasetFolder } from '../dataset/dataset-folder.js';
import type { DatasetInputs } from '../dataset/dataset-inputs.js';
import { embedBatches, type EmbeddedBatch } from './embed-batches.js';
import type { EmbedSetup } from './embed-options.js';
import type { JournalRun, JournalShard, JournalWriter } from '../dataset/journal.js';
import { packageVersion } from '../base/package.js';
import { PendingInputs, type PendingOptions } from './pending-inputs.js';
import { ShardWriter, type ShardPlan } from '../dataset/shards.js';
import type { SourceItem } from '../sources/items/source-item.js';

/** What a run works with. */
export interface RunPlan extends ShardPlan {
  readonly extractor: Extractor;
  readonly setup: EmbedSetup;
  readonly lanes: DecodeLanes;
  readonly pending: PendingOptions;
  /** Called after each batch that is with the writer, before the next one; with the inputs left out so far. */
  readonly onBatch: (batch: EmbeddedBatch, skipped: number) => void;
}

/** A dataset as a run has left it. */
export interface RunResult {
  readonly shards: readonly JournalShard[];
  readonly runs: readonly JournalRun[];
  readonly inputs: DatasetInputs;
  /** Inputs that were as the dataset holds them. */
  readonly skipped: number;
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

  /** @param onFirstShard - Called before the run's first shard counts: from then on an earlier manifest is wrong. */
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

  /** Embeds what the source gives and the dataset does not hold. */
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
    const { extractor, setup, lanes, onBatch } = this.#plan;
    for await (const batch of embedBatches(extractor, pending.fresh(), setup, lanes)) {
      const shard = writer.number;
      await writer.append(batch);
      for (const item of batch.items) inputs.addNew(item, shard);
      onBatch(batch, pending.skipped);
    }
    await writer.finish();
  }

  /** Behind all new ones, in shards of their own, so that these are cut as if nothing had failed; only news is written. */
  async #appendAgain(pending: PendingInputs, inputs: DatasetInputs, writer: ShardWriter): Promise<void> {
    const { extractor, setup, lanes, onBatch } = this.#plan;
    if (pending.again.length === 0) return;
    for await (const batch of embedBatches(extractor, pending.again, setup, lanes)) {
      const shard = writer.number;
      const news = new Set(batch.items.filter((item) => !item.error || inputs.isNews(item)));
      await writer.append(batch, (item) => news.has(item));
      for (const item of news) inputs.replace(item, shard);
      onBatch(batch, pending.skipped);
    }
    await writer.finish();
  }

  async #commit(shard: JournalShard): Promise<void> {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      await this.#onFirstShard();
      const run = this.#describe(shard.number);
      await this.#journal.append(run);
      this.#runs.push(run);
    }
    await this.#journal.append(shard);
    this.#shards.push(shard);
    // The last one is rarely full, and nothing comes behind it.
    if (shard.inputs >= this.#plan.shardSize) collectGarbage();
  }

  #describe(firstShard: number): JournalRun {
    const { extractor, setup, shardSize } = this.#plan;
    return {
      type: 'run',
      startedAt: this.#startedAt,
      firstShard,
      device: extractor.device,
      threads: internalsOf(extractor).sessions.map(({ threads }) => threads),
      batch: setup.batch,
      shardSize,
      version: packageVersion(),
    };
  }
}
