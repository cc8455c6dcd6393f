/** Rows as JSON lines: `{"path":…,"status":"ok","<key>":[…],<carried fields>}`. */
import type { Arrow, Data, Field } from '../formats/library.js';
import { arrowToJson } from '../sources/records/arrow-json.js';
import type { EmbeddedRecords } from './embed-records.js';
import { rowsOfInputs } from '../../photos/feeds/tried-input.js';
import { partValues } from '../formats/part-columns.js';
import { nestedToJson } from '../../onnx/tensor/json-elements.js';
import type { Carried, RecordInput } from '../sources/records/source-record.js';
import { checkCarried, type RowEncoder, type RowShape } from './row-output.js';

/** A chunk ends after the line that reaches this number of characters. */
const PIECE_LENGTH = 2 ** 20;

export class JsonlRows implements RowEncoder {
  readonly #source: string;
  readonly #shape: RowShape;
  readonly #fields: readonly Field[];
  readonly #writers: readonly ((column: Data, row: number) => string)[];

  /**
   * @param arrow - Needed if the rows carry Arrow columns.
   * @throws {@link TapirError} `SOURCE_INVALID` for columns of the same name, or that cannot be written as JSON.
   */
  constructor(
    { name, schema }: Pick<RecordInput, 'name' | 'schema'>,
    shape: RowShape,
    arrow: Arrow | undefined,
  ) {
    this.#source = name;
    this.#shape = shape;
    this.#fields = schema?.fields ?? [];
    for (const field of this.#fields) checkCarried(shape, 'column', field.name, name);
    this.#writers = arrow ? this.#fields.map((field) => arrowToJson(arrow, field, name)) : [];
  }

  begin(): readonly Uint8Array[] {
    return [];
  }

  encode({ items, features, extras }: EmbeddedRecords<Carried>): readonly Uint8Array[] {
    const pieces: Uint8Array[] = [];
    const { columns, parts } = this.#shape;
    let text = '';
    let index = 0;
    for (const { item, row, part } of rowsOfInputs(items)) {
      const { path, error } = item;
      const status = error ? 'error' : 'ok';
      text += `{"path":${JSON.stringify(path)},"status":"${status}"`;
      if (error) text += `,"error":${JSON.stringify({ code: error.code, message: error.message })}`;
      else {
        const values = partValues(part);
        for (const [name] of parts) text += member(name, String(values[name]));
        for (const { key, dtype, dims, elements } of columns)
          text += member(key, nestedToJson(dtype, features[key]!.data, row! * elements, dims));
      }
      text += `${this.#carried(extras[index++]!)}}\n`;
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
      checkCarried(this.#shape, 'field', name, this.#source, carried.line);
      text += member(name, value);
    }
    return text;
  }
}

function member(name: string, value: string): string {
  return `,${JSON.stringify(name)}:${value}`;
}
