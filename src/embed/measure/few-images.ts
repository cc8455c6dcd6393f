/** Whether a folder holds so few images that a single session is soonest done. */
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { isImage } from '../../sources/folders/list-folder.js';

/** A second session and the prepared model it shares take about a second; on 64 photos it wins as much back. */
const FEW_IMAGES = 64;
/** So many entries are looked at. */
const MOST_ENTRIES = 4096;

/**
 * Whether a source is a folder of fewer than 64 images, looking at 4096 entries at most. Anything that is not plain (no folder,
 * links, subfolders that cannot be read) counts as many.
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
        else if (isImage(entry.name)) images++;
        if (images >= FEW_IMAGES || ++entries >= MOST_ENTRIES) return false;
      }
    }
  } catch {
    return false; // Whoever lists the source says what is wrong with it.
  }
  return true;
}
