/**
 * The cache of prepared models. An entry is a folder named by its key. It is written under another name, brought to disk and renamed,
 * so that other processes see it complete or not at all. The least recently used entries are removed first.
 */
import { randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, realpath, rename, rm, utimes } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { digestOf } from '../../../base/digest.js';
import { defaultCacheFolder } from '../../../base/cache-folder.js';
import { publish, syncFile, writeAtomically } from '../../../base/atomic-file.js';
import { makeFolder } from '../../../base/make-folder.js';
import { PREPARED_GRAPH, PREPARED_WEIGHTS } from './prepared-files.js';

/** Where the cache is, and its limit. */
export interface CacheSettings {
  readonly folder: string;
  readonly limitBytes: number;
}

/** The cache that the options of lanes name. */
export function cacheOf({
  cacheFolder,
  cacheBytes,
}: {
  readonly cacheFolder: string | undefined;
  readonly cacheBytes: number;
}): CacheSettings {
  return { folder: resolve(cacheFolder ?? defaultCacheFolder()), limitBytes: cacheBytes };
}

/** A prepared model, or the record that it cannot be prepared. */
export interface CacheEntry {
  /** Why the model cannot be prepared, recorded so that it is not tried again; `graph` is empty then. */
  readonly refused: string | undefined;
  /** The folder of its weights, without symbolic links: onnxruntime refuses them. */
  readonly folder: string;
  /** Content of the graph file. */
  readonly graph: Uint8Array;
}

/** What a complete entry contains; written last. */
interface EntryRecord {
  readonly graphSha256: string;
  /** Size of each file. */
  readonly sizes: Readonly<Record<string, number>>;
  readonly refused?: string | undefined;
}

const RECORD = 'entry.json';
const FILES = [PREPARED_GRAPH, PREPARED_WEIGHTS] as const;
const IS_KEY = /^[0-9a-f]{64}$/;
const IS_REMNANT = /^\.(?:new|gone)-/;
/** Age at which the leftovers of killed processes are removed. */
const REMNANT_MS = 3_600_000;

/** Finds the entry of a key and marks it as used; undefined if there is no entry or it is damaged. */
export async function findEntry({ folder }: CacheSettings, key: string): Promise<CacheEntry | undefined> {
  try {
    const root = await realpath(folder);
    return await readEntry(join(root, key));
  } catch {
    return undefined;
  }
}

/** Whether an entry still exists and is complete. */
export async function isWhole(entry: CacheEntry): Promise<boolean> {
  return readEntry(entry.folder).then(
    () => true,
    () => false,
  );
}

/** Reads an entry. Throws if it is not complete. */
async function readEntry(place: string): Promise<CacheEntry> {
  if (!(await lstat(place)).isDirectory()) throw new Error('not a folder');
  const recordPath = join(place, RECORD);
  const record = JSON.parse(await readFile(recordPath, 'utf8')) as EntryRecord;
  for (const name of FILES) {
    const size = await sizeOf(join(place, name));
    if (size !== record.sizes[name]) throw new Error(`${name} has another size`);
  }
  // A separate buffer can be moved to a lane.
  const graph = Uint8Array.from(await readGraph(place));
  if (digestOf(graph) !== record.graphSha256) throw new Error(`${PREPARED_GRAPH} has other content`);
  const now = new Date();
  // The cache may be read-only.
  await utimes(recordPath, now, now).catch(() => undefined);
  return { refused: record.refused, folder: place, graph };
}

async function readGraph(place: string): Promise<Uint8Array> {
  return (await sizeOf(join(place, PREPARED_GRAPH))) === 0 ? NO_GRAPH : readFile(join(place, PREPARED_GRAPH));
}

const NO_GRAPH = new Uint8Array(0);

/** Size of a file; 0 if it does not exist, as the file of weights of a model without large ones. */
async function sizeOf(path: string): Promise<number> {
  try {
    const stats = await lstat(path);
    if (!stats.isFile()) throw new Error('not a file');
    return stats.size;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 0;
    throw error;
  }
}

/**
 * Makes an entry.
 *
 * @param fill - Writes graph and weights into the given folder. Returns why they cannot be used, if so.
 * @returns The entry. If another process was first, it is that one's.
 * @throws what `fill` throws, and the system's errors if the cache cannot be written.
 */
