/** The columns of a table or stream that name or hold images. */
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { show } from '../../../base/checks.js';
import { isHttpUrl } from '../../../base/http/http.js';
import { SOURCE_DEFAULTS } from '../../../photos/feeds/items/source-options.js';
import { missingColumn } from './source-errors.js';

/** The default column of images. Beside a column that holds the images themselves, it names them. */
export const PATH_COLUMN: string = SOURCE_DEFAULTS.column;
/** The column of images if the default column is missing. */
export const IMAGE_COLUMN = 'image';

/** Finds the column of images. Throws a fault that lists the columns. */
export function findImageColumn(asked: string, names: readonly string[]): string {
  const candidates = asked === PATH_COLUMN ? [asked, IMAGE_COLUMN] : [asked];
  const found = candidates.find((name) => names.includes(name));
  if (found === undefined) throw missingColumn(asked, names);
  return found;
}

/** Folders of tables of which was warned: one may hold a thousand, and a run counts its inputs as well. */
const warned = new Set<string>();

/**
 * Emits the warning `TAPIR_IMAGES_IN_COLUMN` if the first path of a table names no file: the table has a column of images beside the paths,
 * which is not read.
 */
export function warnOfImages(table: string, path: string): void {
  const folder = dirname(table);
  if (warned.has(folder) || isHttpUrl(path) || existsSync(resolve(folder, path))) return;
  warned.add(folder);
  process.emitWarning(
    `${show(table)} has images in its column "${IMAGE_COLUMN}", but the paths in its column "${PATH_COLUMN}" are read, and ${show(path)} is no file. To embed the images, set option "column" to ${IMAGE_COLUMN}`,
    { code: 'TAPIR_IMAGES_IN_COLUMN' },
  );
}
