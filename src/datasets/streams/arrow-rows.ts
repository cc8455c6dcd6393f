/** Rows as Arrow's stream format: carried columns, `path`, `status`, `error_code`, `error_message`, and a column per output. */
import { elementBytes } from '../../onnx/tensor/tensor.js';
import {
  createStreamEncoder,
  featureData,
  featureField,
  textData,
  validity,
  type Arrow,
  type Data,
  type Encoder,
  type Field,
  type Schema,
} from '../formats/library.js';
import type { LoadedItem } from '../../photos/feeds/feed-batches.js';
import type { EmbeddedRecords } from './embed-records.js';
import { rowsOfInputs, type InputRow } from '../../photos/feeds/tried-input.js';
import { partValues } from '../formats/part-columns.js';
import { bytesOf } from '../../onnx/tensor/bits.js';
import { JsonColumns } from './json-columns.js';
import { invalidSource } from '../sources/items/source-errors.js';
import { checkCarried, type RowEncoder, type RowShape } from './row-output.js';
import type { Carried, RecordInput } from '../sources/records/source-record.js';

/** Encodes Arrow streams. The schema is known at once, unless the input is JSON lines: then the first rows decide the carried columns. */
export class ArrowRows implements RowEncoder {
  readonly #arrow: Arrow;
  readonly #source: string;
  readonly #shape: RowShape;
  readonly #metadata: ReadonlyMap<string, string>;
  readonly #pieces: Uint8Array[] = [];
  /** The columns that JSON lines carry, once there are rows. */
  #json: JsonColumns | undefined;
  readonly #isJson: boolean;
  #carried: readonly Field[];
  #open: { readonly schema: Schema; readonly encoder: Encoder } | undefined;

  /**
   * @param metadata - Of the schema, beside that of the carried columns.
   * @throws {@link TapirError} `SOURCE_INVALID` for columns of the same name.
   */
  constructor(
    { name, schema, format }: Pick<RecordInput, 'name' | 'schema' | 'format'>,
    shape: RowShape,
    arrow: Arrow,
    metadata: ReadonlyMap<string, string> = new Map(),
  ) {
    this.#arrow = arrow;
    this.#source = name;
    this.#shape = shape;
    this.#isJson = format === 'jsonl';
    this.#carried = schema?.fields ?? [];
    this.#metadata = new Map([...(schema?.metadata ?? []), ...metadata]);
    this.#checkCarried();
  }

