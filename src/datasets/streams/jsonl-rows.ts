/** Rows as JSON lines: `{"path":…,"status":"ok","<key>":[…],<carried fields>}`. */
import { nameOfType, type Arrow, type Data, type DataType, type Field } from '../../tensor/arrow/library.js';
import type { EmbeddedRecords } from './embed-records.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import { nestedToJson } from '../../tensor/json-elements.js';
import type { Carried, RecordInput } from '../sources/records/source-record.js';
import { invalidSource } from '../sources/items/source-errors.js';
import { checkCarried, type RowEncoder } from './row-output.js';
import { doubleToJson, floatToJson } from '../../base/shortest-float.js';

/** A chunk ends after the line that reaches this number of characters. */
const PIECE_LENGTH = 2 ** 20;

export class JsonlRows implements RowEncoder {
  readonly #source: string;
  readonly #columns: readonly FeatureColumn[];
  readonly #fields: readonly Field[];
  readonly #writers: readonly ((column: Data, row: number) => string)[];

  /**
   * @param arrow - Needed if the rows carry Arrow columns.
   * @throws {@link TapirError} `SOURCE_INVALID` for columns of the same name, or that cannot be written as JSON.
   */
  constructor(
    { name, schema }: Pick<RecordInput, 'name' | 'schema'>,
    columns: readonly FeatureColumn[],
    arrow: Arrow | undefined,
  ) {
    this.#source = name;
    this.#columns = columns;
    this.#fields = schema?.fields ?? [];
    for (const field of this.#fields) checkCarried('jsonl', columns, 'column', field.name, name);
    this.#writers = arrow ? this.#fields.map((field) => arrowToJson(arrow, field, name)) : [];
  }

  begin(): readonly Uint8Array[] {
    return [];
  }

  encode({ items, features, extras }: EmbeddedRecords<Carried>): readonly Uint8Array[] {
    const pieces: Uint8Array[] = [];
    let text = '';
    let row = 0;
    for (const [index, { path, error }] of items.entries()) {
      const status = error ? 'error' : 'ok';
      text += `{"path":${JSON.stringify(path)},"status":"${status}"`;
      if (error) text += `,"error":${JSON.stringify({ code: error.code, message: error.message })}`;
      else {
        for (const { key, dtype, dims, elements } of this.#columns)
          text += `,${JSON.stringify(key)}:${nestedToJson(dtype, features[key]!.data, row * elements, dims)}`;
        row++;
      }
      text += `${this.#carried(extras[index]!)}}\n`;
      if (text.length >= PIECE_LENGTH) {
        pieces.push(Buffer.from(text, 'utf8'));
        text = '';
      }
    }
    if (text !== '') pieces.push(Buffer.from(text, 'utf8'));
    return pieces;
  }

  finish(): readonly Uint8Array[] {
    return [];
  }

  #carried(carried: Carried): string {
    if (carried.kind === 'nothing') return '';
    if (carried.kind === 'arrow')
      return carried.columns
        .map((column, i) => member(this.#fields[i]!.name, this.#writers[i]!(column, carried.row)))
        .join('');
    let text = '';
    for (const [name, value] of carried.fields) {
      checkCarried('jsonl', this.#columns, 'field', name, this.#source, carried.line);
      text += member(name, value);
    }
    return text;
  }
}

function member(name: string, value: string): string {
  return `,${JSON.stringify(name)}:${value}`;
}

/** Writes a value that is not null. */
type WriteValue = (value: unknown) => string;

/**
 * Creates the writer of a column: numbers with all their digits, binary as base64, lists as arrays, structs as objects.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` for a type that has no form in JSON.
 */
export function arrowToJson(
  arrow: Arrow,
  field: Field,
  source: string,
): (column: Data, row: number) => string {
  const write = writerOf(arrow, field.type, (type) =>
    invalidSource(
      source,
      `its column "${field.name}" is of type ${nameOfType(type)}, which has no form in JSON; cast or drop it, or use --format arrow`,
    ),
  );
  return (column, row) => write(new arrow.Vector([column]).get(row));
}

/** Also writes nulls, which may occur at every level of nesting. */
function writerOf(arrow: Arrow, type: DataType, refuse: (type: DataType) => Error): WriteValue {
  const write = plainWriterOf(arrow, type, refuse);
  return (value) => (value === null || value === undefined ? 'null' : write(value));
}

function plainWriterOf(arrow: Arrow, type: DataType, refuse: (type: DataType) => Error): WriteValue {
  const { DataType: Types } = arrow;
  if (Types.isNull(type)) return () => 'null';
  if (Types.isBool(type) || Types.isInt(type)) return String;
  if (Types.isFloat(type)) {
    const write = type.ArrayType === Float64Array ? doubleToJson : floatToJson;
    return (value) => write(value as number);
  }
  if (Types.isUtf8(type) || Types.isLargeUtf8(type)) return (value) => JSON.stringify(value);
  if (Types.isBinary(type) || Types.isLargeBinary(type) || Types.isFixedSizeBinary(type))
    return (value) => JSON.stringify(Buffer.from(value as Uint8Array).toString('base64'));
  if (Types.isList(type) || Types.isFixedSizeList(type)) {
    const item = writerOf(arrow, type.children[0]!.type, refuse);
    return (value) => `[${[...(value as Iterable<unknown>)].map(item).join(',')}]`;
  }
  if (Types.isStruct(type)) {
    const members = type.children.map(
      ({ name, type: inner }) => [name, writerOf(arrow, inner, refuse)] as const,
    );
    return (value) => {
      const values = value as Readonly<Record<string, unknown>>;
      return `{${members.map(([name, write]) => `${JSON.stringify(name)}:${write(values[name])}`).join(',')}}`;
    };
  }
  throw refuse(type);
}
