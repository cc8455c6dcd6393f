/** A Parquet file that lists images. */
import { NestedColumn, readParquetRecords, type ParquetColumn } from '../../../base/files/parquet-reading.js';
import { carriedIn, toJson } from '../../formats/carried-columns.js';
import { nameColumns } from '../../formats/metadata.js';
import { missingColumn, SourceFault } from '../items/source-errors.js';
import type { ListEntry } from './list-entry.js';

/** Reads the entries in a column of text, row group by row group. Throws {@link SourceFault}, naming the row. */
export async function* readParquetEntries(file: string, column: string): AsyncGenerator<ListEntry> {
  let row = 0;
  let carried: readonly ParquetColumn[] = [];
  const refuse = (reason: string): Error => new SourceFault(reason);
  const reading = {
    missing: missingColumn,
    others: (columns: readonly ParquetColumn[]) => {
      carried = carriedIn(columns, new Set([column]));
      return carried.map(({ name }) => name);
    },
    stringFromBytes: (bytes: Uint8Array | undefined) => textOf(bytes, column),
  };
  try {
    for await (const record of readParquetRecords(file, [column], reading)) {
      const entry = record[column];
      row++;
      if (typeof entry !== 'string' || entry === '')
        throw new SourceFault(`row ${row} has no text in the column "${column}"`);
      const texts = carried.map(({ name, type }) => [name, toJson(record[name], type)] as const);
      yield { entry, columns: nameColumns(texts, refuse) };
    }
  } catch (error) {
    if (!(error instanceof NestedColumn)) throw error;
    throw new SourceFault(`its column "${column}" is nested, and no column of paths; ${PHOTOS_INSIDE}`);
  }
}

const PHOTOS_INSIDE =
  'photos inside a file come as an Arrow stream (--input-format arrow): the guide of batch runs has the lines under "Photos inside Parquet"';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A column may hold the photos themselves: bytes must not become names. */
function textOf(bytes: Uint8Array | undefined, column: string): string | undefined {
  try {
    return bytes && decoder.decode(bytes);
  } catch (cause) {
    const reason = `its column "${column}" holds bytes that are no text in UTF-8; ${PHOTOS_INSIDE}`;
    throw new Error(reason, { cause });
  }
}
