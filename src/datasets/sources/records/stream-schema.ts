/** The schema of an Arrow stream: a checked message → apache-arrow's types. */
import type { FlatTable } from '../../formats/flatbuffers.js';
import type { Arrow, DataType, Field } from '../../formats/library.js';

/** Ids of fields, from Arrow's Schema.fbs. */
const SCHEMA = { endianness: 0, fields: 1, metadata: 2 } as const;
const FIELD = {
  name: 0,
  isNullable: 1,
  typeId: 2,
  type: 3,
  dictionary: 4,
  children: 5,
  metadata: 6,
} as const;
const PAIR = { key: 0, value: 1 } as const;
const DATE_MILLISECOND = 1;
const UNIT_MILLISECOND = 1;

/** The deepest nesting of a column. */
const MAX_DEPTH = 32;
/** The fewest bytes of a field, and of a pair of metadata. */
const FIELD_BYTES = 24;
const PAIR_BYTES = 16;

/** A checked schema. */
export interface StreamSchema {
  readonly fields: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}

/**
 * Reads a schema.
 *
 * @param metadataBytes - Size of the message, which limits what it can hold.
 * @throws RangeError if the schema is damaged, or has a column of an unsupported type.
 */
export function readSchema(arrow: Arrow, header: FlatTable, metadataBytes: number): StreamSchema {
  if (header.int16(SCHEMA.endianness) !== 0) throw new RangeError('its numbers are big-endian');
  const reader = new SchemaReader(arrow, metadataBytes);
  return {
    fields: header.tables(SCHEMA.fields).map((field) => reader.field(field, 0)),
    metadata: reader.pairs(header.tables(SCHEMA.metadata)),
  };
}

class SchemaReader {
  readonly #arrow: Arrow;
  /** Tables can be shared, so that few bytes mean millions of fields. No writer does that, and this budget prevents it. */
  #bytesLeft: number;

  constructor(arrow: Arrow, metadataBytes: number) {
    this.#arrow = arrow;
    this.#bytesLeft = metadataBytes;
  }

  field(table: FlatTable, depth: number): Field {
    this.#spend(FIELD_BYTES);
    if (depth > MAX_DEPTH) throw new RangeError('a column is nested too deeply');
    const name = this.#text(table, FIELD.name);
    if (table.has(FIELD.dictionary))
      throw new RangeError(`column "${name}" is dictionary-encoded; cast it to its values’ type`);
    const children = table.tables(FIELD.children).map((child) => this.field(child, depth + 1));
    const isNullable = table.uint8(FIELD.isNullable) !== 0;
    const type = this.#type(name, table, children);
    return new this.#arrow.Field(name, type, isNullable, this.pairs(table.tables(FIELD.metadata)));
  }

  pairs(tables: readonly FlatTable[]): Map<string, string> {
    return new Map(
      tables.map((pair) => {
        this.#spend(PAIR_BYTES);
        return [this.#text(pair, PAIR.key), this.#text(pair, PAIR.value)];
      }),
    );
  }

  #text(table: FlatTable, id: number): string {
    const text = table.text(id);
    this.#spend(Buffer.byteLength(text));
    return text;
  }

  #spend(bytes: number): void {
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft < 0) throw new RangeError('its parts take more bytes than it has');
  }

  #type(name: string, table: FlatTable, children: readonly Field[]): DataType {
    const refusal = (what: string): RangeError => new RangeError(`column "${name}" ${what}`);
    const [kind, build] = KINDS[table.uint8(FIELD.typeId)] ?? ['none'];
    const advice = 'which is not supported; cast or drop it';
    // apache-arrow miscounts the nulls in a slice of such a column.
    const isNestedNull = children.some((child) => this.#arrow.DataType.isNull(child.type));
    if (isNestedNull) throw refusal(`holds values of type null, ${advice}`);
    if (!build) throw refusal(`is of type ${kind}, ${advice}`);
    const type = table.table(FIELD.type);
    if (!type) throw refusal('has no type');
    const built = build(this.#arrow, type, children);
    if (!built) throw refusal(`is of an unknown kind of ${kind}`);
    return built;
  }
}

