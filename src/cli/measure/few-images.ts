/** Whether a folder holds so few images that a second session does not pay off. */
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { isImageName } from '../../photos/images/decode/image-names.js';

/** A second session takes about a second to open. At 64 photos it starts to win that second back. */
const FEW_IMAGES = 64;
/** The most entries that are examined. */
const MOST_ENTRIES = 4096;

/**
 * Whether a source is a folder of fewer than 64 images. Examines at most 4096 entries. Returns false for anything that cannot be
 * counted this way: other sources, links, subfolders that cannot be read.
 */
export async function hasFewImages(source: string): Promise<boolean> {
  let images = 0;
  let entries = 0;
  const folders = [source];
  try {
    for (const folder of folders) {
      for await (const entry of await opendir(folder)) {
        if (entry.isDirectory()) folders.push(join(folder, entry.name));
        else if (!entry.isFile()) return false;
        else if (isImageName(entry.name)) images++;
        if (images >= FEW_IMAGES || ++entries >= MOST_ENTRIES) return false;
      }
    }
  } catch {
    return false; // Reading the source reports the error.
  }
  return true;
}
