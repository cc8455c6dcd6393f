/**
 * Columns that were saved for a dataset after its run, such as a selection on its page: a Parquet table with a row for each image that has
 * a value. Its rows go by path, so that no later run and no merge has to change it.
 */
import type { BasicType } from 'hyparquet-writer';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { nameOfUrl } from '../../base/url-names.js';
import { readParquetRecords, type ParquetColumn } from './parquet-reading.js';
import type { RowPart } from '../../photos/feeds/tried-input.js';
import { encodeCarried, toJson, valuesOf, widest } from './carried-columns.js';
import { PART_NAMES, PART_TYPES, partValues } from './part-columns.js';

/** What a row of a dataset is about: an image, or a part of it. */
export interface RowPlace extends RowPart {
  readonly path: string | null;
}

/** The cells that say what a row is about, as the metadata has them. */
type PlaceCells = Readonly<Record<string, unknown>>;

/** The cells of a row that say what it is about. */
export function placeCells({ path, ...part }: RowPlace): PlaceCells {
  return { path, ...partValues(part) };
}

/** The saved columns of a dataset. Memory holds the images that have a value. */
export class SavedColumns {
  readonly #names = new Set<string>();
  readonly #rows = new Map<string, { readonly cells: PlaceCells; readonly texts: Map<string, string> }>();

  /** The names, in the order in which they were saved. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** Adds what a file holds, over what was there. Throws `DATASET_INVALID`. */
  async read(file: string): Promise<void> {
    let columns: readonly ParquetColumn[] = [];
    const others = (all: readonly ParquetColumn[]): readonly string[] => {
      columns = all.filter(({ name }) => name !== 'path' && !PART_TYPES.has(name));
      const odd = columns.find(({ type }) => type === 'other');
      // To leave it out would lose it when the table is next written.
      if (odd) throw datasetInvalid(file, `its column "${odd.name}" holds no plain values`);
      return columns.map(({ name }) => name);
    };
    try {
      for await (const record of readParquetRecords(file, ['path'], { others, optional: PART_NAMES }))
        for (const { name, type } of columns) this.#set(record, name, toJson(record[name], type));
    } catch (error) {
      throw datasetUnreadable(file, error);
    }
    for (const { name } of columns) this.#names.add(name);
  }

  /** The value of a column for a row; undefined for no value. */
  get(cells: PlaceCells, name: string): unknown {
    const text = this.#rows.get(keyOf(cells))?.texts.get(name);
    return text === undefined ? undefined : valuesOf(new Map([[name, text]]))[name];
  }

  /** The values of all columns for a row; null where it has no value. */
  valuesOf(cells: PlaceCells): Readonly<Record<string, unknown>> {
    const texts = this.#rows.get(keyOf(cells))?.texts;
    return valuesOf(new Map(this.names.map((name) => [name, texts?.get(name) ?? 'null'])));
  }

  set(cells: PlaceCells, name: string, value: string): void {
    this.#names.add(name);
    this.#set(cells, name, JSON.stringify(value));
  }

  #set(cells: PlaceCells, name: string, text: string): void {
    if (text === 'null') return;
    const key = keyOf(cells);
    let row = this.#rows.get(key);
    if (!row) this.#rows.set(key, (row = { cells, texts: new Map() }));
    row.texts.set(name, text);
  }

  delete(name: string): void {
    this.#names.delete(name);
    for (const [key, { texts }] of this.#rows) {
      texts.delete(name);
      if (texts.size === 0) this.#rows.delete(key);
    }
  }

  async encode(): Promise<Uint8Array> {
    const { parquetWriteBuffer } = await import('hyparquet-writer');
    const rows = [...this.#rows.values()];
    const parts = PART_NAMES.filter((name) => rows.some(({ cells }) => (cells[name] ?? null) !== null));
    const places = ['path', ...parts].map((name) => ({
      name,
      type: (PART_TYPES.get(name) ?? 'STRING') as BasicType,
      data: rows.map(({ cells }) => (name === 'path' ? pathOf(cells) : (cells[name] ?? null))),
    }));
    const columns = this.names.map((name) => {
      const texts = rows.map((row) => row.texts.get(name) ?? 'null');
      return encodeCarried(name, widest(texts) ?? 'text', texts);
    });
    return new Uint8Array(parquetWriteBuffer({ columnData: [...places, ...columns] }));
  }
}

function keyOf(cells: PlaceCells): string {
  return JSON.stringify([pathOf(cells), ...PART_NAMES.map((name) => cells[name] ?? null)]);
}

/** The names of older datasets have signatures. */
function pathOf({ path }: PlaceCells): string | null {
  return typeof path === 'string' ? nameOfUrl(path, 'url') : null;
}
