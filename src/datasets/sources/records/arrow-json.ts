/** Values of Arrow columns as texts of JSON. */
import { doubleToJson, floatToJson } from '../../../base/shortest-float.js';
import { nameOfType, type Arrow, type Data, type DataType, type Field } from '../../formats/library.js';
import { invalidSource } from '../items/source-errors.js';

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
