/** The inputs of a dataset: read from its metadata when a run begins, and updated while the run writes. */
import { join } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import type { ImageErrorCode } from '../../base/errors.js';
import { MetadataTable, readMetadata, type MetadataRow } from '../formats/metadata.js';
import type { JournalShard } from './journal.js';
import { KnownInputs, type Outcome } from '../records/known-inputs.js';
import type { TriedInput } from '../records/tried-input.js';

/** The inputs of a dataset. Each counts once. */
export interface InputCounts {
  readonly inputs: number;
  readonly ok: number;
  readonly errors: number;
  /** Inputs that `removeMissing` marked. They do not count in `inputs`. Missing if there are 0. */
  readonly removed?: number;
}

/** The inputs of a dataset. An input counts once, with the outcome in the latest shard that holds it. */
export class DatasetInputs {
  readonly known: KnownInputs;
  /** By shard. */
  readonly #live: { inputs: number; ok: number }[] = [];
  #removed = 0;
  /** Shards with inputs that a later shard holds, too. */
  readonly #stale = new Set<number>();

  private constructor(expected: number) {
    this.known = new KnownInputs(expected);
  }

  /** Reads the metadata of finished shards. Throws `DATASET_INVALID`. */
  static async read(folder: string, shards: readonly JournalShard[]): Promise<DatasetInputs> {
    const inputs = new DatasetInputs(shards.reduce((sum, shard) => sum + shard.inputs, 0));
    for (const { number, metadata } of shards) {
      for await (const { path, status, errorCode, stamp } of readMetadata(join(folder, metadata)))
        // This package wrote the code, so it is one of its codes.
        inputs.#set(path ?? '', status === 'error' ? (errorCode as ImageErrorCode) : status, stamp, number);
    }
    return inputs;
  }

  /** Counts a new input of a shard. */
  addNew({ error }: TriedInput, shard: number): void {
    this.#count(shard, error?.code ?? 'ok', 1);
  }

  /** Counts an input of a shard that an earlier shard may hold. */
  replace({ path, error, stamp }: TriedInput, shard: number): void {
    this.#set(path ?? '', error?.code ?? 'ok', stamp, shard);
  }

  /** Marks an input as removed in a shard. */
  remove({ path, stamp }: MetadataRow, shard: number): void {
    this.#set(path ?? '', 'removed', stamp, shard);
  }

  /** Reads the rows of inputs that this run has not seen in the source. It reads the metadata again: memory holds no paths. */
  async *unseen(folder: string, shards: readonly JournalShard[]): AsyncGenerator<MetadataRow> {
    for (const { number, metadata } of shards)
      for await (const row of readMetadata(join(folder, metadata))) {
        const known = this.known.find(row.path ?? '');
        if (known?.shard === number && !known.isSeen && row.status !== 'removed') yield row;
      }
  }

  /** Whether the outcome of an input that was tried again differs from the earlier one. */
  isNews({ path, error }: TriedInput): boolean {
    return this.known.find(path ?? '')?.outcome !== (error?.code ?? 'ok');
  }

  /** The number of inputs in a shard that no later shard holds, without those that were removed. */
  liveIn(shard: number): Pick<InputCounts, 'inputs' | 'ok'> {
    return this.#live[shard] ?? { inputs: 0, ok: 0 };
  }

  get counts(): InputCounts {
    const inputs = this.#live.reduce((sum, live) => sum + live.inputs, 0);
    const ok = this.#live.reduce((sum, live) => sum + live.ok, 0);
    return { inputs, ok, errors: inputs - ok, ...(this.#removed > 0 && { removed: this.#removed }) };
  }

  /** Removes inputs from the metadata of older shards that later shards hold. Throws `OUTPUT_UNWRITABLE`. */
  async dropStale(folder: string, shards: readonly JournalShard[]): Promise<void> {
    for (const number of this.#stale) {
      const path = join(folder, shards[number]!.metadata);
      const table = new MetadataTable();
      for await (const row of readMetadata(path)) if (!this.#isStale(row, number)) table.add(row);
      await writeAtomically(path, await table.encode());
    }
    this.#stale.clear();
  }

  #isStale({ path }: MetadataRow, shard: number): boolean {
    const latest = this.known.find(path ?? '');
    return latest !== undefined && latest.shard > shard;
  }

  #set(path: string, outcome: Outcome, stamp: MetadataRow['stamp'], shard: number): void {
    const before = this.known.find(path);
    this.known.set(path, outcome, stamp, shard);
    this.#count(shard, outcome, 1);
    if (!before) return;
    this.#count(before.shard, before.outcome, -1);
    this.#stale.add(before.shard);
  }

  #count(shard: number, outcome: Outcome, by: 1 | -1): void {
    const live = (this.#live[shard] ??= { inputs: 0, ok: 0 });
    if (outcome === 'removed') {
      this.#removed += by;
      return;
    }
    live.inputs += by;
    if (outcome === 'ok') live.ok += by;
  }
}
