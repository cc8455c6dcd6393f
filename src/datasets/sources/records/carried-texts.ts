/** What the records of a stream carry, as the columns of a dataset. */
import type { ItemColumns } from '../../../photos/feeds/items/source-item.js';
import { loadArrow, type Arrow, type DataType } from '../../formats/library.js';
import { nameColumns } from '../../formats/metadata.js';
import { invalidSource } from '../items/source-errors.js';
import { arrowToJson } from './arrow-json.js';
import type { Carried, RecordInput } from './source-record.js';

/**
 * Prepares to read what the records of a stream carry. Of an Arrow stream these are columns of truths, numbers and texts, as of a Parquet
 * file: other columns, such as bytes and lists, may be as large as photos.
 */
export async function openCarriedTexts({
  name,
  schema,
}: Pick<RecordInput, 'name' | 'schema'>): Promise<(carried: Carried) => ItemColumns> {
  const arrow = schema && (await loadArrow());
  const writers = (schema?.fields ?? []).flatMap((field, place) =>
    isPlain(arrow!, field.type) ? [{ name: field.name, place, write: arrowToJson(arrow!, field, name) }] : [],
  );
  const textsOf = (carried: Carried): Iterable<readonly [string, string]> => {
    if (carried.kind === 'nothing') return [];
    if (carried.kind === 'json') return carried.fields;
    return writers.map((one) => [one.name, one.write(carried.columns[one.place]!, carried.row)]);
  };
  return (carried) => nameColumns(textsOf(carried), (reason) => invalidSource(name, reason));
}

function isPlain({ DataType: Types }: Arrow, type: DataType): boolean {
  const isText = Types.isUtf8(type) || Types.isLargeUtf8(type);
  return isText || Types.isBool(type) || Types.isInt(type) || Types.isFloat(type);
}
