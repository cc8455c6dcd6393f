/**
 * The journal of a dataset: what it was made with, which shards are finished, and how far the next one is. It has one JSON object per
 * line. A shard that it does not name does not exist.
 */
import { open, readFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable } from '../../base/atomic-file.js';
import { isPlainObject } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { firstMisshapen, type Shapes } from '../../base/shapes.js';
import type { DecoderVersions } from '../../photos/images/decode/open-sharp.js';
import type { DType } from '../../onnx/tensor/tensor.js';
import { completeIdentity, type DatasetIdentity } from '../records/dataset-identity.js';
import { JOURNAL_FILE } from './file-names.js';
import type { EngineCandidate } from '../records/engine-choice.js';
import type { Float32Comparison } from '../records/float32-comparison.js';
import type { MarkedCounts } from '../records/marked-images.js';
import type { ReducedSums } from '../records/reduced-images.js';
import type { RunWeights } from '../records/run-record.js';
import { IDENTITY_SHAPE, OPEN_SHAPE, RUN_SHAPE, SHARD_SHAPE } from './record-shapes.js';

const JOURNAL_FORMAT = 'onnx-tapir journal';

/** The file of an output in a shard. */
export interface ShardFeatures {
  /** Relative to the dataset, with `/`. */
  readonly path: string;
  readonly dtype: DType;
  /** Dims of one row. */
  readonly dims: readonly number[];
}

/** A finished shard. */
export interface JournalShard {
  readonly type: 'shard';
  readonly number: number;
  /** The number of rows in its metadata: inputs, including those that failed, and removals. */
  readonly inputs: number;
  /** The number of feature rows. */
  readonly rows: number;
  /** The number of the first row, over all shards. */
  readonly firstRow: number;
  readonly metadata: string;
  /** By output key; empty if no input of the shard could be read. */
  readonly features: Readonly<Record<string, ShardFeatures>>;
  /** The paths of pictures whose first tiles lie in earlier shards. Left out if no picture has such tiles. */
  readonly goesOn?: readonly string[];
  /** The picture of which it has not the last tiles, and the index of the tile at which it goes on; left out if it has all. */
  readonly unfinished?: { readonly path: string; readonly tile: number };
  readonly reduced: ReducedSums;
  /** Missing in journals that were written before they were counted. */
  readonly marked?: MarkedCounts;
  /** Rows that were copied from another dataset; left out for none. */
  readonly reused?: number;
  /** Missing if no image of the run needed it so far, and in journals that were written before it was recorded. */
  readonly decoder?: DecoderVersions;
  /** The comparison of this and all earlier shards. Missing in float32, and as long as no image was embedded. */
  readonly againstFloat32?: Float32Comparison;
}

/** A shard that is not full yet, as it would be if it were finished now. Its files lie in pieces, and the next run continues it. */
export interface JournalOpen extends Omit<JournalShard, 'type'> {
  readonly type: 'open';
  /** The number of its pieces; `piecePath` names their files. */
  readonly pieces: number;
  /** Its inputs were in the dataset before, so new ones do not belong to it. */
  readonly isAgain?: true;
}

/** A run, and the settings that may differ between runs and can change the last bits of a feature. */
export interface JournalRun {
  readonly type: 'run';
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** The number of its first shard. */
  readonly firstShard: number;
  readonly device: string;
  readonly threads: readonly number[];
  readonly batch: number;
  readonly shardSize: number;
  readonly version: string;
  /**
   * The external weights that the run used. Later runs must use the same. Missing if the model has none, and for runs that were made
   * before weights were recorded; later runs are not compared with those.
   */
  readonly weights?: readonly RunWeights[];
  /** The ways to run the model that were measured, if the engine or the precision was chosen so. */
  readonly choice?: readonly EngineCandidate[];
}

interface JournalHead {
  readonly type: 'dataset';
  readonly format: typeof JOURNAL_FORMAT;
  readonly formatVersion: 1;
  readonly identity: DatasetIdentity;
}

type JournalEntry = JournalHead | JournalShard | JournalOpen | JournalRun;

/** The content of a journal. */
export interface JournalContent {
  readonly identity: DatasetIdentity;
  readonly shards: readonly JournalShard[];
  /** The shard that a run was stopped in. */
  readonly open: JournalOpen | undefined;
  readonly runs: readonly JournalRun[];
  /** The length of the complete lines. A line that was cut off may follow. */
  readonly bytes: number;
}

/**
 * Reads the journal of a dataset. Returns undefined if there is no journal, or no complete line in it.
 *
 * @throws {@link TapirError} `DATASET_INVALID` for a journal that is damaged before its last line, or that another version wrote.
 */
