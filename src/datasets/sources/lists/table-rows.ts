/** Rows of a CSV or TSV file. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { reasonOf } from '../../../base/errors.js';
import { MAX_LINE_BYTES } from '../items/lines.js';
import { missingColumn, SourceFault } from '../items/source-errors.js';

class RowFault extends Error {}

/** A row of a table. */
export interface TableRow {
  /** The values of the columns that were asked for, in that order. */
  readonly asked: readonly string[];
  /** All others by name, if they were asked for, too. */
  readonly others: readonly (readonly [name: string, value: string])[];
}

/** What of a table is read. */
export interface TableReading {
  /** Whether to read the other columns, too. A column without a name is left out: pandas writes its index so. */
  readonly withOthers?: boolean;
  /** A column that may be empty. */
  readonly mayBeEmpty?: string;
  /** The error for a column that the table lacks. */
  readonly missing?: (column: string, names: readonly string[]) => Error;
}

/**
 * Reads a table, row by row. The first row names the columns.
 *
 * @throws {@link SourceFault}, naming the line.
 */
export async function* readTableRows(
  file: string,
  columns: readonly string[],
  delimiter: ',' | '\t',
  { withOthers = false, mayBeEmpty, missing = missingColumn }: TableReading,
): AsyncGenerator<TableRow> {
  let places: readonly number[] | undefined;
  let others: readonly (readonly [name: string, place: number])[] = [];
  let rows = 0;
  try {
    for await (const record of (await openRows(file, delimiter, false)) as AsyncIterable<readonly Buffer[]>) {
      rows++;
      if (places === undefined) {
        const names = record.map(textOf);
        const lacked = columns.find((column) => !names.includes(column));
        if (lacked !== undefined) throw missing(lacked, names);
        places = columns.map((column) => names.indexOf(column));
        if (withOthers)
          others = [...names.entries()].flatMap(([place, name]) =>
            name === '' || places!.includes(place) ? [] : [[name, place] as const],
          );
        continue;
      }
      const asked = places.map((place) => textOf(record[place]!));
      const empty = asked.findIndex((value, i) => value === '' && columns[i] !== mayBeEmpty);
      if (empty >= 0) throw new RowFault(`its column "${columns[empty]}" is empty`);
      yield { asked, others: others.map(([name, place]) => [name, textOf(record[place]!)]) };
    }
  } catch (error) {
    const isFault = error instanceof RowFault;
    const line = isFault ? await lineOf(file, delimiter, rows) : (error as { readonly lines?: number }).lines;
    if (line === undefined) throw error;
    throw new SourceFault(reasonOf(error), { line, cause: isFault ? error.cause : error });
  }
}

/** The line in which a row ends, counted from 1. The parser takes three times as long where it tells lines. */
async function lineOf(file: string, delimiter: ',' | '\t', row: number): Promise<number | undefined> {
  const rows = (await openRows(file, delimiter, true)) as AsyncIterable<{
    readonly info: { readonly lines: number };
  }>;
  let left = row;
  for await (const { info } of rows) if (--left === 0) return info.lines;
  return undefined;
}

/** @param info - Whether each row comes with its place: `{ record, info }`. */
async function openRows(file: string, delimiter: ',' | '\t', info: boolean): Promise<AsyncIterable<unknown>> {
  const { parse } = await import('csv-parse');
  const parser = parse({
    delimiter,
    // Fields stay bytes, so that textOf() finds text that is not UTF-8.
    encoding: null,
    info,
    max_record_size: MAX_LINE_BYTES,
    // All of them: programs that append to a file end lines in their own way.
    record_delimiter: ['\r\n', '\n', '\r'],
    // In TSV, a quotation mark inside a value is usually just a character.
    relax_quotes: delimiter === '\t',
    skip_empty_lines: true,
  });
  // The parser throws the file's errors, and closes the file if its reader stops early.
  pipeline(createReadStream(file), checkedChunks, parser, () => undefined);
  return parser;
}

/**
 * Removes a byte order mark: the parser's option for this would turn all fields into text. Refuses lines that are too long: the parser
 * counts the bytes of fields, and a million empty fields have none.
 */
async function* checkedChunks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let isFirst = true;
  let openBytes = 0;
  for await (const chunk of chunks) {
    const lineEnd = Math.max(chunk.lastIndexOf(10), chunk.lastIndexOf(13));
    openBytes = lineEnd < 0 ? openBytes + chunk.length : chunk.length - 1 - lineEnd;
    if (openBytes > MAX_LINE_BYTES)
      throw new SourceFault(`it has a line of more than ${MAX_LINE_BYTES} bytes`);
    yield isFirst && chunk.subarray(0, MARK.length).equals(MARK) ? chunk.subarray(MARK.length) : chunk;
    isFirst = false;
  }
}

const MARK = Buffer.from('\uFEFF');
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(bytes: Buffer): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new RowFault('it is not UTF-8', { cause: error });
  }
}
