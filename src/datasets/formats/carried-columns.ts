/** What a list says about its photos beside their paths: values as texts of JSON, and the columns of the metadata that hold them. */
import type { ItemColumns } from '../../photos/feeds/items/source-item.js';
import type { ParquetColumn, ParquetType } from './parquet-reading.js';

/** The type of a column: booleans, 64-bit integers, doubles or texts if all its values are, else JSON. */
export type ColumnKind = 'bool' | 'int64' | 'float64' | 'text' | 'json';

/** The kind of each column, in the order of columns; undefined for one without a value so far. */
export type ColumnKinds = ReadonlyMap<string, ColumnKind | undefined>;

const INTEGER = /^-?\d+$/;

/** Whether a text of JSON, other than `null`, is a value of a kind. From the narrowest kind to the widest. */
export const FITS: Readonly<Record<ColumnKind, (text: string) => boolean>> = {
  bool: (text) => text === 'true' || text === 'false',
  int64: (text) => INTEGER.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text),
  float64: (text) => /^[-\d]/.test(text),
  text: (text) => text.startsWith('"'),
  json: () => true,
};
const KINDS = Object.keys(FITS) as ColumnKind[];

/** Returns the narrowest kind of a value; undefined for `null`. */
function kindOf(text: string): ColumnKind | undefined {
  return text === 'null' ? undefined : KINDS.find((kind) => FITS[kind](text));
}

/** Returns the narrowest kind that holds the values of both. */
function widen(a: ColumnKind | undefined, b: ColumnKind | undefined): ColumnKind | undefined {
  if (a === undefined || b === undefined || a === b) return a ?? b;
  const areNumbers = [a, b].every((kind) => kind === 'int64' || kind === 'float64');
  return areNumbers ? 'float64' : 'json';
}

/** Returns the narrowest kind that holds all of some values. */
export function widest(texts: readonly string[]): ColumnKind | undefined {
  return texts.map(kindOf).reduce(widen, undefined);
}

/** Joins the columns of several files. */
export function joinKinds(all: Iterable<ColumnKinds>): ColumnKinds {
  const joined = new Map<string, ColumnKind | undefined>();
  for (const kinds of all) for (const [name, kind] of kinds) joined.set(name, widen(joined.get(name), kind));
  return joined;
}

/** Whether two files have the same columns in the same order. */
export function areSameKinds(a: ColumnKinds, b: ColumnKinds): boolean {
  return JSON.stringify([...a]) === JSON.stringify([...b]);
}

/** The Parquet type of a kind, and its values from texts of JSON. */
const STORED: Readonly<
  Record<
    ColumnKind,
    {
      readonly type: EncodedColumn['type'];
      readonly parse: (text: string) => unknown;
    }
  >
> = {
  bool: { type: 'BOOLEAN', parse: JSON.parse },
  int64: { type: 'INT64', parse: BigInt },
  float64: { type: 'DOUBLE', parse: Number },
  text: { type: 'STRING', parse: JSON.parse },
  json: { type: 'JSON', parse: JSON.parse },
};

/** A column for the writer of Parquet files. */
export interface EncodedColumn {
  readonly name: string;
  readonly type: 'BOOLEAN' | 'INT64' | 'DOUBLE' | 'STRING' | 'JSON';
  readonly data: unknown[];
}

/** Makes the column of values, which are texts of JSON. */
export function encodeCarried(name: string, kind: ColumnKind, texts: readonly string[]): EncodedColumn {
  const { type, parse } = STORED[kind];
  return { name, type, data: texts.map((text) => (text === 'null' ? null : parse(text))) };
}

const READ_AS: Readonly<Record<Exclude<ParquetType, 'other'>, ColumnKind>> = {
  bool: 'bool',
  integer: 'int64',
  float: 'float64',
  text: 'text',
  time: 'text',
  json: 'json',
};

/** Returns the columns of a Parquet file that are carried: not lists, structs and bytes. */
export function carriedIn(columns: readonly ParquetColumn[], except: ReadonlySet<string>): ParquetColumn[] {
  return columns.filter(({ name, type }) => type !== 'other' && !except.has(name));
}

/** Returns the kinds of columns of a Parquet file. */
export function kindsOf(columns: readonly ParquetColumn[]): ColumnKinds {
  return new Map(
    columns.map(({ name, type, isEmpty }) => [name, isEmpty || type === 'other' ? undefined : READ_AS[type]]),
  );
}

/** Returns a value of a Parquet file as a text of JSON. What JSON has no form for is null: NaN, infinities, dates out of range. */
export function toJson(value: unknown, type: ParquetType): string {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Date && Number.isNaN(value.getTime())) return 'null';
  if (typeof value !== 'number') return JSON.stringify(value ?? null, bigIntsToNumbers);
  if (!Number.isFinite(value)) return 'null';
  const text = JSON.stringify(value);
  // A double stays one, whatever the other values are.
  return type === 'float' && INTEGER.test(text) ? `${text}.0` : text;
}

function bigIntsToNumbers(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? Number(value) : value;
}

/** Returns carried columns as values of JavaScript: integers beyond 2^53 as bigint. */
export function valuesOf(columns: ItemColumns): Readonly<Record<string, unknown>> {
  return Object.fromEntries([...columns].map(([name, text]) => [name, toValue(text)]));
}

function toValue(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return INTEGER.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}