  begin(): readonly Uint8Array[] {
    if (!this.#isJson) this.#start();
    return this.#taken();
  }

  encode(batch: EmbeddedRecords<Carried>): readonly Uint8Array[] {
    if (this.#isJson && !this.#json) {
      this.#json = new JsonColumns(this.#arrow, batch.extras, this.#source);
      this.#carried = this.#json.fields;
      this.#checkCarried();
    }
    const { schema, encoder } = this.#start();
    const all = [...rowsOfInputs(batch.items)];
    let firstRow = 0;
    for (const [from, to] of rangesOf(batch.extras)) {
      const rows = all.slice(from, to);
      const present = Uint8Array.from(rows, ({ row }) => (row === null ? 0 : 1));
      const texts = (of: (item: LoadedItem) => string | null): Data =>
        textData(
          this.#arrow,
          rows.map(({ item }) => of(item)),
        );
      const children = [
        ...this.#carriedData(batch.extras.slice(from, to)),
        texts(({ path }) => path),
        texts(({ error }) => (error ? 'error' : 'ok')),
        texts(({ error }) => error?.code ?? null),
        texts(({ error }) => error?.message ?? null),
        ...this.#partData(rows, present),
        ...this.#featureData(batch, present, firstRow),
      ];
      const type = new this.#arrow.Struct(schema.fields);
      const data = this.#arrow.makeData({ type, length: to - from, nullCount: 0, children });
      encoder.write(new this.#arrow.RecordBatch(schema, data));
      firstRow += present.reduce((sum, bit) => sum + bit, 0);
    }
    return this.#taken();
  }

  finish(): readonly Uint8Array[] {
    this.#start().encoder.finish();
    return this.#taken();
  }

  #start(): { readonly schema: Schema; readonly encoder: Encoder } {
    if (this.#open) return this.#open;
    const { Field: ArrowField, Schema: ArrowSchema, Utf8, Int32, Float64 } = this.#arrow;
    const { names, parts, columns } = this.#shape;
    const types = new Map(
      parts.map(([name, type]) => [name, type === 'INT32' ? new Int32() : new Float64()]),
    );
    const own = names.map((name) => new ArrowField(name, types.get(name) ?? new Utf8(), name !== 'status'));
    const features = columns.map((column) => featureField(this.#arrow, column, true));
    const schema = new ArrowSchema([...this.#carried, ...own, ...features], new Map(this.#metadata));
    this.#open = { schema, encoder: createStreamEncoder(this.#arrow, schema, this.#pieces) };
    return this.#open;
  }

  #taken(): readonly Uint8Array[] {
    return this.#pieces.splice(0);
  }

  #checkCarried(): void {
    for (const [index, { name }] of this.#carried.entries()) {
      checkCarried(this.#shape, this.#isJson ? 'field' : 'column', name, this.#source);
      if (this.#carried.findIndex((other) => other.name === name) < index)
        throw invalidSource(this.#source, `it has two columns "${name}"; rename one of them`);
    }
  }

  /** @param extras - From rows of one record batch of the input. */
  #carriedData(extras: readonly Carried[]): readonly Data[] {
    const [first] = extras;
    if (this.#json) return this.#json.data(extras);
    if (first?.kind !== 'arrow') return [];
    const { DataType, makeData } = this.#arrow;
    return first.columns.map((column) =>
      // A slice of a null column loses its null count.
      DataType.isNull(column.type)
        ? makeData({ type: column.type, length: extras.length })
        : column.slice(first.row, extras.length),
    );
  }

  /** What rows cover of their photos: nothing for a photo that failed. */
  #partData(rows: readonly InputRow[], present: Uint8Array): readonly Data[] {
    const { makeData, Int32, Float64 } = this.#arrow;
    const values = rows.map(({ part }) => partValues(part));
    const shared = { length: rows.length, ...validity(present) };
    return this.#shape.parts.map(([name, type]) => {
      const numbers = values.map((of) => of[name] ?? 0);
      return type === 'INT32'
        ? makeData({ ...shared, type: new Int32(), data: Int32Array.from(numbers) })
        : makeData({ ...shared, type: new Float64(), data: Float64Array.from(numbers) });
    });
  }

  #featureData(
    { features }: EmbeddedRecords<Carried>,
    present: Uint8Array,
    firstRow: number,
  ): readonly Data[] {
    const count = present.reduce((sum, bit) => sum + bit, 0);
    const { fields } = this.#open!.schema;
    const { columns } = this.#shape;
    return columns.map((column, i) => {
      const rowBytes = column.elements * elementBytes(column.dtype);
      const tensor = features[column.key];
      const start = firstRow * rowBytes;
      const values = tensor
        ? bytesOf(tensor.data).subarray(start, start + count * rowBytes)
        : new Uint8Array(0);
      const spread = count === present.length ? values : spreadRows(values, present, rowBytes);
      const { type } = fields[fields.length - columns.length + i]!;
      return featureData(this.#arrow, type, column.dtype, present.length, spread, present);
    });
  }
}

/**
 * Ranges of rows that can be written together: what they carry follows each other in one record batch of the input. Rows of one photo carry
 * the same, so each is written by itself.
 */
function* rangesOf(extras: readonly Carried[]): Generator<readonly [from: number, to: number]> {
  let from = 0;
  const follows = (before: Carried, next: Carried): boolean =>
    before.kind !== 'arrow' || next.kind !== 'arrow' || before.columns.length === 0
      ? before.kind === next.kind
      : before.columns === next.columns && before.row + 1 === next.row;
  for (let to = 1; to <= extras.length; to++) {
    if (to < extras.length && follows(extras[to - 1]!, extras[to]!)) continue;
    yield [from, to];
    from = to;
  }
}

/** Spreads the values of successful rows over all rows, with zeros for the others. */
function spreadRows(values: Uint8Array, present: Uint8Array, rowBytes: number): Uint8Array {
  const spread = new Uint8Array(present.length * rowBytes);
  let from = 0;
  for (const [row, bit] of present.entries()) {
    if (bit === 0) continue;
    spread.set(values.subarray(from, from + rowBytes), row * rowBytes);
    from += rowBytes;
  }
  return spread;
}
