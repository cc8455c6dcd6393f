/** Images that come in as a stream of bytes, with whatever their rows shall carry. */
import { checkOneOf } from '../../base/checks.js';
import type { StreamSchema } from './stream-schema.js';
import type { EmbedRecord } from '../items/embed-records.js';
import { readPathStream } from '../lists/lists.js';
import type { SourceOptions } from '../items/source-options.js';
import type { Data } from '../../tensor/arrow/library.js';
import { openArrowRecords } from './arrow-records.js';
import { ByteReader } from './byte-reader.js';
import { readJsonlRecords } from './jsonl-records.js';

/** What a stream of images holds: a path per line, a JSON object per line, or Arrow's stream format. */
export const INPUT_FORMATS = ['auto', 'paths', 'jsonl', 'arrow'] as const;
export type InputFormat = (typeof INPUT_FORMATS)[number];

/** What a row carries of its input. */
export type Carried =
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'json';
      /** Of the record, from 1. */
      readonly line: number;
      /** Fields besides the image, each as the text it had. */
      readonly fields: ReadonlyMap<string, string>;
    }
  | {
      readonly kind: 'arrow';
      /** Columns besides the image, of one record batch. */
      readonly columns: readonly Data[];
      readonly row: number;
    };

/** An opened stream of images. */
export interface RecordInput {
  readonly format: Exclude<InputFormat, 'auto'>;
  /** What messages call it. */
  readonly name: string;
  /** The columns that Arrow's rows carry. */
  readonly schema?: StreamSchema;
  /** In order; leaving them closes the stream. */
  readonly records: AsyncIterable<EmbedRecord<Carried>>;
}

/** What carries nothing. */
export const NOTHING: Carried = { kind: 'nothing' };

/**
 * Opens a stream of images; of Arrow, the schema is read.
 *
 * @param name - What messages call it.
 * @param format - `auto` decides on the first bytes: `{` begins JSON lines, `FF FF FF FF` an Arrow stream, anything else paths.
 * @throws {@link TapirError} `SOURCE_INVALID` for a damaged or unfit schema. While records are taken: `SOURCE_INVALID` where the
 * stream is damaged, after the records before, naming the line; `OPTION_INVALID` for a URL without `allowHttp`.
 */
export async function openRecords(
  bytes: AsyncIterable<Uint8Array>,
  name: string,
  format: InputFormat,
  options: SourceOptions,
  signal?: AbortSignal,
): Promise<RecordInput> {
  const reader = new ByteReader(bytes);
  const chosen = checkOneOf('inputFormat', format, INPUT_FORMATS);
  const known = chosen === 'auto' ? await sniff(reader) : chosen;
  const plan = { ...options, base: '', signal };
  if (known === 'arrow') return { format: known, name, ...(await openArrowRecords(reader, name, plan)) };
  if (known === 'jsonl') return { format: known, name, records: readJsonlRecords(reader.rest(), name, plan) };
  return { format: known, name, records: readPathRecords(reader.rest(), options, signal) };
}

/** By the first bytes, which no path begins with. */
async function sniff(reader: ByteReader): Promise<Exclude<InputFormat, 'auto'>> {
  const head = await reader.peek(SNIFFED_BYTES);
  if (head.length === SNIFFED_BYTES && head.every((byte) => byte === 0xff)) return 'arrow';
  return head[0] === BRACE ? 'jsonl' : 'paths';
}

const SNIFFED_BYTES = 4;
const BRACE = 0x7b;

async function* readPathRecords(
  bytes: AsyncIterable<Uint8Array>,
  options: SourceOptions,
  signal?: AbortSignal,
): AsyncGenerator<EmbedRecord<Carried>> {
  for await (const item of readPathStream(bytes, options, signal)) yield { item, extra: NOTHING };
}
