/** The parts of a sharded dataset: `DIR/parts/i-of-n`. Each part is a dataset. */
import { readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import { LOCK_FILE } from '../../base/folder-lock.js';
import { occupied, readFolder } from '../files/dataset-folder.js';
import { JOURNAL_FILE, PARTS } from '../files/file-names.js';
import type { Shard } from '../records/input-names.js';
import { makeFolder } from '../../base/make-folder.js';

/** Returns the path of a part, relative to the dataset: `parts/07-of-12`, padded with zeros so that the names sort. */
export function partPath({ index, count }: Shard): string {
  const digits = String(count - 1).length;
  return `${PARTS}/${String(index).padStart(digits, '0')}-of-${count}`;
}

/** Lists the names of the parts in a folder, sorted. Throws the file system's errors. */
export async function listParts(folder: string): Promise<string[]> {
  const names = (await readFolder(join(folder, PARTS))).map(({ name }) => name);
  return names.filter((name) => !name.startsWith('.')).toSorted();
}

/** Reads the name of a part, as {@link partPath} or a shell writes it (`7-of-12`). Returns undefined for other names. */
export function readPartName(name: string): Shard | undefined {
  const [, index, count] = /^(\d{1,6})-of-(\d{1,6})$/.exec(name) ?? [];
  if (index === undefined || count === undefined) return undefined;
  const shard = { index: Number(index), count: Number(count) };
  const isOne = partPath(shard) === `${PARTS}/${name}` || `${shard.index}-of-${shard.count}` === name;
  return shard.index < shard.count && isOne ? shard : undefined;
}

/**
 * Makes the folder of a part, and returns its path.
 *
 * @throws {@link TapirError} `OUTPUT_EXISTS` if the dataset's folder holds something else, such as parts of another count;
 * `OUTPUT_UNWRITABLE`.
 */
export async function makePart(folder: string, shard: Shard): Promise<string> {
  const path = join(folder, partPath(shard));
  try {
    await makeFolder(folder);
    await checkFree(folder);
    await checkCount(folder, shard);
    await makeFolder(path);
    // If two runs with different counts begin at the same time, at least one of them finds the other here.
    await checkCount(folder, shard).catch(async (error: unknown) => {
      await rmdir(path).catch(() => undefined);
      throw error;
    });
  } catch (error) {
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
  return path;
}

/** Beside its parts, a folder may hold anything but an unsharded dataset. A folder without parts must be empty. */
async function checkFree(folder: string): Promise<void> {
  const names = await readdir(folder);
  if (names.includes(JOURNAL_FILE))
    throw occupied(
      folder,
      'it holds a dataset without parts; continue without shards, or choose another folder',
    );
  const other = names.find((name) => !name.startsWith(LOCK_FILE));
  if (other === undefined || names.includes(PARTS)) return;
  throw occupied(folder, `it holds "${other}" and no parts; choose another folder`);
}

async function checkCount(folder: string, { count }: Shard): Promise<void> {
  const other = (await listParts(folder)).find((name) => readPartName(name)?.count !== count);
  if (other === undefined) return;
  const what = readPartName(other)
    ? 'all parts of a dataset have the same count; continue with that count, or choose another folder'
    : 'that is not a part; choose another folder';
  throw occupied(folder, `it holds ${PARTS}/${other}, and this run writes a part of ${count}: ${what}`);
}
