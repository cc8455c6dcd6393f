/** Finds the files that a manifest names: always inside the dataset's folder, whatever the manifest says. */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { liesInside } from '../../base/files/lies-inside.js';
import { isPortableName } from '../../base/files/portable-name.js';

/** Whether a path in a manifest is relative, uses `/`, and cannot leave its folder on any system. */
export function staysInside(path: string): boolean {
  return path.split('/').every(isPortableName);
}

/**
 * Returns the real path of a file that a manifest names, with links followed.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if the file is missing or lies outside the folder.
 */
export async function locateFile(folder: string, path: string): Promise<string> {
  const shown = join(folder, path);
  if (!staysInside(path)) throw datasetInvalid(path, 'the manifest names a path that leaves its folder');
  try {
    const [root, place] = await Promise.all([realpath(folder), realpath(shown)]);
    if (liesInside(root, place)) return place;
  } catch (error) {
    throw datasetUnreadable(shown, error);
  }
  throw datasetInvalid(shown, 'it is a link that leaves the folder of the dataset');
}
