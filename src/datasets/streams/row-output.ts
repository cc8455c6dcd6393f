/** What the formats of row streams have in common. */
import { invalidOption } from '../../base/checks.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { invalidSource } from '../sources/items/source-errors.js';
import type { EmbeddedRecords } from './embed-records.js';
import { partColumns, type PartColumn, type PartKind } from '../formats/part-columns.js';
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

/** What rows have besides the fields that they carry. */
export interface RowShape {
  /** The fields that every row has, besides its features. */
  readonly names: readonly string[];
  /** The columns of what a row covers of its photo, the last of these fields. */
  readonly parts: readonly PartColumn[];
  readonly columns: readonly FeatureColumn[];
}

const NAMES: Readonly<Record<RowFormat, readonly string[]>> = {
  jsonl: ['path', 'status', 'error'],
  arrow: ['path', 'status', 'error_code', 'error_message'],
};

/** @param kind - What rows are parts of; undefined for whole images. */
export function rowShape(
  format: RowFormat,
  kind: PartKind | undefined,
  columns: readonly FeatureColumn[],
): RowShape {
  const parts = partColumns(kind);
  return { names: [...NAMES[format], ...parts.map(([name]) => name)], parts, columns };
}

/** Checks that no output has the name of a field that every row has. Throws `OPTION_INVALID`. */
export function checkKeys({ names, columns }: RowShape): void {
  const taken = columns.find(({ key }) => names.includes(key));
  if (taken)
    throw invalidOption(
      'returnNodes',
      `made of other keys than ${names.join(', ')}, which every row has (NAME=KEY names them)`,
      taken.key,
    );
}

/** Checks that nothing else in the row has the name of a carried column or field. Throws `SOURCE_INVALID`. */
export function checkCarried(
  shape: RowShape,
  what: 'column' | 'field',
  name: string,
  source: string,
  line?: number,
): void {
  const refuse = (reason: string): Error =>
    invalidSource(source, `its ${what} "${name}" has the name of ${reason}`, { line });
  if (shape.columns.some(({ key }) => key === name))
    throw refuse(`the output "${name}"; rename one of them (option "returnNodes", NAME=KEY)`);
  if (shape.names.includes(name)) throw refuse(`a ${what} that every row has; rename it`);
}
