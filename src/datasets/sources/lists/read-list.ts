/** Files and streams that list images: a path or URL per line, JSON record or table row. What else a record or row says comes along. */
import { createReadStream } from 'node:fs';
import { dirname, extname } from 'node:path';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { itemOfEntry, type EntryPlan } from '../../../photos/feeds/items/entries.js';
import { withColumns } from './column-names.js';
import { asInvalidSource, ofSource, SourceFault } from '../items/source-errors.js';
import { memberTexts } from '../items/member-texts.js';
import { MAX_LINE_BYTES, parseLine, splitLines } from '../items/lines.js';
import { nameColumns } from '../../formats/metadata.js';
import type { ListEntry } from './list-entry.js';
import { readParquetEntries } from './parquet-entries.js';
import type { SourceOptions } from '../../../photos/feeds/items/source-options.js';
import { readTableRows } from './table-rows.js';

const NO_COLUMNS: ListEntry['columns'] = new Map();

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
    let row = 0;
    for await (const { entry, columns } of entriesOf(file, options)) {
      const item = typeof entry === 'string' ? itemOfEntry(entry, plan) : entry;
      yield withColumns(item, row++, columns, options, file);
    }
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
  const entries = plainEntries(paths, options.nulSeparated);
  for await (const { entry } of ofSource('the stream of paths', entries)) yield itemOfEntry(entry, plan);
}

function entriesOf(
  file: string,
  { column, nulSeparated }: SourceOptions,
): AsyncIterable<ListEntry<string | SourceItem>> {
  const extension = extname(file).toLowerCase();
  if (extension === '.parquet') return readParquetEntries(file, column);
  if (extension === '.csv' || extension === '.tsv')
    return tableEntries(file, column, extension === '.csv' ? ',' : '\t');
  const bytes = createReadStream(file);
  return extension === '.txt' ? plainEntries(bytes, nulSeparated) : jsonEntries(bytes, column);
}

async function* tableEntries(file: string, column: string, delimiter: ',' | '\t'): AsyncGenerator<ListEntry> {
  for await (const { asked, others } of readTableRows(file, [column], delimiter, { withOthers: true })) {
    const texts = others.map(([name, value]) => [name, JSON.stringify(value)] as const);
    yield { entry: asked[0]!, columns: nameColumns(texts, (reason) => new SourceFault(reason)) };
  }
}

async function* plainEntries(
  bytes: AsyncIterable<Uint8Array>,
  nulSeparated: boolean,
): AsyncGenerator<ListEntry> {
  for await (const { text } of splitLines(bytes, { nulSeparated, maxBytes: MAX_LINE_BYTES }))
    if (text.trim() !== '') yield { entry: text, columns: NO_COLUMNS };
}

async function* jsonEntries(bytes: AsyncIterable<Uint8Array>, field: string): AsyncGenerator<ListEntry> {
  for await (const line of splitLines(bytes, { maxBytes: MAX_LINE_BYTES })) {
    if (line.text.trim() === '') continue;
    const record = parseLine(line);
    const isRecord = typeof record === 'object' && record !== null && Object.hasOwn(record, field);
    const value = isRecord ? (record as Record<string, unknown>)[field] : undefined;
    if (typeof value !== 'string' || value === '')
      throw new SourceFault(`it has no text in the field "${field}"; choose another field with --column`, {
        line: line.number,
      });
    const fields = memberTexts(line.text);
    fields.delete(field);
    const refuse = (reason: string): Error => new SourceFault(reason, { line: line.number });
    yield { entry: value, columns: nameColumns(fields, refuse) };
  }
}
