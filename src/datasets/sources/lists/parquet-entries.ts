/** A Parquet file that lists images, or holds them: as bytes, or as the structs of Hugging Face datasets, `{ bytes, path }`. */
import { isUtf8 } from 'node:buffer';
import {
  describeParquet,
  NestedColumn,
  readParquetRecords,
  type ParquetColumn,
} from '../../formats/parquet-reading.js';
import { nameOfUrl } from '../../../base/url-names.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { missingImage } from '../../../photos/images/file/image-errors.js';
import { carriedIn, toJson } from '../../formats/carried-columns.js';
import { nameColumns } from '../../formats/metadata.js';
import { findImageColumn, IMAGE_COLUMN, PATH_COLUMN, warnOfImages } from '../items/image-column.js';
import { SourceFault } from '../items/source-errors.js';
import type { ListEntry } from './list-entry.js';

/** What a row holds: a path, or the bytes of a photo and perhaps its name. */
interface Cell {
  readonly bytes: Uint8Array | null;
  readonly path: Uint8Array | null;
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Reads the entries in a column, row group by row group. Photos that the file holds are named by their own path, else by the text in the
 * column `path`, else they have no name. Throws {@link SourceFault}, naming the row.
 */
export async function* readParquetEntries(
  file: string,
  asked: string,
): AsyncGenerator<ListEntry<string | SourceItem>> {
  const { columns } = await describeParquet(file);
  const { name: column, type, members } = imageColumn(columns, asked);
  const isStruct = members.includes('bytes');
  // Bytes that no annotation says to be text may be either; the first value decides.
  let holdsPaths = isStruct ? false : type === 'other' ? undefined : true;
  const carried = carriedIn(columns, new Set([column]));
  const reading = {
    others: () => carried.map(({ name }) => name),
    stringFromBytes: (bytes: Uint8Array | undefined) => bytes,
    structs: isStruct,
  };
  const refuse = (reason: string): Error => new SourceFault(reason);
  let row = 0;
  for await (const record of plainOnly(readParquetRecords(file, [column], reading))) {
    row++;
    const value = record[column];
    const cell = isStruct ? ((value ?? NO_CELL) as Cell) : { bytes: value as Cell['bytes'], path: null };
    holdsPaths ??= cell.bytes instanceof Uint8Array ? isUtf8(cell.bytes) : undefined;
    const entry = holdsPaths ? textOf(cell.bytes) : photoOf(cell, record[PATH_COLUMN], row - 1);
    if (row === 1 && column === PATH_COLUMN && hasImages(columns) && typeof entry === 'string')
      warnOfImages(file, entry);
    if (entry === '') throw new SourceFault(`row ${row} has no text in the column "${column}"`);
    const others = holdsPaths ? carried : carried.filter(({ name }) => name !== PATH_COLUMN);
    const texts = others.map(({ name, type: kind }) => [name, toJson(record[name], kind)] as const);
    yield { entry, columns: nameColumns(texts, refuse) };
  }
}

/** Whether a column beside the paths holds images. */
function hasImages(columns: readonly ParquetColumn[]): boolean {
  const column = columns.find(({ name }) => name === IMAGE_COLUMN);
  return column !== undefined && (column.type === 'other' || column.members.includes('bytes'));
}

/** Says what a column of images may be where it is something else. */
async function* plainOnly<Row>(records: AsyncIterable<Row>): AsyncGenerator<Row> {
  try {
    yield* records;
  } catch (error) {
    if (!(error instanceof NestedColumn)) throw error;
    throw new SourceFault(`${error.message}: images are text (paths), bytes, or both as { bytes, path }`);
  }
}

/** What the indexes of Parquet files say. */
export interface TableFacts {
  readonly rows: number;
  /** Whether a file may hold its images, so that listing them reads them all. */
  readonly mayHoldImages: boolean;
}

/** Reads the indexes of files. Throws as {@link readParquetEntries} does. */
export async function describeTables(files: readonly string[], asked: string): Promise<TableFacts> {
  let [rows, mayHoldImages] = [0, false];
  for (const file of files) {
    // oxlint-disable-next-line no-await-in-loop -- an index at a time
    const { columns, rows: own } = await describeParquet(file);
    rows += own;
    mayHoldImages ||= imageColumn(columns, asked).type === 'other';
  }
  return { rows, mayHoldImages };
}

function imageColumn(columns: readonly ParquetColumn[], asked: string): ParquetColumn {
  const names = columns.map(({ name }) => name);
  return columns[names.indexOf(findImageColumn(asked, names))]!;
}

const NO_CELL: Cell = { bytes: null, path: null };

/** The text of a value. What is no text gives an empty one. hyparquet decodes some types of text by itself. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return value instanceof Uint8Array ? decoder.decode(value) : '';
}

/** The photo of a row. A Hugging Face dataset may hold the path of a file in its place. */
function photoOf({ bytes, path }: Cell, label: unknown, row: number): string | SourceItem {
  const text = textOf(path) || textOf(label);
  const own = text === '' ? null : nameOfUrl(text);
  if (bytes instanceof Uint8Array) {
    const stamp = { sizeBytes: bytes.length, modifiedMs: null, sha256: null };
    return { path: own, image: bytes, stamp, heldIn: row };
  }
  if (path instanceof Uint8Array && text !== '') return text;
  return { path: own, image: '', heldIn: row, error: missingImage(own ?? 'an image') };
}
