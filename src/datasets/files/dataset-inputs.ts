/** The inputs of a dataset: read from its metadata when a run begins, and updated while the run writes. */
import { join } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import type { ImageErrorCode } from '../../base/errors.js';
import type { UrlName } from '../../base/url-names.js';
import { areSameKinds, joinKinds, type ColumnKinds } from '../formats/carried-columns.js';
import { MetadataTable, readColumnKinds, type MetadataRow } from '../formats/metadata.js';
import type { PartKind } from '../formats/part-columns.js';
import type { JournalShard } from './journal.js';
import { WHOLE_ROWS, type MetadataColumn, type MetadataGroup } from '../formats/metadata-columns.js';
import { RowReader } from './row-reader.js';
import { identityOf } from '../records/input-names.js';
import { KnownInputs, type Outcome } from '../records/known-inputs.js';
import type { TriedInput } from '../../photos/feeds/tried-input.js';

/** The inputs of a dataset. Each counts once. */
export interface InputCounts {
  readonly inputs: number;
  readonly ok: number;
  readonly errors: number;
  /** Inputs that `removeMissing` marked. They do not count in `inputs`. Missing if there are 0. */
  readonly removed?: number;
}

/** The columns that say what an input was. */
const KNOWN_BY: readonly MetadataColumn[] = ['path', 'error_code', 'size_bytes', 'modified', 'sha256'];

/** The inputs of a dataset. An input counts once, with the outcome in the latest shard that holds it. */
export class DatasetInputs {
  readonly known: KnownInputs;
  /** By shard: the inputs that begin in it, and its rows that metadata names. */
  readonly #live: { inputs: number; ok: number; rows: number }[] = [];
  readonly #rows: RowReader;
  readonly #parts: PartKind | undefined;
  #removed = 0;
  /** Shards with inputs that a later shard holds, too. */
  readonly #stale = new Set<number>();
  /** The input that was begun last, and its shard. */
  #begun: { readonly path: string; readonly shard: number } | undefined;
  /** Pictures of which the dataset has not all tiles, and the tile at which each goes on. */
  readonly unfinished: Map<string, number> = new Map();

  private constructor(expected: number, rows: RowReader, parts: PartKind | undefined) {
    this.known = new KnownInputs(expected);
    this.#rows = rows;
    this.#parts = parts;
  }

  /**
   * Reads the metadata of finished shards. Throws `DATASET_INVALID`.
   *
   * @param parts - What its rows are parts of.
   * @param rule - What of a URL names its photo.
   */
  static async read(
    folder: string,
    shards: readonly Pick<JournalShard, 'number' | 'inputs' | 'metadata' | 'goesOn' | 'unfinished'>[],
    parts?: PartKind,
    rule: UrlName = 'auto',
  ): Promise<DatasetInputs> {
    const rows = new RowReader(rule);
    const expected = shards.reduce((sum, shard) => sum + shard.inputs, 0);
    const inputs = new DatasetInputs(expected, rows, parts);
    for (const { number, metadata, goesOn = [], unfinished } of shards) {
      const going = goesOn.map((path) => rows.nameOf(path));
      for (const path of going) inputs.unfinished.delete(path);
      for await (const { group, nameAt } of rows.readGroups(folder, metadata, { own: KNOWN_BY }))
        for (let i = 0; i < group.length; i++) inputs.#read(group, i, nameAt(i), number, going);
      if (unfinished) inputs.unfinished.set(rows.nameOf(unfinished.path), unfinished.tile);
    }
    return inputs;
  }

