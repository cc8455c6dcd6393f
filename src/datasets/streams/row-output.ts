/** What the formats of row streams have in common. */
import { invalidOption } from '../../base/checks.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import { invalidSource } from '../sources/items/source-errors.js';
import type { EmbeddedRecords } from './embed-records.js';
import type { Carried } from '../sources/records/source-record.js';

export const ROW_FORMATS = ['jsonl', 'arrow'] as const;
export type RowFormat = (typeof ROW_FORMATS)[number];

/** Turns batches into bytes. The bytes are valid until the next call. */
export interface RowEncoder {
  /** Returns the bytes before all rows. */
  begin(): readonly Uint8Array[];
  /** Encodes rows. Throws `SOURCE_INVALID` if a carried field cannot be written. */
  encode(batch: EmbeddedRecords<Carried>): readonly Uint8Array[];
  /** Returns the bytes after all rows. */
  finish(): readonly Uint8Array[];
}

/** The fields that every row has, besides its features and the carried fields. */
export const ROW_NAMES: Readonly<Record<RowFormat, readonly string[]>> = {
  jsonl: ['path', 'status', 'error'],
  arrow: ['path', 'status', 'error_code', 'error_message'],
};

/** Checks that no output has the name of a field that every row has. Throws `OPTION_INVALID`. */
export function checkKeys(format: RowFormat, columns: readonly FeatureColumn[]): void {
  const taken = columns.find(({ key }) => ROW_NAMES[format].includes(key));
  if (taken)
    throw invalidOption(
      'returnNodes',
      `made of other keys than ${ROW_NAMES[format].join(', ')}, which every row has (--return NAME=KEY)`,
      taken.key,
    );
}

/** Checks that nothing else in the row has the name of a carried column or field. Throws `SOURCE_INVALID`. */
export function checkCarried(
  format: RowFormat,
  columns: readonly FeatureColumn[],
  what: 'column' | 'field',
  name: string,
  source: string,
  line?: number,
): void {
  const refuse = (reason: string): Error =>
    invalidSource(source, `its ${what} "${name}" has the name of ${reason}`, { line });
  if (columns.some(({ key }) => key === name))
    throw refuse(`the output "${name}"; rename one of them (--return NAME=KEY)`);
  if (ROW_NAMES[format].includes(name)) throw refuse(`a ${what} that every row has; rename it`);
}
