/** A run into a dataset: it appends new inputs shard by shard, then inputs that failed before or changed, then removals. */
import type { Extractor } from '../../extract/extractor.js';
import { extractorInternals } from '../../extract/extractor.js';
import type { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import type { DatasetFolder } from '../files/dataset-folder.js';
import type { DatasetInputs } from '../files/dataset-inputs.js';
import { embedBatches, type EmbeddedBatch } from './embed-batches.js';
import type { EmbedSetup } from './embed-options.js';
import type { JournalRun, JournalShard, JournalWriter } from '../files/journal.js';
import { packageVersion } from '../../base/package.js';
import { PendingInputs, type PendingOptions } from './pending-inputs.js';
import { ShardWriter, type ShardPlan } from '../files/shard-writer.js';
import type { SourceItem } from '../sources/items/source-item.js';
import { noneFound, type Removal } from './missing-inputs.js';
import type { PrecisionCheck } from './precision-check.js';
import type { EngineChoice } from '../records/engine-choice.js';
import type { RunWeights } from '../records/run-record.js';
import type { TriedInput } from '../records/tried-input.js';

/** The settings of a run. */
export interface RunPlan extends ShardPlan {
  readonly extractor: Extractor;
  readonly setup: EmbedSetup;
  readonly lanes: DecodeLanes;
  readonly pending: PendingOptions;
  /** What was measured to choose how the model runs. */
  readonly choice: EngineChoice | undefined;
  /** Undefined in float32. */
  readonly check: PrecisionCheck | undefined;
  /** Returns the external weights that the run uses. */
  readonly weights: () => Promise<readonly RunWeights[]>;
  /** How inputs that the source no longer has are marked as removed. Undefined leaves them as they are. */
  readonly removal: Removal | undefined;
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
  /** The number of inputs that were embedded again because another file has their name now. */
  readonly changed: number;
  /** The number of inputs of the dataset that the source does not have and that are not marked as removed. */
  readonly missing: number;
  /** The number of inputs that this run marked as removed. */
  readonly removed: number;
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
    const held = inputs.counts;
    const pending = new PendingInputs(source, inputs.known, this.#plan.pending);
    const writer = new ShardWriter(this.#folder.path, this.#plan, this.#shards, (shard) =>
      this.#commit(shard),
    );
    try {
      await this.#append(pending, inputs, writer);
      await this.#appendAgain(pending, inputs, writer);
      const missing = held.inputs - pending.found;
      const removed = missing > 0 ? await this.#remove(held.ok, pending.foundOk, inputs, writer) : 0;
      await inputs.dropStale(this.#folder.path, this.#shards);
      const { skipped, duplicates, changed } = pending;
      const counts = { skipped, duplicates, changed, missing: missing - removed, removed };
      return { shards: this.#shards, runs: this.#runs, inputs, ...counts };
    } catch (error) {
      await writer.discard();
      throw error;
    }
  }

  async #append(pending: PendingInputs, inputs: DatasetInputs, writer: ShardWriter): Promise<void> {
    const { extractor, setup, lanes, check, onBatch } = this.#plan;
    for await (const batch of embedBatches(extractor, pending.fresh(), setup, lanes, { check })) {
      const shard = writer.number;
      await writer.append(batch);
      for (const item of batch.items) inputs.addNew(item, shard);
      batch.release();
      onBatch(batch, pending.skipped);
    }
    await writer.finish();
  }

  /** Retries come after all new inputs, in their own shards, so that failures do not move new inputs. Only changed outcomes are written. */
  async #appendAgain(pending: PendingInputs, inputs: DatasetInputs, writer: ShardWriter): Promise<void> {
    const { extractor, setup, lanes, check, onBatch } = this.#plan;
    for await (const batch of embedBatches(extractor, pending.again(), setup, lanes, { check })) {
      const shard = writer.number;
      const news = new Set<TriedInput>(batch.items.filter((item) => !item.error || inputs.isNews(item)));
      await writer.append(batch, (item) => news.has(item));
      for (const item of news) inputs.replace(item, shard);
      batch.release();
      onBatch(batch, pending.skipped);
    }
    await writer.finish();
  }

  /** Removals come last, in their own shards: they count only after the whole source was read. Returns their number. */
  async #remove(
    heldOk: number,
    foundOk: number,
    inputs: DatasetInputs,
    writer: ShardWriter,
  ): Promise<number> {
    const { removal, setup } = this.#plan;
    if (!removal) return 0;
    if (heldOk > 0 && foundOk === 0) throw noneFound(removal.source, heldOk);
    let removed = 0;
    for await (const row of inputs.unseen(this.#folder.path, [...this.#shards])) {
      setup.signal?.throwIfAborted();
      if (!(await removal.isGone(row.path ?? ''))) continue;
      inputs.remove(row, writer.number);
      await writer.appendRemoved(row);
      removed++;
    }
    await writer.finish();
    return removed;
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
    const { extractor, setup, shardSize, choice } = this.#plan;
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
      ...(choice && choice.candidates.length > 0 ? { choice: choice.candidates } : {}),
    };
  }
}
