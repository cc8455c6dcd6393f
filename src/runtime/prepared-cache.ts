/**
 * The folder of prepared models: an entry is a folder named by its key, made under another name and renamed, so that of several
 * processes at once each sees it whole or not at all. Least recently used ones go first.
 */
import { createHash, randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, realpath, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PREPARED_GRAPH, PREPARED_WEIGHTS } from './prepared-files.js';

/** Where the cache is and how large it may become. */
export interface CacheSettings {
  readonly folder: string;
  readonly limitBytes: number;
}

/** A prepared model, or the record that it cannot be prepared. */
export interface CacheEntry {
  /** Why it cannot be used, so that nobody tries again; `graph` is empty then. */
  readonly refused: string | undefined;
  /** The folder of its weights, links followed: onnxruntime takes no other. */
  readonly folder: string;
  /** Bytes of the graph. */
  readonly graph: Uint8Array;
}

/** What an entry must be to be whole; written last. */
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
/** What a process that was killed has left goes after this time. */
const REMNANT_MS = 3_600_000;

/** The entry of a key, and marks it as used; undefined if there is none, or a damaged one. */
export async function findEntry({ folder }: CacheSettings, key: string): Promise<CacheEntry | undefined> {
  try {
    const root = await realpath(folder);
    return await readEntry(join(root, key));
  } catch {
    return undefined;
  }
}

/** Whether an entry is still there, and whole. */
export async function isWhole(entry: CacheEntry): Promise<boolean> {
  return readEntry(entry.folder).then(
    () => true,
    () => false,
  );
}

/** Reads an entry. Throws if it is not whole. */
async function readEntry(place: string): Promise<CacheEntry> {
  if (!(await lstat(place)).isDirectory()) throw new Error('not a folder');
  const recordPath = join(place, RECORD);
  const record = JSON.parse(await readFile(recordPath, 'utf8')) as EntryRecord;
  for (const name of FILES) {
    const size = await sizeOf(join(place, name));
    if (size !== record.sizes[name]) throw new Error(`${name} has another size`);
  }
  // In a buffer of its own, so that it can be moved to a lane.
  const graph = Uint8Array.from(await readGraph(place));
  if (sha256(graph) !== record.graphSha256) throw new Error(`${PREPARED_GRAPH} has other content`);
  const now = new Date();
  // A cache that may only be read is fine.
  await utimes(recordPath, now, now).catch(() => undefined);
  return { refused: record.refused, folder: place, graph };
}

async function readGraph(place: string): Promise<Uint8Array> {
  return (await sizeOf(join(place, PREPARED_GRAPH))) === 0 ? NO_GRAPH : readFile(join(place, PREPARED_GRAPH));
}

const NO_GRAPH = new Uint8Array(0);

/** 0 for a file that is not there: a model without large weights has no file of them. */
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
 * @param fill - Writes graph and weights into the folder it is given; returns why they cannot be used, if so.
 * @returns The entry; another process's, if that was first.
 * @throws what `fill` throws, and the system's errors where the cache cannot be written.
 */
export async function addEntry(
  settings: CacheSettings,
  key: string,
  fill: (folder: string) => Promise<string | undefined>,
): Promise<CacheEntry> {
  await mkdir(settings.folder, { recursive: true, mode: 0o700 });
  const root = await realpath(settings.folder);
  const temporary = remnant(root, 'new');
  await mkdir(temporary, { mode: 0o700 });
  try {
    const refused = await fill(temporary);
    if (refused !== undefined) for (const name of FILES) await rm(join(temporary, name), { force: true });
    await writeRecord(temporary, refused);
    await publish(root, temporary, join(root, key));
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
  await evict(root, settings.limitBytes, key);
  const entry = await findEntry(settings, key);
  if (!entry) throw new Error(`the prepared model is not readable in "${root}"`);
  return entry;
}

async function writeRecord(folder: string, refused: string | undefined): Promise<void> {
  const sizes = await Promise.all(FILES.map(async (name) => [name, await sizeOf(join(folder, name))]));
  const graphSha256 = sha256(await readGraph(folder));
  const record: EntryRecord = { graphSha256, sizes: Object.fromEntries(sizes), refused };
  await writeFile(join(folder, RECORD), JSON.stringify(record), { mode: 0o600 });
}

/** Gives a finished folder its name. One that another process has put there stays, unless it is damaged. */
async function publish(root: string, temporary: string, place: string): Promise<void> {
  try {
    await rename(temporary, place);
  } catch {
    const isTheirs = await readEntry(place).then(
      () => true,
      () => false,
    );
    if (isTheirs) return;
    await discard(root, place);
    await rename(temporary, place);
  }
}

/** Takes an entry away: out of sight first, so that nobody sees it half deleted; sessions that have mapped it keep it. */
async function discard(root: string, place: string): Promise<void> {
  const gone = remnant(root, 'gone');
  try {
    await rename(place, gone);
  } catch {
    return; // Another process was first, or (on Windows) it is in use.
  }
  await rm(gone, { recursive: true, force: true }).catch(() => undefined);
}

function remnant(root: string, kind: 'new' | 'gone'): string {
  return join(root, `.${kind}-${process.pid}-${randomBytes(6).toString('hex')}`);
}

/** Keeps the cache within its limit; `current` stays. */
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

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