export async function addEntry(
  settings: CacheSettings,
  key: string,
  fill: (folder: string) => Promise<string | undefined>,
): Promise<CacheEntry> {
  const temporary = await makeRemnant(settings.folder);
  const root = dirname(temporary);
  try {
    const refused = await fill(temporary);
    if (refused !== undefined) for (const name of FILES) await rm(join(temporary, name), { force: true });
    await writeRecord(temporary, refused);
    await placeEntry(root, temporary, join(root, key));
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
  await evict(root, settings.limitBytes, key);
  const entry = await findEntry(settings, key);
  if (!entry) throw new Error(`the prepared model is not readable in "${root}"`);
  return entry;
}

/** Removes the entry of a key, because its content cannot be used. */
export async function dropEntry({ folder }: CacheSettings, key: string): Promise<void> {
  const root = await realpath(folder).catch(() => undefined);
  if (root !== undefined) await discard(root, join(root, key));
}

/** Makes a temporary folder in the cache. If the process dies before it is removed, a later one removes it. */
export async function makeRemnant(folder: string): Promise<string> {
  await makeFolder(folder, 0o700);
  const temporary = remnant(await realpath(folder), 'new');
  await mkdir(temporary, { mode: 0o700 });
  return temporary;
}

/** Brings the files to disk and writes the record. Only the size of the weights is checked later, so they must not be lost in a crash. */
async function writeRecord(folder: string, refused: string | undefined): Promise<void> {
  const sizes = await Promise.all(FILES.map(async (name) => [name, await finishFile(join(folder, name))]));
  const graphSha256 = digestOf(await readGraph(folder));
  const record: EntryRecord = { graphSha256, sizes: Object.fromEntries(sizes), refused };
  await writeAtomically(join(folder, RECORD), Buffer.from(JSON.stringify(record)));
}

async function finishFile(path: string): Promise<number> {
  const size = await sizeOf(path);
  if (size > 0) await syncFile(path);
  return size;
}

/** Renames a finished folder to its final name. An entry of another process stays, unless it is damaged. */
async function placeEntry(root: string, temporary: string, place: string): Promise<void> {
  try {
    await publish(temporary, place);
  } catch {
    const isTheirs = await readEntry(place).then(
      () => true,
      () => false,
    );
    if (isTheirs) return;
    await discard(root, place);
    await publish(temporary, place);
  }
}

/** Removes an entry. It is renamed first, so that no process sees it half deleted. Sessions that have mapped it keep its content. */
async function discard(root: string, place: string): Promise<void> {
  const gone = remnant(root, 'gone');
  try {
    await rename(place, gone);
  } catch {
    return; // Another process was first, or the entry is in use (on Windows).
  }
  await rm(gone, { recursive: true, force: true }).catch(() => undefined);
}

function remnant(root: string, kind: 'new' | 'gone'): string {
  return join(root, `.${kind}-${process.pid}-${randomBytes(6).toString('hex')}`);
}

/** Removes entries until the cache is within its limit, but never `current`. */
async function evict(root: string, limitBytes: number, current: string): Promise<void> {
  const names = await readdir(root);
  const remnants = names.filter((name) => IS_REMNANT.test(name));
  for (const name of remnants) {
    const age = Date.now() - ((await lstat(join(root, name)).catch(() => undefined))?.mtimeMs ?? Infinity);
    if (age > REMNANT_MS) await rm(join(root, name), { recursive: true, force: true }).catch(() => undefined);
  }
  const entries = await Promise.all(
    names.filter((name) => IS_KEY.test(name)).map((name) => measure(root, name)),
  );
  let sum = 0;
  for (const { name, bytes } of entries.toSorted(
    (a, b) => Number(b.name === current) - Number(a.name === current) || b.usedMs - a.usedMs,
  )) {
    sum += bytes;
    if (sum > limitBytes && name !== current) await discard(root, join(root, name));
  }
}

async function measure(
  root: string,
  name: string,
): Promise<{ readonly name: string; readonly bytes: number; readonly usedMs: number }> {
  try {
    const place = join(root, name);
    const sizes = await Promise.all(FILES.map((file) => sizeOf(join(place, file))));
    const { mtimeMs } = await lstat(join(place, RECORD));
    return { name, bytes: sizes.reduce((sum, size) => sum + size, 0), usedMs: mtimeMs };
  } catch {
    return { name, bytes: 0, usedMs: 0 };
  }
}
