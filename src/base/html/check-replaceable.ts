/** Whether a page may be written to a path. */
import { open } from 'node:fs/promises';
import { unwritable } from '../atomic-file.js';
import { TapirError } from '../errors.js';
import { markOf, type PageKind } from './document.js';

/** Throws `OUTPUT_EXISTS` for all but a page of the same kind: a wrong path must not cost a photo, or a dataset's manifest. */
export async function checkReplaceable(path: string, kind: PageKind): Promise<void> {
  const mark = markOf(kind);
  try {
    await using file = await open(path, 'r');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(mark.length), 0, mark.length, 0);
    if (buffer.toString('latin1', 0, bytesRead) === mark) return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw unwritable(path, error);
  }
  throw new TapirError(
    'OUTPUT_EXISTS',
    `"${path}" exists and was not written by tapir ${kind}; remove it, or choose another path`,
    { details: { path } },
  );
}
