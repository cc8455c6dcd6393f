/** The parts of a sharded dataset: `DIR/parts/i-of-n`, each a dataset of its own. */
import { readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { TapirError } from '../base/errors.js';
import { LOCK_FILE } from '../base/folder-lock.js';
import type { Shard } from './input-names.js';
import { JOURNAL_FILE } from './journal.js';
import { unwritable } from '../base/atomic-file.js';
import { makeFolder } from '../base/make-folder.js';

/** The folder of the parts in a dataset. */
export const PARTS = 'parts';

/** A part's path in its dataset: `parts/07-of-12`, with as many digits as the last one has, so that they sort. */
export function partPath({ index, count }: Shard): string {
  const digits = String(count - 1).length;
  return `${PARTS}/${String(index).padStart(digits, '0')}-of-${count}`;
}

/** Names of parts that are in a dataset, sorted; none if it has no parts. Throws what reading the folder throws. */
export async function listParts(folder: string): Promise<string[]> {
  try {
    const names = await readdir(join(folder, PARTS));
    return names.filter((name) => !name.startsWith('.')).toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** The shard that a part's name tells; undefined for other names. */
export function readPartName(name: string): Shard | undefined {
  const [, index, count] = /^(\d{1,6})-of-(\d{1,6})$/.exec(name) ?? [];
  if (index === undefined || count === undefined) return undefined;
  const shard = { index: Number(index), count: Number(count) };
  return shard.index < shard.count && partPath(shard) === `${PARTS}/${name}` ? shard : undefined;
}

/**
 * Makes the folder of a part.
 *
 * @returns Its path.
 * @throws {@link TapirError} `OUTPUT_EXISTS` if the dataset's folder holds something else, parts of another count included;
 * `OUTPUT_UNWRITABLE`.
 */
export async function makePart(folder: string, shard: Shard): Promise<string> {
  const path = join(folder, partPath(shard));
  try {
    await makeFolder(folder);
    await checkFree(folder);
    await checkCount(folder, shard);
    await makeFolder(path);
    // Of two that begin at once with different counts, one at least finds the other here.
    await checkCount(folder, shard).catch(async (error: unknown) => {
      await rmdir(path).catch(() => undefined);
      throw error;
    });
  } catch (error) {
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
  return path;
}

/** A folder of parts may hold anything beside them (what was merged, a report) but a dataset; another one must be empty. */
async function checkFree(folder: string): Promise<void> {
  const names = await readdir(folder);
  if (names.includes(JOURNAL_FILE))
    throw refused(
      folder,
      'it holds a dataset that is not in parts; go on without shards, or choose another folder',
    );
  const other = names.find((name) => !name.startsWith(LOCK_FILE));
  if (other === undefined || names.includes(PARTS)) return;
  throw refused(folder, `it holds "${other}", so it is no folder of parts; choose another one`);
}

async function checkCount(folder: string, { count }: Shard): Promise<void> {
  const other = (await listParts(folder)).find((name) => readPartName(name)?.count !== count);
  if (other === undefined) return;
  const what = readPartName(other)
    ? `a dataset is cut into one number of parts; go on with that number, or choose another folder`
    : 'that is no part; choose another folder';
  throw refused(folder, `it holds ${PARTS}/${other}, asked for is a part of ${count}: ${what}`);
}

function refused(path: string, reason: string): TapirError<'OUTPUT_EXISTS'> {
  return new TapirError('OUTPUT_EXISTS', `cannot write to "${path}": ${reason}`, { details: { path } });
}
