/** The columns of a table or stream that name or hold images. */
import { SOURCE_DEFAULTS } from '../../../photos/feeds/items/source-options.js';
import { missingColumn } from './source-errors.js';

/** The default column of images. Beside a column that holds the images themselves, it names them. */
export const PATH_COLUMN: string = SOURCE_DEFAULTS.column;
/** The column of images if the default column is missing. */
const IMAGE_COLUMN = 'image';

/** Finds the column of images. Throws a fault that lists the columns. */
export function findImageColumn(asked: string, names: readonly string[]): string {
  const candidates = asked === PATH_COLUMN ? [asked, IMAGE_COLUMN] : [asked];
  const found = candidates.find((name) => names.includes(name));
  if (found === undefined) throw missingColumn(asked, names);
  return found;
}
