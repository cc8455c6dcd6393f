/** Files and streams that list images: a path or URL per line, JSON record or table row. */
import { createReadStream } from 'node:fs';
import { dirname, extname } from 'node:path';
import type { SourceItem } from '../items/source-item.js';
import { itemOfEntry, type EntryPlan } from '../items/entries.js';
import { asInvalidSource, invalidSource } from '../items/source-errors.js';
import { MAX_LINE_BYTES, parseLine, splitLines } from '../items/lines.js';
import { readParquetColumn } from './parquet-column.js';
import type { SourceOptions } from '../items/source-options.js';
import { readTableColumns } from './table-column.js';

/** Extensions of list files, in lower case. */
export const LIST_EXTENSIONS: ReadonlySet<string> = new Set([
  '.txt',
  '.csv',
  '.tsv',
  '.jsonl',
  '.ndjson',
  '.parquet',
]);

/**
 * Reads the images that a file lists, in its order. Relative paths are relative to the folder of the file.
 *
 * @throws {@link TapirError} `SOURCE_INVALID`, naming a malformed line; `OPTION_INVALID` for a URL without `allowHttp`.
 */
export async function* readList(
  file: string,
  options: SourceOptions,
  signal?: AbortSignal,
): AsyncGenerator<SourceItem> {
  const plan: EntryPlan = { ...options, base: dirname(file), signal };
  try {
    for await (const entry of entriesOf(file, options)) yield itemOfEntry(entry, plan);
  } catch (error) {
    throw asInvalidSource(file, error);
  }
}

/** Reads the images that a stream of paths lists. Relative paths are relative to the working directory. */
export async function* readPathStream(
  paths: AsyncIterable<Uint8Array>,
  options: SourceOptions,
  signal?: AbortSignal,
): AsyncGenerator<SourceItem> {
  const plan: EntryPlan = { ...options, base: '', signal };
  for await (const entry of plainEntries(paths, 'the stream of paths', options.nulSeparated))
    yield itemOfEntry(entry, plan);
}

function entriesOf(file: string, { column, nulSeparated }: SourceOptions): AsyncIterable<string> {
  const extension = extname(file).toLowerCase();
  if (extension === '.parquet') return readParquetColumn(file, column);
  if (extension === '.csv' || extension === '.tsv')
    return columnOf(file, column, extension === '.csv' ? ',' : '\t');
  const bytes = createReadStream(file);
  return extension === '.txt' ? plainEntries(bytes, file, nulSeparated) : readJsonField(bytes, file, column);
}

async function* columnOf(file: string, column: string, delimiter: ',' | '\t'): AsyncGenerator<string> {
  for await (const [value] of readTableColumns(file, [column], delimiter)) yield value!;
}

async function* plainEntries(
  bytes: AsyncIterable<Uint8Array>,
  source: string,
  nulSeparated: boolean,
): AsyncGenerator<string> {
  for await (const { text } of splitLines(bytes, { source, nulSeparated, maxBytes: MAX_LINE_BYTES }))
    if (text.trim() !== '') yield text;
}

async function* readJsonField(
  bytes: AsyncIterable<Uint8Array>,
  source: string,
  field: string,
): AsyncGenerator<string> {
  for await (const line of splitLines(bytes, { source, maxBytes: MAX_LINE_BYTES })) {
    if (line.text.trim() === '') continue;
    const record = parseLine(line, source);
    const isRecord = typeof record === 'object' && record !== null && Object.hasOwn(record, field);
    const value = isRecord ? (record as Record<string, unknown>)[field] : undefined;
    if (typeof value !== 'string' || value === '')
      throw invalidSource(source, `it has no text in the field "${field}" (--column names another)`, {
        line: line.number,
      });
    yield value;
  }
}