/** Makes a type from its table; undefined for a kind that Arrow does not have. */
type BuildType = (arrow: Arrow, table: FlatTable, children: readonly Field[]) => DataType | undefined;

const INTS = ['Int8', 'Int16', 'Int32', 'Int64', 'Uint8', 'Uint16', 'Uint32', 'Uint64'] as const;

/** Types by their names, in the order of their numbers. Those without a function are refused. */
const TYPES: Readonly<Record<string, BuildType | undefined>> = {
  none: undefined,
  null: (arrow) => new arrow.Null(),
  int: (arrow, table) => {
    const wanted = `${table.uint8(1) !== 0 ? 'Int' : 'Uint'}${table.int32(0)}`;
    const name = INTS.find((one) => one === wanted);
    return name ? new arrow[name]() : undefined;
  },
  'floating point': (arrow, table) => {
    const name = (['Float16', 'Float32', 'Float64'] as const)[table.int16(0)];
    return name ? new arrow[name]() : undefined;
  },
  binary: (arrow) => new arrow.Binary(),
  utf8: (arrow) => new arrow.Utf8(),
  bool: (arrow) => new arrow.Bool(),
  decimal: (arrow, table) => {
    const bits = table.int32(2, 128);
    // apache-arrow takes the scale before the precision.
    return bits === 128 || bits === 256 ? new arrow.Decimal(table.int32(1), table.int32(0), bits) : undefined;
  },
  date: (arrow, table) => {
    const unit = table.int16(0, DATE_MILLISECOND);
    return unit === 0 || unit === 1 ? new arrow.Date_(unit) : undefined;
  },
  time: (arrow, table) => {
    const [unit, bits] = [table.int16(0, UNIT_MILLISECOND), table.int32(1, 32)];
    const isKnown = (unit >= 0 && unit <= 1 && bits === 32) || (unit >= 2 && unit <= 3 && bits === 64);
    return isKnown ? new arrow.Time(unit, bits as 32 | 64) : undefined;
  },
  timestamp: (arrow, table) => {
    const unit = table.int16(0);
    const timezone = table.has(1) ? table.text(1) : null;
    return unit >= 0 && unit <= 3 ? new arrow.Timestamp(unit, timezone) : undefined;
  },
  interval: (arrow, table) => {
    const unit = table.int16(0);
    return unit >= 0 && unit <= 2 ? new arrow.Interval(unit) : undefined;
  },
  list: (arrow, _table, [child, ...others]) =>
    child && others.length === 0 ? new arrow.List(child) : undefined,
  struct: (arrow, _table, children) => new arrow.Struct([...children]),
  union: undefined,
  'fixed-size binary': (arrow, table) => {
    const width = table.int32(0);
    return width >= 0 ? new arrow.FixedSizeBinary(width) : undefined;
  },
  'fixed-size list': (arrow, table, [child, ...others]) => {
    const size = table.int32(0);
    return child && others.length === 0 && size >= 0 ? new arrow.FixedSizeList(size, child) : undefined;
  },
  map: (arrow, table, [entries, ...others]) => {
    const isPairs = entries !== undefined && entries.type.children?.length === 2 && others.length === 0;
    return isPairs ? new arrow.Map_(entries as never, table.uint8(0) !== 0) : undefined;
  },
  duration: (arrow, table) => {
    const unit = table.int16(0, UNIT_MILLISECOND);
    return unit >= 0 && unit <= 3 ? new arrow.Duration(unit) : undefined;
  },
  'large binary': (arrow) => new arrow.LargeBinary(),
  'large utf8': (arrow) => new arrow.LargeUtf8(),
  'large list': undefined,
  'run-end encoded': undefined,
  'binary view': undefined,
  'utf8 view': undefined,
  'list view': undefined,
  'large list view': undefined,
};

const KINDS = Object.entries(TYPES);
