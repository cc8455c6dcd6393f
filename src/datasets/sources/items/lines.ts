/** Bytes → lines: for lists of paths and for JSON lines. */
import { hideSecrets } from '../../../base/url-names.js';
import { SourceFault } from './source-errors.js';

/** The most bytes of a line, a record or a row of a list. */
export const MAX_LINE_BYTES: number = 1024 ** 2;

/** A line without its end. */
export interface Line {
  readonly text: string;
  /** From 1. */
  readonly number: number;
}

/** How to cut a stream. */
export interface LinePlan {
  /** Lines end with a NUL character, not with LF or CRLF. */
  readonly nulSeparated?: boolean;
  /** The most bytes of a line. */
  readonly maxBytes: number;
}

const [NUL, LF, CR] = [0, 10, 13];

/**
 * Cuts bytes into lines. The last line needs no end. A byte order mark at the beginning of the stream is removed.
 *
 * @throws {@link SourceFault}, naming the line, for a line that is too long or not UTF-8.
 */
export async function* splitLines(chunks: AsyncIterable<Uint8Array>, plan: LinePlan): AsyncGenerator<Line> {
  const { maxBytes } = plan;
  const end = plan.nulSeparated === true ? NUL : LF;
  let number = 1;
  let open: Uint8Array[] = [];
  let openBytes = 0;
  const add = (bytes: Uint8Array): void => {
    openBytes += bytes.length;
    if (openBytes > maxBytes) throw new SourceFault(`it is longer than ${maxBytes} bytes`, { line: number });
    open.push(bytes);
  };
  const finish = (): Line => {
    let bytes = open.length === 1 ? open[0]! : Buffer.concat(open);
    if (end === LF && bytes.at(-1) === CR) bytes = bytes.subarray(0, -1);
    const line = { text: decode(bytes, number), number };
    open = [];
    openBytes = 0;
    number++;
    return line;
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(end); at >= 0; at = chunk.indexOf(end, from)) {
      add(chunk.subarray(from, at));
      yield finish();
      from = at + 1;
    }
    // A copy, because the producer may reuse the memory of the chunk.
    if (from < chunk.length) add(chunk.slice(from));
  }
  if (openBytes > 0) yield finish();
}

/** Parses a line of JSON lines. Throws {@link SourceFault}. */
export function parseLine({ text, number }: Line): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The error quotes a piece of the line.
    throw new SourceFault('it is not JSON', {
      line: number,
      ...(hideSecrets(text) === text && { cause: error }),
    });
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array, line: number): string {
  try {
    const text = decoder.decode(bytes);
    return line === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text;
  } catch (error) {
    throw new SourceFault('it is not UTF-8', { line, cause: error });
  }
}
