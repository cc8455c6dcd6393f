/** A stream of bytes → records: images, and the other data of their rows. */
import { checkOneOf } from '../../../base/checks.js';
import type { EntryPlan } from '../../../photos/feeds/items/entries.js';
import type { SourceOptions } from '../../../photos/feeds/items/source-options.js';
import { readPathStream } from '../lists/read-list.js';
import { openArrowRecords } from './arrow-records.js';
import { ByteReader } from '../items/byte-reader.js';
import { nameFault, ofSource } from '../items/source-errors.js';
import { readJsonlRecords } from './jsonl-records.js';
import {
  NOTHING,
  type Carried,
  type InputFormat,
  type RecordInput,
  type SourceRecord,
} from './source-record.js';

/**
 * Opens a stream of images. Reads the schema of an Arrow stream, and no records yet.
 *
 * @param name - Name of the stream in messages.
 * @param format - `auto` looks at the first bytes: `{` begins JSON lines, `FF FF FF FF` an Arrow stream, anything else paths.
 * @throws {@link TapirError} `SOURCE_INVALID` for a damaged or unsuitable schema. The records throw `SOURCE_INVALID`, naming
 * the line, where the stream is damaged, and `OPTION_INVALID` for a URL without `allowHttp`; earlier records come first.
 */
export async function openRecords(
  bytes: AsyncIterable<Uint8Array>,
  name: string,
  format: Exclude<InputFormat, 'tar'>,
  options: SourceOptions & Pick<EntryPlan, 'isUrlRow'>,
  signal?: AbortSignal,
): Promise<RecordInput> {
  const reader = new ByteReader(bytes);
  const chosen = checkOneOf<typeof format>('inputFormat', format, ['auto', 'paths', 'jsonl', 'arrow']);
  const known = chosen === 'auto' ? await detectFormat(reader, options) : chosen;
  const plan = { ...options, base: '', signal };
  if (known === 'arrow') {
    const opened = await openArrowRecords(reader, plan).catch((error: unknown) => {
      throw nameFault(name, error);
    });
    return { format: known, name, ...opened, records: ofSource(name, opened.records) };
  }
  if (known === 'jsonl')
    return { format: known, name, records: ofSource(name, readJsonlRecords(reader.rest(), plan)) };
  return { format: known, name, records: readPathRecords(reader.rest(), options, signal) };
}

/** Decides by the first bytes, behind a byte order mark and the ends of empty lines. A list of paths begins with neither of the two marks. */
async function detectFormat(
  reader: ByteReader,
  { nulSeparated }: SourceOptions,
): Promise<Exclude<InputFormat, 'auto' | 'tar'>> {
  const head = await reader.peek(4);
  if (head.length === 4 && head.every((byte) => byte === 0xff)) return 'arrow';
  // Only a list of paths ends its entries with NUL, whose first name may begin with a brace.
  if (nulSeparated) return 'paths';
  return Buffer.from(head).toString('utf8').replace('\uFEFF', '').trimStart().startsWith('{')
    ? 'jsonl'
    : 'paths';
}

async function* readPathRecords(
  bytes: AsyncIterable<Uint8Array>,
  options: SourceOptions,
  signal?: AbortSignal,
): AsyncGenerator<SourceRecord<Carried>> {
  for await (const item of readPathStream(bytes, options, signal)) yield { item, extra: NOTHING };
}
