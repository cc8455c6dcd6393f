/** A column of a CSV or TSV file. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { reasonOf } from '../../base/errors.js';
import { MAX_LINE_BYTES } from '../items/lines.js';
import { invalidSource, missingColumn } from '../items/source-errors.js';

interface Row {
  readonly record: readonly Buffer[];
  readonly info: { readonly lines: number };
}

/**
 * Reads the values of a column. The first row names the columns.
 *
 * @throws {@link TapirError} `SOURCE_INVALID`, naming the line.
 */
export async function* readTableColumn(
  file: string,
  column: string,
  delimiter: ',' | '\t',
): AsyncGenerator<string> {
  const { parse } = await import('csv-parse');
  const parser = parse({
    delimiter,
    // Fields stay bytes, so that textOf() finds text that is not UTF-8.
    encoding: null,
    info: true,
    max_record_size: MAX_LINE_BYTES,
    // All of them: programs that append to a file end lines in their own way.
    record_delimiter: ['\r\n', '\n', '\r'],
    // In TSV, a quotation mark inside a value is usually just a character.
    relax_quotes: delimiter === '\t',
    skip_empty_lines: true,
  });
  // The parser throws the file's errors, and closes the file if the loop below is left early.
  pipeline(createReadStream(file), withoutMark, parser, () => undefined);
  let place: number | undefined;
  try {
    for await (const { record, info } of parser as AsyncIterable<Row>) {
      const line = info.lines;
      if (place === undefined) {
        const names = record.map((name) => textOf(name, file, line));
        place = names.indexOf(column);
        if (place < 0) throw missingColumn(file, column, names);
        continue;
      }
      const text = textOf(record[place]!, file, line);
      if (text === '') throw invalidSource(file, `its column "${column}" is empty`, { line });
      yield text;
    }
  } catch (error) {
    const { lines } = error as { readonly lines?: number };
    if (lines === undefined) throw error;
    throw invalidSource(file, reasonOf(error), { line: lines, cause: error });
  }
}

/** Removes a byte order mark. The parser's option for this would turn all fields into text. */
async function* withoutMark(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const chunk of chunks) {
    yield isFirst && chunk.subarray(0, MARK.length).equals(MARK) ? chunk.subarray(MARK.length) : chunk;
    isFirst = false;
  }
}

const MARK = Buffer.from('\uFEFF');
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(bytes: Buffer, source: string, line: number): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw invalidSource(source, 'it is not UTF-8', { line, cause: error });
  }
}
