/** Records of a stream of images: each is an image, and the other data of its row. */
import type { Data } from '../../formats/library.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import type { StreamSchema } from './stream-schema.js';

/** Formats of a stream of images: a path per line, a JSON object per line, Arrow's stream format, or a tar, plain or gzipped. */
export const INPUT_FORMATS = ['auto', 'paths', 'jsonl', 'arrow', 'tar'] as const;
export type InputFormat = (typeof INPUT_FORMATS)[number];

/** An image, and what its row carries along. */
export interface SourceRecord<Extra> {
  readonly item: SourceItem;
  readonly extra: Extra;
}

/** The data of a record besides its image. */
export type Carried =
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'json';
      /** Line of the record, from 1, if it came in lines. */
      readonly line: number | undefined;
      /** The text of each field besides the image, as the record has it. */
      readonly fields: ReadonlyMap<string, string>;
    }
  | {
      readonly kind: 'arrow';
      /** Columns of one record batch, without the image. */
      readonly columns: readonly Data[];
      readonly row: number;
    };

/** For records that carry no other data. */
export const NOTHING: Carried = { kind: 'nothing' };

/** An open stream of images. */
export interface RecordInput {
  readonly format: Exclude<InputFormat, 'auto' | 'tar'>;
  /** Name of the stream in messages. */
  readonly name: string;
  /** The columns that Arrow rows carry. */
  readonly schema?: StreamSchema;
  /** The records, in order. Leaving the loop closes the stream. */
  readonly records: AsyncIterable<SourceRecord<Carried>>;
}
