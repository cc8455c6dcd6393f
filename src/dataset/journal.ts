/** The journal of a dataset: what it is, and what of it is finished. One JSON object per line; what it does not name does not exist. */
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { TapirError } from '../base/errors.js';
import type { DType } from '../tensor/tensor.js';
import type { DatasetIdentity } from './dataset-identity.js';
import type { ReducedSums } from './reduced-images.js';
import { unwritable } from '../base/atomic-file.js';

/** The journal's name in a dataset. */
export const JOURNAL_FILE = 'journal.jsonl';
const JOURNAL_FORMAT = 'onnx-tapir journal';

/** The files of an output in a shard. */
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
  /** Inputs that it holds, rows with and without features. */
  readonly inputs: number;
  /** Rows with features. */
  readonly rows: number;
  /** Row number of the first one, over all shards. */
  readonly firstRow: number;
  readonly metadata: string;
  /** By output key; none if no input of the shard could be read. */
  readonly features: Readonly<Record<string, ShardFeatures>>;
  readonly reduced: ReducedSums;
}

/** A run, with the settings that may differ from one to the next and can change the last bits of a feature. */
export interface JournalRun {
  readonly type: 'run';
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** The shards from this one on are its own. */
  readonly firstShard: number;
  readonly device: string;
  readonly threads: readonly number[];
  readonly batch: number;
  readonly shardSize: number;
  readonly version: string;
}

interface JournalHead {
  readonly type: 'dataset';
  readonly format: typeof JOURNAL_FORMAT;
  readonly formatVersion: 1;
  readonly identity: DatasetIdentity;
}

type JournalEntry = JournalHead | JournalShard | JournalRun;

/** What a journal says. */
export interface JournalContent {
  readonly identity: DatasetIdentity;
  readonly shards: readonly JournalShard[];
  readonly runs: readonly JournalRun[];
  /** Up to where it is whole: a line that was cut off is behind it. */
  readonly bytes: number;
}

/**
 * Reads the journal of a dataset; undefined if there is none, or nothing whole in it.
 *
 * @throws {@link TapirError} `DATASET_INVALID` for a journal that is damaged before its end, or another version's.
 */
export async function readJournal(folder: string): Promise<JournalContent | undefined> {
  const path = join(folder, JOURNAL_FILE);
  const text = await readWhole(path);
  if (text === undefined) return undefined;
  const lines = text.split('\n');
  // Behind the last line break is nothing, or a line that was cut off.
  lines.pop();
  const [head, ...entries] = lines.map((line, at) => parseLine(path, line, at, lines.length));
  if (head === undefined) return undefined;
  if (head.type !== 'dataset' || head.format !== JOURNAL_FORMAT || head.formatVersion !== 1) {
    throw damaged(path, 'its first line is not that of a journal this version can read');
  }
  const shards = entries.filter((entry): entry is JournalShard => entry?.type === 'shard');
  shards.forEach((shard, at) => {
    if (shard.number !== at) throw damaged(path, `shard ${shard.number} is where shard ${at} should be`);
  });
  const whole = entries.includes(undefined) ? lines.slice(0, -1) : lines;
  return {
    identity: head.identity,
    shards,
    runs: entries.filter((entry): entry is JournalRun => entry?.type === 'run'),
    bytes: Buffer.byteLength(whole.map((line) => `${line}\n`).join('')),
  };
}

async function readWhole(path: string): Promise<string | undefined> {
  let file: FileHandle;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unwritable(path, error);
  }
  try {
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

/** The last line may be damaged by a machine that went down while it was written: then it does not count. */
function parseLine(path: string, line: string, at: number, lines: number): JournalEntry | undefined {
  try {
    const entry = JSON.parse(line) as JournalEntry | null;
    if (entry !== null && typeof entry === 'object' && typeof entry.type === 'string') return entry;
  } catch {
    // Told below.
  }
  if (at === lines - 1) return undefined;
  throw damaged(path, `line ${at + 1} is damaged`);
}

function damaged(path: string, reason: string): TapirError<'DATASET_INVALID'> {
  return new TapirError(
    'DATASET_INVALID',
    `the journal "${path}" cannot be used: ${reason}; choose another folder, or start over (--overwrite)`,
    { details: { path, reason } },
  );
}

/** A journal that is written to. All methods throw `OUTPUT_UNWRITABLE`. */
export class JournalWriter {
  readonly #path: string;
  readonly #file: FileHandle;
  #end: number;

  private constructor(path: string, file: FileHandle, end: number) {
    this.#path = path;
    this.#file = file;
    this.#end = end;
  }

  /** Begins a journal, or goes on behind what is whole of it. */
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

  /** Appends an entry; when it returns, the entry is on disk. */
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
