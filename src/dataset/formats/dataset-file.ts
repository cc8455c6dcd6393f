/** Where the files of a dataset lie: always inside its folder, whatever its manifest says. */
import { realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { datasetInvalid, datasetUnreadable } from './dataset-invalid.js';

/** Whether a path of a manifest is relative, with `/`, and names nothing above the folder on any system. */
export function staysInside(path: string): boolean {
  if (path === '' || /[\\\0:]/.test(path)) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

/**
 * The real place of a file that a manifest names; links are followed.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if it is missing or leaves the folder.
 */
export async function locate(folder: string, path: string): Promise<string> {
  const shown = join(folder, path);
  if (!staysInside(path)) throw datasetInvalid(path, 'the manifest names a path that leaves its folder');
  try {
    const [root, place] = await Promise.all([realpath(folder), realpath(shown)]);
    if (place.startsWith(root.endsWith(sep) ? root : root + sep)) return place;
  } catch (error) {
    throw datasetUnreadable(shown, error);
  }
  throw datasetInvalid(shown, 'it is a link that leaves the folder of the dataset');
}
