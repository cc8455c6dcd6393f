/** Adds to libraries that are missing which other versions of them are there: the usual reason. */
import { delimiter, join } from 'node:path';
import { namesIn } from '../../base/folder-names.js';
import { otherVersions } from './cuda-libraries.js';
import type { MissingLibrary } from './provider-library.js';

/** Where CUDA and cuDNN usually are, besides the folders of LD_LIBRARY_PATH. */
const USUAL = ['/usr/local/cuda/lib64', '/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/local/lib'];

/**
 * Adds to each missing library the paths of its other versions.
 *
 * @param files - The libraries of a folder that was looked through: paths by file name.
 */
export function describeMissing(
  missing: readonly MissingLibrary[],
  files: ReadonlyMap<string, string> = new Map(),
): MissingLibrary[] {
  if (missing.length === 0) return [];
  const all = new Map([...listUsual(), ...files]);
  return missing.map((library) => ({ ...library, found: otherVersions(library.name, all) }));
}

function listUsual(): [name: string, path: string][] {
  const stated = (process.env['LD_LIBRARY_PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return [...USUAL, ...stated].flatMap((folder) =>
    namesIn(folder)
      .filter((name) => /\.so\.\d/.test(name))
      .map((name): [string, string] => [name, join(folder, name)]),
  );
}
