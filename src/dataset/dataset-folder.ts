/** The folder of a dataset: taken by one run, cleared of what is not finished, and what of it is. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { TapirError } from '../base/errors.js';
import { LOCK_FILE, lockFolder, type FolderLock } from '../base/folder-lock.js';
import { JOURNAL_FILE, readJournal, type JournalContent, type JournalShard } from './journal.js';
import { MANIFEST_FILE } from './manifest.js';
import { PARTIAL_ENDING, unwritable } from '../base/atomic-file.js';
import { makeFolder } from '../base/make-folder.js';

const FEATURES = 'features';
const METADATA = 'metadata';
/** What a dataset is made of; a folder with anything else, and no journal, is somebody else's. */
const OWN = new Set([JOURNAL_FILE, MANIFEST_FILE, FEATURES, METADATA]);

/** A dataset's folder, locked. */
export interface DatasetFolder {
  readonly path: string;
  readonly lock: FolderLock;
  /** What earlier runs have finished; undefined if that is nothing. */
  readonly before: JournalContent | undefined;
}

/**
 * Makes a folder a dataset's, or takes one that is.
 *
 * @param overwrite - Throw away what is there.
 * @throws {@link TapirError} `OUTPUT_EXISTS` for a folder that holds something else; `OUTPUT_LOCKED`; `DATASET_INVALID`;
 * `OUTPUT_UNWRITABLE`.
 */
export async function takeFolder(path: string, overwrite: boolean): Promise<DatasetFolder> {
  await checkOwn(path);
  const lock = await lockFolder(path);
  try {
    if (overwrite) await clear(path);
    const before = await readJournal(path);
    return { path, lock, before: before && before.shards.length > 0 ? before : undefined };
  } catch (error) {
    await lock.release();
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
}

/** Removes what no journal names, and makes the folders that are missing. Throws `OUTPUT_UNWRITABLE`. */
export async function clearLeftovers(
  { path, before }: DatasetFolder,
  featureFolders: Iterable<string>,
): Promise<void> {
  const finished = new Set(before?.shards.flatMap(filesOf) ?? []);
  try {
    for (const folder of [METADATA, ...[...featureFolders].map((name) => `${FEATURES}/${name}`)])
      await makeFolder(join(path, folder));
    for (const folder of [METADATA, FEATURES]) {
      for (const entry of await readdir(join(path, folder), { recursive: true, withFileTypes: true })) {
        if (!entry.isFile()) continue;
        const file = join(entry.parentPath, entry.name);
        const name = file.slice(path.length + 1).replaceAll('\\', '/');
        if (!finished.has(name)) await rm(file, { force: true });
      }
    }
    await rm(join(path, MANIFEST_FILE + PARTIAL_ENDING), { force: true });
  } catch (error) {
    throw unwritable(path, error);
  }
}

function filesOf({ metadata, features }: JournalShard): string[] {
  return [metadata, ...Object.values(features).map((feature) => feature.path)];
}

async function checkOwn(path: string): Promise<void> {
  let entries: string[];
  try {
    await makeFolder(path);
    entries = await readdir(path);
  } catch (error) {
    throw unwritable(path, error);
  }
  if (entries.includes(JOURNAL_FILE)) return;
  const rest = entries.filter((entry) => !entry.startsWith(LOCK_FILE));
  // A run that was killed before it wrote its journal has left its lock, or nothing but empty folders.
  const isLeftover = rest.length < entries.length && rest.every((entry) => OWN.has(entry));
  if (rest.length === 0 || isLeftover) return;
  const reason = 'it is not empty, and no dataset of this version; choose another folder';
  throw new TapirError('OUTPUT_EXISTS', `cannot write to "${path}": ${reason}`, { details: { path } });
}

async function clear(path: string): Promise<void> {
  // The journal first: what it does not name does not exist.
  for (const entry of [MANIFEST_FILE, JOURNAL_FILE, FEATURES, METADATA])
    await rm(join(path, entry), { recursive: true, force: true });
}
