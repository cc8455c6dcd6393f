/** A run into a dataset: it appends new inputs shard by shard, then inputs that failed before or changed, then removals. */
import { isTapirError } from '../../base/errors.js';
import { type Extractor, extractorInternals } from '../../extract/extractor.js';
import type { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { DatasetFolder } from '../files/dataset-folder.js';
import type { DatasetInputs } from '../files/dataset-inputs.js';
import { embedBatches, type EmbeddedBatch } from './embed-batches.js';
import type { EmbedSetup } from './embed-options.js';
import type { JournalOpen, JournalRun, JournalShard, JournalWriter } from '../files/journal.js';
import { packageVersion } from '../../base/package.js';
import type { DatasetState } from '../files/manifest.js';
import { PendingInputs, type PendingOptions } from './pending-inputs.js';
import { ShardWriter, type ShardPlan, type ShardRecords } from '../files/shard-writer.js';
import type { SourceItems } from '../../photos/feeds/items/source-item.js';
import { noneFound, type Removal } from './missing-inputs.js';
import { saveOld, savingInTime, type Saver } from './save-in-time.js';
import type { ReusableRows } from './reuse-rows.js';
import type { PrecisionCheck } from './precision-check.js';
import type { EngineChoice } from '../records/engine-choice.js';
import type { RunWeights } from '../records/run-record.js';
import type { TriedBatch, TriedInput } from '../../photos/feeds/tried-input.js';

/** The settings of a run. */
export interface RunPlan extends ShardPlan {
  readonly extractor: Extractor;
  readonly setup: EmbedSetup;
  readonly lanes: DecodeLanes;
  readonly pending: PendingOptions;
  /** How old what was done may get before it is saved. */
  readonly saveMs: number;
  /** What was measured to choose how the model runs. */
  readonly choice: EngineChoice | undefined;
  /** Undefined in float32. */
  readonly check: PrecisionCheck | undefined;
  /** Returns the external weights that the run uses. */
  readonly weights: () => Promise<readonly RunWeights[]>;
  /** Rows of other datasets that are copied. */
  readonly reuse: ReusableRows | undefined;
  /** How inputs that the source no longer has are marked as removed. Undefined leaves them as they are. */
  readonly removal: Removal | undefined;
  /** Called after each batch that was handed to the writer, with the number of inputs skipped so far. */
  readonly onBatch: (batch: EmbeddedBatch, skipped: number) => void;
}

/** A dataset after a run. */
export interface RunResult extends Pick<DatasetState, 'shards' | 'runs' | 'inputs'> {
  /** As in `EmbedSummary`. */
  readonly counts: Readonly<
    Record<'skipped' | 'duplicates' | 'changed' | 'missing' | 'removed' | 'reused', number>
  >;
}

export class DatasetRun {
  readonly #folder: DatasetFolder;
  readonly #plan: RunPlan;
  readonly #journal: JournalWriter;
  readonly #inputs: DatasetInputs;
  readonly #onFirstShard: () => Promise<void>;
  readonly #shards: JournalShard[];
  readonly #runs: JournalRun[];
  readonly #writer: ShardWriter;
  readonly #saver: Saver;
  readonly #startedAt = new Date().toISOString();
  #hasBegun = false;
  /** What the journal says about the shard that is not full yet. */
  #open: JournalOpen | undefined;
  /** The run is past the new inputs. */
  #isAgain = false;
  #reused = 0;
  /** The writer takes one batch at a time. */
  #writing: Promise<unknown> = Promise.resolve();

  /** @param onFirstShard - Called before the run's first shard counts. From then on, an earlier manifest is wrong. */
  constructor(
    folder: DatasetFolder,
    plan: RunPlan,
    journal: JournalWriter,
    inputs: DatasetInputs,
    onFirstShard: () => Promise<void>,
  ) {
    this.#folder = folder;
    this.#plan = plan;
    this.#journal = journal;
    this.#inputs = inputs;
    this.#onFirstShard = onFirstShard;
    this.#shards = [...(folder.before?.shards ?? [])];
    this.#runs = [...(folder.before?.runs ?? [])];
    this.#open = folder.before?.open;
    const records: ShardRecords = {
      commit: (shard) => this.#commit(shard),
      keep: (open) => this.#keep(open),
    };
    const writer = new ShardWriter(folder.path, plan, this.#shards, records, this.#open);
    this.#writer = writer;
    this.#saver = {
      get unsavedSince() {
        return writer.unsavedSince;
      },
      save: () => this.#alone(() => writer.save()),
    };
  }

  /** Embeds the inputs of the source that are new, that failed before, or that changed. */
  async embed(source: SourceItems): Promise<RunResult> {
    const inputs = this.#inputs;
    const held = inputs.counts;
    const { unfinished } = inputs;
    const pending = new PendingInputs(source, inputs.known, { ...this.#plan.pending, unfinished });
    try {
      // A shard that new inputs do not belong to, or that was full.
      if (this.#open?.isAgain === true || (this.#open?.inputs ?? 0) >= this.#plan.shardSize)
        await this.#writer.finish();
      await this.#append(pending, false);
      this.#isAgain = true;
      await this.#append(pending, true);
      const gone = held.inputs - pending.found;
      const removed = gone > 0 ? await this.#remove(held.ok, pending.foundOk) : 0;
      await inputs.settle(this.#folder.path, this.#shards);
      const { skipped, duplicates, changed } = pending;
      const counts = { skipped, duplicates, changed, missing: gone - removed, removed, reused: this.#reused };
      return { shards: this.#shards, runs: this.#runs, inputs, counts };
    } catch (error) {
      await this.#end(error);
      throw error;
    }
  }

  /** Whatever ends a run, what it has done stays, unless it cannot be written or is not wanted: too far from float32. */
  async #end(error: unknown): Promise<void> {
    try {
      if (!isTapirError(error, 'OUTPUT_UNWRITABLE') && !isTapirError(error, 'PRECISION_TOO_LOW'))
        await this.#alone(() => this.#writer.save());
    } finally {
      // What is still being copied comes too late.
      await this.#alone(() => this.#writer.discard());
      this.#writing = new Promise(() => {});
    }
  }

  /**
   * Appends the new inputs, or those to try again. Retries come after all new inputs, in their own shards, so that failures do not move
   * new inputs. Of them, only changed outcomes are written.
   */
  async #append(pending: PendingInputs, isAgain: boolean): Promise<void> {
    const { extractor, setup, lanes, check, saveMs, onBatch, reuse } = this.#plan;
    const wanted = isAgain ? pending.again() : pending.fresh();
    const copy = async (batch: TriedBatch): Promise<void> => {
      await this.#write(batch, isAgain);
      this.#reused += batch.items.length;
    };
    const items = reuse ? reuse.left(wanted, lanes, copy) : wanted;
    const batches = embedBatches(extractor, items, setup, lanes, { check });
    for await (const batch of savingInTime(batches, this.#saver, saveMs)) {
      await this.#write(batch, isAgain);
      batch.release();
      onBatch(batch, pending.skipped + this.#reused);
    }
    await this.#writer.finish();
  }

  /** Appends a batch after those that are being appended. */
  #write(batch: TriedBatch, isAgain: boolean): Promise<void> {
    return this.#alone(() => this.#writeNow(batch, isAgain));
  }

  /** Runs a step on the writer when those before it have ended. */
  #alone(step: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(step);
    this.#writing = done.catch(() => undefined);
    return done;
  }

  async #writeNow(batch: TriedBatch, isAgain: boolean): Promise<void> {
    const shard = this.#writer.number;
    const isWritten = (item: TriedInput): boolean =>
      !isAgain || !item.error || item.cut !== undefined || this.#inputs.isNews(item);
    const written = new Set<TriedInput>(batch.items.filter(isWritten));
    await this.#writer.append(batch, (item) => written.has(item));
    for (const item of written) {
      if (isAgain) this.#inputs.replace(item, shard);
      else this.#inputs.addNew(item, shard);
    }
  }

  /** Removals come last, in their own shards: they count only after the whole source was read. Returns their number. */
  async #remove(heldOk: number, foundOk: number): Promise<number> {
    const { removal, setup, saveMs } = this.#plan;
    if (!removal) return 0;
    if (heldOk > 0 && foundOk === 0) throw noneFound(removal.source, heldOk);
    let removed = 0;
    for await (const row of this.#inputs.unseen(this.#folder.path, [...this.#shards])) {
      setup.signal?.throwIfAborted();
      if (!(await removal.isGone({ ...row, isShorter: this.#inputs.isShorter(row) }))) continue;
      this.#inputs.remove(row, this.#writer.number);
      await this.#writer.appendRemoved(row);
      await saveOld(this.#writer, saveMs);
      removed++;
    }
    await this.#writer.finish();
    return removed;
  }

  async #commit(written: JournalShard): Promise<void> {
    if (this.#shards.length === (this.#folder.before?.shards.length ?? 0)) await this.#onFirstShard();
    const shard = await this.#record(written);
    this.#open = undefined;
    this.#shards.push(shard);
  }

  /** The next run goes on after what was saved. */
  async #keep(open: JournalOpen): Promise<void> {
    this.#open = await this.#record({ ...open, ...(this.#isAgain && { isAgain: true }) });
  }

  async #record<Written extends JournalShard | JournalOpen>(written: Written): Promise<Written> {
    const { decoder = this.#open?.decoder } = this.#plan.lanes;
    const againstFloat32 = this.#plan.check?.compared ?? this.#open?.againstFloat32;
    const shard = { ...written, ...(decoder && { decoder }), ...(againstFloat32 && { againstFloat32 }) };
    if (!this.#hasBegun) {
      const run = await this.#describe(shard.number);
      this.#hasBegun = true;
      await this.#journal.append(run);
      this.#runs.push(run);
    }
    await this.#journal.append(shard);
    return shard;
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
