/** Tables of vectors that something else has computed → a dataset. */
import { randomBytes } from 'node:crypto';
import { readdir, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { unwritable, writeAtomically } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import type { ListType } from '../formats/parquet-lists.js';
import { makeFolder } from '../../base/make-folder.js';
import type { Progress } from '../../base/progress.js';
import type { TriedInput } from '../../photos/feeds/tried-input.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import { makeTensor, type DType, type Tensor } from '../../onnx/tensor/tensor.js';
import { occupied } from '../files/dataset-folder.js';
import { DatasetInputs } from '../files/dataset-inputs.js';
import { FEATURES, MANIFEST_FILE, METADATA } from '../files/file-names.js';
import { JournalWriter, type JournalShard } from '../files/journal.js';
import { createImportedManifest, encodeManifest, type Manifest } from '../files/manifest.js';
import { ShardWriter } from '../files/shard-writer.js';
import type { DatasetIdentity } from '../records/dataset-identity.js';
import { folderNames } from '../records/folder-name.js';
import { KnownInputs } from '../records/known-inputs.js';
import {
  invalidTable,
  listTableFiles,
  placeOf,
  readTable,
  type TableColumns,
  type VectorRow,
} from './read-tables.js';

/** What to import, and where to. */
export interface ImportPlan extends TableColumns {
  /** Parquet files, or folders of them. */
  readonly tables: readonly string[];
  /** The folder to write. It must not exist, or be empty. */
  readonly out: string;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

const SHARD_ROWS = 8192;
const BATCH_BYTES = 4 * 2 ** 20;
const MOST_BATCH_ROWS = 1024;

/**
 * Makes a dataset of tables of vectors. The folder appears when it is complete.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` for a table that cannot be read, rows without a vector, vectors of unlike lengths, and names
 * that occur twice; `OUTPUT_EXISTS` for a folder that is not empty; `OUTPUT_UNWRITABLE`.
 */
export async function importTables(plan: ImportPlan): Promise<Manifest> {
  const out = resolve(plan.out);
  await checkFree(out);
  const files = (await Promise.all(plan.tables.map(listTableFiles))).flat();
  await makeFolder(dirname(out));
  const folder = `${out}.importing-${randomBytes(6).toString('hex')}`;
  try {
    const manifest = await writeDataset(folder, files, plan);
    await checkFree(out);
    // An empty folder is in the way on Windows. One that is not empty stays.
    await rmdir(out).catch(() => undefined);
    await rename(folder, out);
    return manifest;
  } catch (error) {
    await rm(folder, { recursive: true, force: true }).catch(() => undefined);
    throw error instanceof TapirError || plan.signal?.aborted === true ? error : unwritable(out, error);
  }
}

/** Throws `OUTPUT_EXISTS` for a folder that holds something. */
async function checkFree(out: string): Promise<void> {
  try {
    if ((await readdir(out)).length === 0) return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw unwritable(out, error);
  }
  throw occupied(out, 'it is not empty; choose another folder');
}

async function writeDataset(folder: string, files: readonly string[], plan: ImportPlan): Promise<Manifest> {
  const { column, tables, signal, onProgress } = plan;
  const folders = folderNames([column]);
  for (const name of [METADATA, ...[...folders.values()].map((one) => `${FEATURES}/${one}`)])
    await makeFolder(join(folder, name));
  const inputs = await DatasetInputs.read(folder, []);
  const shards: JournalShard[] = [];
  const shape = { folders, shardSize: SHARD_ROWS, format: 'npy', half: false } as const;
  let journal: JournalWriter | undefined;
  const commit = async (shard: JournalShard): Promise<void> => {
    await journal!.append(shard);
    shards.push(shard);
  };
  const writer = new ShardWriter(folder, shape, [], { commit });
  try {
    let done = 0;
    for await (const rows of batchRows(readUnique(files, plan))) {
      signal?.throwIfAborted();
      journal ??= await JournalWriter.open(folder, identityOf(column, rows[0]!.type), undefined);
      const items = itemsOf(rows);
      const shard = writer.number;
      await writer.append({ items, features: featuresOf(column, rows) });
      for (const item of items) inputs.addNew(item, shard);
      done += rows.length;
      onProgress?.({ done, total: null, unit: 'rows', what: 'importing' });
    }
    if (done === 0) throw invalidTable(tables[0]!, 'it has no rows');
    await writer.finish();
  } catch (error) {
    await writer.discard();
    throw error;
  } finally {
    await journal?.[Symbol.asyncDispose]();
  }
  await inputs.settle(folder, shards);
  const location = tables.length === 1 ? resolve(tables[0]!) : null;
  const source = { kind: 'table', location };
  const manifest = createImportedManifest({
    source,
    format: shape.format,
    folders,
    shards,
    runs: [],
    inputs,
  });
  await writeAtomically(join(folder, MANIFEST_FILE), encodeManifest(manifest));
  return manifest;
}

/** What the parts of a dataset have in common, if several tables are imported as its parts. */
function identityOf(column: string, dtype: ListType): DatasetIdentity {
  return {
    model: null,
    request: [{ key: column, tensor: column, computed: [] }],
    transform: {},
    engine: 'none',
    precision: dtype,
    keepDims: true,
    dtype,
    format: 'npy',
    checksum: false,
  };
}

/** The rows of all files. A dataset knows its inputs by name, so each name may occur once. */
async function* readUnique(files: readonly string[], columns: TableColumns): AsyncGenerator<VectorRow[]> {
  const known = new KnownInputs();
  let first: VectorRow | undefined;
  for (const file of files)
    for await (const rows of readTable(file, columns)) {
      for (const row of rows) {
        if (known.find(row.path)) throw invalidTable(file, `${placeOf(row)} has a name that occurred before`);
        known.reserve(row.path);
        if (row.vector) checkLike(row, (first ??= row));
      }
      yield rows;
    }
}

function checkLike({ file, type, vector, ...row }: VectorRow, first: VectorRow): void {
  const length = first.vector!.length;
  if (vector!.length !== length)
    throw invalidTable(
      file,
      `${placeOf(row)} has a vector of ${vector!.length} numbers, ${placeOf(first)} of "${first.file}" one of ${length}`,
    );
  if (type !== first.type)
    throw invalidTable(file, `its vectors are ${type}, those of "${first.file}" ${first.type}`);
}

async function* batchRows(blocks: AsyncIterable<readonly VectorRow[]>): AsyncGenerator<VectorRow[]> {
  let batch: VectorRow[] = [];
  let numbers = 0;
  for await (const rows of blocks)
    for (const row of rows) {
      batch.push(row);
      numbers += row.vector?.length ?? 0;
      if (batch.length < MOST_BATCH_ROWS && 8 * numbers < BATCH_BYTES) continue;
      yield batch;
      batch = [];
      numbers = 0;
    }
  if (batch.length > 0) yield batch;
}

function itemsOf(rows: readonly VectorRow[]): TriedInput[] {
  let next = 0;
  return rows.map(({ path, error, columns }) => {
    const place = error ? ([next, 0] as const) : ([next++, 1] as const);
    const carried = columns.size > 0 ? columns : undefined;
    return {
      path,
      rows: place,
      width: null,
      height: null,
      reduction: 1,
      stamp: null,
      error,
      columns: carried,
    };
  });
}

/** The vectors of a batch as a tensor, by key; nothing if it has none. */
function featuresOf(key: string, rows: readonly VectorRow[]): Record<string, Tensor> {
  const vectors = rows.flatMap(({ vector }) => (vector ? [vector] : []));
  const [first] = vectors;
  if (!first) return {};
  const { type } = rows[0]!;
  const dims = [vectors.length, first.length];
  const numbers =
    type === 'float64' ? new Float64Array(dims[0]! * dims[1]!) : new Float32Array(dims[0]! * dims[1]!);
  for (const [row, vector] of vectors.entries()) numbers.set(vector, row * first.length);
  const data = type === 'float16' ? encodeFloat16(numbers as Float32Array) : numbers;
  return { [key]: makeTensor<DType>(type, dims, data) };
}
