/**
 * Unpacks the needed files of a wheel, which may be damaged or hostile. Names, kinds and sizes are checked before the first file is
 * written, and contents while they are written.
 */
import { dirname, join } from 'node:path';
import { freeBytes, unwritable, writeAtomically } from '../../../base/atomic-file.js';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { SharedFile } from '../../../base/files/shared-file.js';
import { listZipEntries, streamZipEntry, type ZipEntry } from '../../../base/files/zip-file.js';
import { makeFolder } from '../../../base/make-folder.js';
import { isRelativePath } from '../repository-reference.js';
import type { WheelContents } from './engine-files.js';

/** The most bytes that the needed files of one wheel may have. */
const MOST_BYTES = 8 * 2 ** 30;
const MOST_ENTRIES = 100_000;

/**
 * Unpacks the needed files into a folder, which must exist, and returns the size of each by its path in the folder, with `/`. Throws
 * `PACKAGE_INVALID`, `OUTPUT_UNWRITABLE`. Files that were written stay.
 */
export async function unpackWheel(
  path: string,
  folder: string,
  contents: WheelContents,
  signal: AbortSignal | undefined,
): Promise<Record<string, number>> {
  const file = new SharedFile(path);
  await file.acquire().catch((error: unknown) => {
    throw invalid(path, reasonOf(error), error);
  });
  try {
    const chosen = await chooseEntries(file, contents);
    checkSpace(folder, sumOf(chosen));
    for (const [target, entry] of chosen) {
      signal?.throwIfAborted();
      await unpackEntry(file, entry, join(folder, ...target.split('/')));
    }
    return Object.fromEntries(Array.from(chosen, ([target, { sizeBytes }]) => [target, sizeBytes]));
  } finally {
    await file.release();
  }
}

/** Chooses the needed entries. The keys are their places in the folder. */
async function chooseEntries(
  file: SharedFile,
  { place, required }: WheelContents,
): Promise<Map<string, ZipEntry>> {
  const chosen = new Map<string, ZipEntry>();
  const taken = new Set<string>();
  let count = 0;
  try {
    for await (const entry of listZipEntries(file)) {
      if (++count > MOST_ENTRIES) throw new Error(`it has more than ${MOST_ENTRIES} entries`);
      const name = entry.name.replace(/\/$/, '');
      if (!isRelativePath(name)) throw new Error(`the name ${JSON.stringify(name)} in it is not safe`);
      const target = name === entry.name ? place(name) : undefined;
      if (target === undefined) continue;
      if (entry.isSpecial) throw new Error(`${name} in it is a link or another special file`);
      if (entry.refusal !== undefined) throw new Error(`${name}: ${entry.refusal}`);
      // Some file systems do not tell upper from lower case.
      if (taken.has(target.toLowerCase())) throw new Error(`it has ${name} twice`);
      taken.add(target.toLowerCase());
      chosen.set(target, entry);
      if (sumOf(chosen) > MOST_BYTES) throw new Error(`it unpacks to more than ${MOST_BYTES} bytes`);
    }
    for (const library of required)
      if (!Array.from(chosen.keys()).some((target) => library.test(target)))
        throw new Error(`it has no library ${library.source.replace(/^_|\\b$/g, '')}`);
  } catch (error) {
    throw invalid(file.path, reasonOf(error), error);
  }
  return chosen;
}

function sumOf(chosen: ReadonlyMap<string, ZipEntry>): number {
  let sum = 0;
  for (const { sizeBytes } of chosen.values()) sum += sizeBytes;
  return sum;
}

function checkSpace(folder: string, needed: number): void {
  const free = freeBytes(folder);
  if (free === null || needed <= free) return;
  throw unwritable(folder, new Error(`it needs ${needed} bytes, and ${free} are free`));
}

async function unpackEntry(file: SharedFile, entry: ZipEntry, path: string): Promise<void> {
  await makeFolder(dirname(path));
  try {
    await writeAtomically(path, async (output) => {
      for await (const chunk of streamZipEntry(file, entry)) await output.append(chunk);
    });
  } catch (error) {
    throw error instanceof TapirError
      ? error
      : invalid(file.path, `${entry.name}: ${reasonOf(error)}`, error);
  }
}

function invalid(path: string, reason: string, cause: unknown): TapirError<'PACKAGE_INVALID'> {
  return new TapirError('PACKAGE_INVALID', `"${path}" cannot be unpacked: ${reason}`, {
    details: { path, reason },
    cause,
  });
}
