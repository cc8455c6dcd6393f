/** The metadata of a dataset: a Parquet row per input. */
import type { ImageError, LoadedItem } from '../loader.js';

/** What became of the inputs of a shard, column by column: as rows they would take ten times the memory. */
export class MetadataTable {
  readonly #paths: (string | null)[] = [];
  /** Rows in the features, over all shards; null for an error. */
  readonly #rows: (number | null)[] = [];
  readonly #widths: (number | null)[] = [];
  readonly #heights: (number | null)[] = [];
  /** By position. */
  readonly #errors = new Map<number, Pick<ImageError, 'code' | 'details'>>();

  get length(): number {
    return this.#paths.length;
  }

  /** @param row - Its row in the features; null for an error. */
  add({ path, width, height, error }: LoadedItem, row: number | null): void {
    // Its stack is not kept.
    if (error) this.#errors.set(this.length, { code: error.code, details: error.details });
    this.#paths.push(path);
    this.#rows.push(row);
    this.#widths.push(width);
    this.#heights.push(height);
  }

  /** The bytes of a Parquet file; columns `path, status, row, error_code, error_message, width, height`. */
  async encode(): Promise<Uint8Array> {
    const { parquetWriteBuffer } = await import('hyparquet-writer');
    const perItem = <Value>(of: (position: number) => Value): Value[] =>
      Array.from({ length: this.length }, (_, position) => of(position));
    const errorAt = (position: number): Pick<ImageError, 'code' | 'details'> | undefined =>
      this.#errors.get(position);
    const buffer = parquetWriteBuffer({
      columnData: [
        { name: 'path', type: 'STRING', data: this.#paths },
        { name: 'status', type: 'STRING', data: perItem((at) => (errorAt(at) ? 'error' : 'ok')) },
        {
          name: 'row',
          type: 'INT64',
          data: this.#rows.map((row) => (row === null ? null : BigInt(row))),
        },
        { name: 'error_code', type: 'STRING', data: perItem((at) => errorAt(at)?.code ?? null) },
        {
          name: 'error_message',
          type: 'STRING',
          data: perItem((at) => errorAt(at)?.details.reason ?? null),
        },
        { name: 'width', type: 'INT32', data: this.#widths },
        { name: 'height', type: 'INT32', data: this.#heights },
      ],
    });
    return new Uint8Array(buffer);
  }
}
