/** Where a path lies. */
import { isAbsolute, relative, sep } from 'node:path';

/** Whether an absolute path is a folder or lies below it, by the names alone. Pass real paths if links matter. */
export function liesInside(folder: string, path: string): boolean {
  const inner = relative(folder, path);
  // On Windows, the relative path to another drive is absolute.
  return inner !== '..' && !inner.startsWith(`..${sep}`) && !isAbsolute(inner);
}