export async function readJournal(folder: string): Promise<JournalContent | undefined> {
  const path = join(folder, JOURNAL_FILE);
  const text = await readWhole(path);
  if (text === undefined) return undefined;
  const lines = text.split('\n');
  // After the last line break comes nothing, or a line that was cut off.
  lines.pop();
  const [head, ...entries] = lines.map((line, at) => parseLine(path, line, at, lines.length));
  if (head === undefined) return undefined;
  if (head.type !== 'dataset' || head.format !== JOURNAL_FORMAT || head.formatVersion !== 1) {
    throw damaged(path, 'this version cannot read its first line');
  }
  checkShape(path, 'line 1', head.identity, IDENTITY_SHAPE);
  entries.forEach((entry, at) => {
    if (entry?.type === 'shard') checkShape(path, `line ${at + 2}`, entry, SHARD_SHAPE);
    else if (entry?.type === 'open') checkShape(path, `line ${at + 2}`, entry, OPEN_SHAPE);
    else if (entry?.type === 'run') checkShape(path, `line ${at + 2}`, entry, RUN_SHAPE);
  });
  const shards = entries.filter((entry): entry is JournalShard => entry?.type === 'shard');
  // The latest line holds; a shard that was finished is open no more.
  const open = entries.findLast(
    (entry): entry is JournalOpen => entry?.type === 'open' && entry.number === shards.length,
  );
  let rows = 0;
  [...shards, ...(open ? [open] : [])].forEach((shard, at) => {
    if (shard.number !== at) throw damaged(path, `shard ${shard.number} is where shard ${at} should be`);
    if (shard.firstRow !== rows)
      throw damaged(path, `shard ${at} begins at row ${shard.firstRow}, not ${rows}`);
    rows += shard.rows;
  });
  const whole = entries.includes(undefined) ? lines.slice(0, -1) : lines;
  return {
    identity: completeIdentity(head.identity),
    shards,
    open,
    runs: entries.filter((entry): entry is JournalRun => entry?.type === 'run'),
    bytes: Buffer.byteLength(whole.map((line) => `${line}\n`).join('')),
  };
}

/** Whether no run has saved anything. */
export function isEmpty({ shards, open }: JournalContent): boolean {
  return shards.length === 0 && !open;
}

async function readWhole(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unwritable(path, error);
  }
}

/** A machine that crashed while the last line was written may have damaged it. Such a line does not count. */
function parseLine(path: string, line: string, at: number, lines: number): JournalEntry | undefined {
  try {
    const entry = JSON.parse(line) as JournalEntry | null;
    if (entry !== null && typeof entry === 'object' && typeof entry.type === 'string') return entry;
  } catch {
    // Handled below, like a line that is no object.
  }
  if (at === lines - 1) return undefined;
  throw damaged(path, `line ${at + 1} is damaged`);
}

function checkShape(path: string, where: string, entry: unknown, shapes: Shapes): void {
  const field = isPlainObject(entry) ? firstMisshapen(entry, shapes) : 'identity';
  if (field !== undefined) throw damaged(path, `${where}: "${field}" is missing or damaged`);
}

function damaged(path: string, reason: string): TapirError<'DATASET_INVALID'> {
  return new TapirError(
    'DATASET_INVALID',
    `the journal "${path}" cannot be used: ${reason}; choose another folder, or start over (option "overwrite")`,
    { details: { path, reason } },
  );
}

/** A journal that is open for writing. All methods throw `OUTPUT_UNWRITABLE`. */
export class JournalWriter {
  readonly #path: string;
  readonly #file: FileHandle;
  #end: number;

  private constructor(path: string, file: FileHandle, end: number) {
    this.#path = path;
    this.#file = file;
    this.#end = end;
  }

  /** Starts a journal, or continues one after its complete lines. */
  static async open(
    folder: string,
    identity: DatasetIdentity,
    before: JournalContent | undefined,
  ): Promise<JournalWriter> {
    const path = join(folder, JOURNAL_FILE);
    try {
      const file = await open(path, before ? 'r+' : 'w');
      const journal = new JournalWriter(path, file, before?.bytes ?? 0);
      if (before) await file.truncate(before.bytes);
      else await journal.append({ type: 'dataset', format: JOURNAL_FORMAT, formatVersion: 1, identity });
      return journal;
    } catch (error) {
      throw error instanceof TapirError ? error : unwritable(path, error);
    }
  }

  /** Appends an entry. When this returns, the entry is on disk. */
  async append(entry: JournalEntry): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify(entry)}\n`);
    try {
      for (let done = 0; done < bytes.length;)
        done += (await this.#file.write(bytes, done, bytes.length - done, this.#end + done)).bytesWritten;
      await this.#file.sync();
    } catch (error) {
      throw unwritable(this.#path, error);
    }
    this.#end += bytes.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close().catch(() => undefined);
  }
}
