/** Rows that go out as a stream of bytes, whatever the format. */
import { invalidOption } from '../../base/checks.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import type { EmbeddedRecords } from './embed-records.js';
import { invalidSource } from '../../sources/items/source-errors.js';
import type { Carried } from '../../sources/records/source-record.js';

/** Formats that rows can be written to a stream in. */
export const ROW_FORMATS = ['jsonl', 'arrow'] as const;
export type RowFormat = (typeof ROW_FORMATS)[number];

/** What turns batches into bytes; those that it gives are valid until the next call. */
export interface RowEncoder {
  /** What comes before all rows. */
  begin(): readonly Uint8Array[];
  /** Rows. Throws `SOURCE_INVALID` if what an input carries cannot be written. */
  encode(batch: EmbeddedRecords<Carried>): readonly Uint8Array[];
  /** What comes behind all rows. */
  finish(): readonly Uint8Array[];
}

/** The columns or fields of every row besides its features and what it carries. */
export const ROW_NAMES: Readonly<Record<RowFormat, readonly string[]>> = {
  jsonl: ['path', 'status', 'error'],
  arrow: ['path', 'status', 'error_code', 'error_message'],
};

/** Outputs that have the name of something else in the row. Throws `OPTION_INVALID`. */
export function checkKeys(format: RowFormat, columns: readonly FeatureColumn[]): void {
  const taken = columns.find(({ key }) => ROW_NAMES[format].includes(key));
  if (taken)
    throw invalidOption(
      'returnNodes',
      `made of other keys than ${ROW_NAMES[format].join(', ')}, which every row has (--return NAME=KEY)`,
      taken.key,
    );
}

/**
 * Says what a carried name collides with; undefined if with nothing.
 *
 * @param what - `column`, or `field`.
 */
export function collisionOf(
  format: RowFormat,
  columns: readonly FeatureColumn[],
  what: string,
  name: string,
): string | undefined {
  if (columns.some(({ key }) => key === name))
    return `its ${what} "${name}" has the name of the output "${name}"; rename one of them (--return NAME=KEY)`;
  if (ROW_NAMES[format].includes(name))
    return `its ${what} "${name}" has the name of the rows’ own ${what} "${name}"; rename it`;
  return undefined;
}

/** The error of a carried field or column that cannot be written. */
export function cannotCarry(source: string, reason: string, line?: number): Error {
  return invalidSource(source, reason, line === undefined ? {} : { line });
}
