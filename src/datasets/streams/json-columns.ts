/** Fields of JSON records → Arrow columns. The first rows decide the types. */
import { textData, validity, type Arrow, type Data, type Field } from '../formats/library.js';
import { FITS, widest, type ColumnKind } from '../formats/carried-columns.js';
import type { Carried } from '../sources/records/source-record.js';
import { invalidSource } from '../sources/items/source-errors.js';

interface Column {
  readonly field: Field;
  readonly kind: ColumnKind;
}

/** Metadata that marks a column of texts as JSON. */
const JSON_TYPE = new Map([
  ['ARROW:extension:name', 'arrow.json'],
  ['ARROW:extension:metadata', ''],
]);

/**
 * The columns of the fields that JSON records carry. A column holds booleans, 64-bit integers, doubles or texts if all of the first
 * rows do, else JSON (texts with the extension type arrow.json).
 */
export class JsonColumns {
  readonly #arrow: Arrow;
  readonly #source: string;
  readonly #columns = new Map<string, Column>();

  constructor(arrow: Arrow, first: readonly Carried[], source: string) {
    this.#arrow = arrow;
    this.#source = source;
    const texts = new Map<string, string[]>();
    for (const carried of first)
      for (const [name, text] of fieldsOf(carried)) {
        const values = texts.get(name);
        if (values) values.push(text);
        else texts.set(name, [text]);
      }
    for (const [name, values] of texts) this.#columns.set(name, this.#column(name, values));
  }

  get fields(): readonly Field[] {
    return [...this.#columns.values()].map(({ field }) => field);
  }

  /**
   * Builds the columns of some rows.
   *
   * @throws {@link TapirError} `SOURCE_INVALID`, naming line and field, for a value of another type, or a field that none of the first
   * rows had.
   */
  data(rows: readonly Carried[]): readonly Data[] {
    for (const row of rows)
      for (const name of fieldsOf(row).keys())
        if (!this.#columns.has(name)) throw this.#misfit(row, name, 'is missing in the first batch');
    return [...this.#columns].map(([name, { kind }]) => this.#build(kind, name, rows));
  }

  #column(name: string, values: readonly string[]): Column {
    const { Field: ArrowField, Bool, Int64, Float64, Utf8 } = this.#arrow;
    const types = { bool: new Bool(), int64: new Int64(), float64: new Float64() };
    const kind = widest(values) ?? 'json';
    const type = kind === 'text' || kind === 'json' ? new Utf8() : types[kind];
    return { kind, field: new ArrowField(name, type, true, kind === 'json' ? JSON_TYPE : new Map()) };
  }

  #build(kind: ColumnKind, name: string, rows: readonly Carried[]): Data {
    const { makeData, Bool, Int64, Float64 } = this.#arrow;
    const texts = rows.map((row) => {
      const text = fieldsOf(row).get(name);
      if (text === undefined || (text === 'null' && kind !== 'json')) return null;
      if (!FITS[kind](text))
        throw this.#misfit(row, name, `has a value that is not ${kind}, unlike in the first batch`);
      return text;
    });
    if (kind === 'json') return textData(this.#arrow, texts);
    if (kind === 'text')
      return textData(
        this.#arrow,
        texts.map((text) => (text === null ? null : (JSON.parse(text) as string))),
      );
    const length = texts.length;
    const nulls = validity(Uint8Array.from(texts, (text) => (text === null ? 0 : 1)));
    if (kind === 'int64') {
      const data = BigInt64Array.from(texts, (text) => BigInt(text ?? 0));
      return makeData({ type: new Int64(), length, ...nulls, data });
    }
    if (kind === 'float64')
      return makeData({ type: new Float64(), length, ...nulls, data: Float64Array.from(texts, Number) });
    const bits = validity(Uint8Array.from(texts, (text) => (text === 'true' ? 1 : 0))).nullBitmap;
    return makeData({ type: new Bool(), length, ...nulls, data: bits });
  }

  #misfit(row: Carried, name: string, what: string): Error {
    const line = row.kind === 'json' ? row.line : undefined;
    const reason = `its field "${name}" ${what}: an Arrow column has one type (use --format jsonl for mixed types)`;
    return invalidSource(this.#source, reason, { line });
  }
}

function fieldsOf(carried: Carried): ReadonlyMap<string, string> {
  return carried.kind === 'json' ? carried.fields : new Map();
}