  #read(
    group: MetadataGroup,
    i: number,
    name: string | null,
    shard: number,
    goesOn: readonly string[],
  ): void {
    const status = group.statuses[i]!;
    const path = identityOf({ path: name, clipStart: group.partAt(i).clipStart });
    // This package wrote the code, so it is one of its codes.
    const outcome = status === 'error' ? (group.textAt('error_code', i) as ImageErrorCode) : status;
    const isFurther =
      this.#parts !== undefined && (this.known.find(path)?.shard === shard || goesOn.includes(path));
    if (!isFurther) this.#set(path, outcome, group.stampAt(i), shard);
    else if (status === 'error') this.#fail(path, outcome);
    if (group.rows[i]! >= 0) this.#liveOf(shard).rows++;
  }

  /** Counts a new input of a shard, or further tiles of it. */
  addNew(item: TriedInput, shard: number): void {
    const path = identityOf(item);
    if (item.cut?.isBegun === true) this.#goOn(item);
    else {
      this.#count(shard, item.error?.code ?? 'ok', 1);
      this.#begun = { path, shard };
    }
    this.#liveOf(shard).rows += item.rows[1];
  }

  /** Counts an input of a shard that an earlier shard may hold, or further tiles of it. */
  replace(item: TriedInput, shard: number): void {
    const { error, stamp } = item;
    if (item.cut?.isBegun === true) this.#goOn(item);
    else this.#set(identityOf(item), error?.code ?? 'ok', stamp, shard);
    this.#liveOf(shard).rows += item.rows[1];
  }

  /** A picture goes on: with tiles, or with the error that ends it. */
  #goOn({ path, error }: TriedInput): void {
    if (error) this.#fail(path ?? '', error.code);
  }

  /** An input that was embedded in part has failed. */
  #fail(path: string, outcome: Outcome): void {
    const known = this.known.find(path);
    const shard = this.#begun?.path === path ? this.#begun.shard : known!.shard;
    if (known) this.known.fail(path, outcome);
    this.#count(shard, 'ok', -1);
    this.#count(shard, outcome, 1);
  }

  /** Marks an input as removed in a shard. */
  remove(row: MetadataRow, shard: number): void {
    this.#set(identityOf(row), 'removed', row.stamp, shard);
  }

  /** Reads the rows of inputs that this run has not seen in the source. It reads the metadata again: memory holds no paths. */
  async *unseen(folder: string, shards: readonly JournalShard[]): AsyncGenerator<MetadataRow> {
    let latest: string | undefined;
    for (const { number, metadata } of shards)
      for await (const { group, nameAt } of this.#rows.readGroups(folder, metadata, WHOLE_ROWS))
        for (let i = 0; i < group.length; i++) {
          const path = nameAt(i);
          const name = identityOf({ path, clipStart: group.partAt(i).clipStart });
          // Further rows of an input.
          if (name === latest) continue;
          latest = name;
          const known = this.known.find(name);
          if (known?.shard === number && !known.isSeen && group.statuses[i] !== 'removed')
            yield { ...group.rowAt(i), path };
        }
  }

  /** Whether a row is a clip of a folder or file whose first clip this run has seen. */
  isShorter({ path, clipStart }: MetadataRow): boolean {
    return clipStart !== null && this.known.find(identityOf({ path, clipStart: 0 }))?.isSeen === true;
  }

  /** Whether the outcome of an input that was tried again differs from the earlier one. */
  isNews(item: TriedInput): boolean {
    return this.known.find(identityOf(item))?.outcome !== (item.error?.code ?? 'ok');
  }

  /** The number of inputs in a shard that no later shard holds, without those that were removed; and of its rows that count. */
  liveIn(shard: number): { readonly inputs: number; readonly ok: number; readonly rows: number } {
    return this.#liveOf(shard);
  }

  get counts(): InputCounts {
    const inputs = this.#live.reduce((sum, live) => sum + live.inputs, 0);
    const ok = this.#live.reduce((sum, live) => sum + live.ok, 0);
    return { inputs, ok, errors: inputs - ok, ...(this.#removed > 0 && { removed: this.#removed }) };
  }

  /**
   * Removes inputs from the metadata of older shards that later shards hold. Gives all photos their names. Gives the metadata of all shards
   * the same columns, as programs expect that read them as one table. Throws `OUTPUT_UNWRITABLE`.
   */
  async settle(folder: string, shards: readonly JournalShard[]): Promise<void> {
    for (const { number, metadata, goesOn = [] } of shards) {
      const isStale = goesOn.some((path) => this.#isStale({ path: this.#rows.nameOf(path) }, number));
      if (isStale || this.#rows.renamed.has(metadata)) this.#stale.add(number);
    }
    const paths = shards.map(({ metadata }) => join(folder, metadata));
    const kinds: ColumnKinds[] = [];
    for (const path of paths) kinds.push(await readColumnKinds(path));
    const all = joinKinds(kinds);
    for (const [number, path] of paths.entries()) {
      if (!this.#stale.has(number) && areSameKinds(kinds[number]!, all)) continue;
      const table = new MetadataTable(this.#parts);
      let rows = 0;
      for await (const row of this.#rows.read(folder, shards[number]!.metadata)) {
        if (this.#isStale(row, number)) continue;
        table.add(row);
        if (row.row !== null) rows++;
      }
      await writeAtomically(path, await table.encode(all));
      this.#liveOf(number).rows = rows;
    }
    this.#stale.clear();
  }

  #isStale(row: Parameters<typeof identityOf>[0], shard: number): boolean {
    const latest = this.known.find(identityOf(row));
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
    const live = this.#liveOf(shard);
    if (outcome === 'removed') {
      this.#removed += by;
      return;
    }
    live.inputs += by;
    if (outcome === 'ok') live.ok += by;
  }

  #liveOf(shard: number): { inputs: number; ok: number; rows: number } {
    return (this.#live[shard] ??= { inputs: 0, ok: 0, rows: 0 });
  }
}
