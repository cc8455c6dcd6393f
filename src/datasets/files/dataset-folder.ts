/** The folder of a dataset: a run takes it, and removes what earlier runs left unfinished. */
import type { Dirent } from 'node:fs';
import { readdir, rm, rmdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import { FEATURES, isShardFile, JOURNAL_FILE, MANIFEST_FILE, METADATA } from './file-names.js';
import { LOCK_FILE, lockFolder, type FolderLock } from '../../base/folder-lock.js';
import { locateFile } from '../records/locate-file.js';
import { isEmpty, readJournal, type JournalContent, type JournalShard } from './journal.js';
import { checkPieces, pieceFilesOf } from './join-pieces.js';
import { checkFeatureFile } from '../formats/feature-files.js';
import { featureFile } from '../formats/feature-format.js';
import { makeFolder } from '../../base/make-folder.js';

/** A dataset's folder, locked. */
export interface DatasetFolder {
  readonly path: string;
  readonly lock: FolderLock;
  /** What earlier runs saved; undefined if they saved nothing. */
  readonly before: JournalContent | undefined;
}

/**
 * Takes a folder for a dataset, and makes it if it does not exist.
 *
 * @param overwrite - Remove the dataset in it. Files that are not part of a dataset stay.
 * @throws {@link TapirError} `OUTPUT_EXISTS` for a folder that holds something else; `OUTPUT_LOCKED`; `DATASET_INVALID`;
 * `OUTPUT_UNWRITABLE`.
 */
export async function takeFolder(path: string, overwrite: boolean): Promise<DatasetFolder> {
  await checkOwn(path);
  const lock = await lockFolder(path);
  try {
    if (overwrite) await clear(path);
    const before = await readJournal(path);
    return { path, lock, before: before && !isEmpty(before) ? before : undefined };
  } catch (error) {
    await lock.release();
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
}

/**
 * Removes the files of unfinished shards, and makes the folders that are missing.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if a file of a shard is missing, or longer or shorter than it was; `OUTPUT_UNWRITABLE`.
 */
export async function clearLeftovers(
  { path, before }: DatasetFolder,
  featureFolders: Iterable<string>,
): Promise<void> {
  const open = before?.open;
  for (const shard of before?.shards ?? []) await checkFiles(path, shard);
  if (open) await checkPieces(path, open);
  const finished = new Set([...(before?.shards.flatMap(filesOf) ?? []), ...(open ? pieceFilesOf(open) : [])]);
  try {
    for (const folder of [METADATA, ...[...featureFolders].map((name) => `${FEATURES}/${name}`)])
      await makeFolder(join(path, folder));
    for (const file of await listShardFiles(path))
      if (!finished.has(file)) await rm(join(path, file), { force: true });
  } catch (error) {
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
}

async function checkFiles(
  folder: string,
  { metadata, features, rows, firstRow }: JournalShard,
): Promise<void> {
  await locateFile(folder, metadata);
  for (const [key, { path, dtype, dims }] of Object.entries(features)) {
    const place = { path: await locateFile(folder, path), rows, firstRow };
    await checkFeatureFile(featureFile({ key, dtype, dims }, place));
  }
}

function filesOf({ metadata, features }: JournalShard): string[] {
  return [metadata, ...Object.values(features).map((feature) => feature.path)];
}

/** Lists the files of shards in a dataset's folder, finished or not, relative to it. All other files are the user's. */
export async function listShardFiles(path: string): Promise<string[]> {
  const folders = [METADATA, ...(await listFeatureFolders(path))];
  const files: string[] = [];
  for (const folder of folders)
    for (const entry of await readFolder(join(path, folder)))
      if (entry.isFile() && isShardFile(`${folder}/${entry.name}`)) files.push(`${folder}/${entry.name}`);
  return files;
}

async function listFeatureFolders(path: string): Promise<string[]> {
  const entries = await readFolder(join(path, FEATURES));
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => `${FEATURES}/${name}`);
}

/** The entries of a folder; empty if there is no such folder. */
export function readFolder(path: string): Promise<Dirent[]> {
  return readdir(path, { withFileTypes: true }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  });
}

/** A folder may be written to if it holds a journal, or nothing but what a first run makes before its journal. */
async function checkOwn(path: string): Promise<void> {
  await makeFolder(path);
  try {
    const entries = await readFolder(path);
    if (entries.some(({ name }) => name === JOURNAL_FILE)) return;
    const others = entries.filter(({ name }) => !name.startsWith(LOCK_FILE));
    const areFolders = others.every(
      (entry) => entry.isDirectory() && (entry.name === FEATURES || entry.name === METADATA),
    );
    if (areFolders && (await areEmpty(path))) return;
  } catch (error) {
    throw unwritable(path, error);
  }
  throw occupied(path, 'it is not empty and holds no dataset of this version; choose another folder');
}

/** Makes the error for a folder that holds something else. */
export function occupied(path: string, reason: string): TapirError<'OUTPUT_EXISTS'> {
  return new TapirError('OUTPUT_EXISTS', `cannot write to "${path}": ${reason}`, { details: { path } });
}

/** Whether the folders of a dataset hold no files: no run has finished its journal's first line. */
async function areEmpty(path: string): Promise<boolean> {
  const outputs = await listFeatureFolders(path);
  if ((await readFolder(join(path, FEATURES))).length > outputs.length) return false;
  for (const folder of [METADATA, ...outputs])
    if ((await readFolder(join(path, folder))).length > 0) return false;
  return true;
}

/** Removes a dataset. An empty journal stays until the end: with it, the next run can continue from any interruption. */
async function clear(path: string): Promise<void> {
  await rm(join(path, MANIFEST_FILE), { force: true });
  await truncate(join(path, JOURNAL_FILE)).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  });
  for (const file of await listShardFiles(path)) await rm(join(path, file), { force: true });
  for (const folder of [METADATA, ...(await listFeatureFolders(path)), FEATURES])
    await rmdir(join(path, folder)).catch(() => undefined); // It holds files of the user, or does not exist.
}
