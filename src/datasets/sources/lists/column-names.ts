/** Names of photos from a column of their list: the option `name`. */
import { hideSecrets } from '../../../base/url-names.js';
import type { ItemColumns, SourceItem } from '../../../photos/feeds/items/source-item.js';
import type { SourceOptions } from '../../../photos/feeds/items/source-options.js';
import { isReservedName } from '../../formats/metadata.js';
import { PATH_COLUMN } from '../items/image-column.js';
import { invalidSource, missingColumn } from '../items/source-errors.js';

/**
 * Gives an item what its row says beside it, and its name if a column has that. Rows are different photos, even if they have one name.
 *
 * @param source - For messages.
 * @throws {@link TapirError} `SOURCE_INVALID` for a source without the column.
 */
export function withColumns(
  item: SourceItem,
  row: number,
  columns: ItemColumns,
  { name, column }: Pick<SourceOptions, 'name' | 'column'>,
  source: string,
): SourceItem {
  const carried = columns.size > 0 ? Object.assign(item, { columns }) : item;
  if (typeof name === 'string') return carried;
  const text = columns.get(isReservedName(name.column) ? `source_${name.column}` : name.column);
  // The columns that name items anyway are not carried.
  const isUsual = name.column === column || name.column === PATH_COLUMN;
  if (text === undefined && !isUsual) {
    const fault = missingColumn(name.column, [...columns.keys()], 'choose one with name: { column }');
    throw invalidSource(source, fault.message);
  }
  const own = text === undefined ? null : (JSON.parse(text) as unknown);
  if (own === null || own === '' || typeof own === 'object') return carried;
  return Object.assign(carried, { path: typeof own === 'string' ? hideSecrets(own) : text!, heldIn: row });
}
