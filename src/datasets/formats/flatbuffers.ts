/** Reads the flatbuffers of Arrow's metadata. The DataView checks every access, and no loop trusts a count, so a damaged file throws a RangeError. */

/** A table of fields by id. Its vtable says where each field lies. */
export class FlatTable {
  readonly #view: DataView;
  readonly #at: number;

  constructor(view: DataView, at: number) {
    this.#view = view;
    this.#at = at;
  }

  /** Reads the root table of a buffer. */
  static root(bytes: Uint8Array): FlatTable {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return new FlatTable(view, view.getUint32(0, true));
  }

  /** Returns where a field lies; undefined if the table does not have it, which means its default value. */
  #field(id: number): number | undefined {
    const vtable = this.#at - this.#view.getInt32(this.#at, true);
    const slot = 4 + 2 * id;
    if (slot >= this.#view.getUint16(vtable, true)) return undefined;
    const offset = this.#view.getUint16(vtable + slot, true);
    return offset === 0 ? undefined : this.#at + offset;
  }

  has(id: number): boolean {
    return this.#field(id) !== undefined;
  }

  uint8(id: number): number {
    const at = this.#field(id);
    return at === undefined ? 0 : this.#view.getUint8(at);
  }

  int16(id: number, fallback = 0): number {
    const at = this.#field(id);
    return at === undefined ? fallback : this.#view.getInt16(at, true);
  }

  int32(id: number, fallback = 0): number {
    const at = this.#field(id);
    return at === undefined ? fallback : this.#view.getInt32(at, true);
  }

  int64(id: number): number {
    const at = this.#field(id);
    return at === undefined ? 0 : Number(this.#view.getBigInt64(at, true));
  }

  table(id: number): FlatTable | undefined {
    const at = this.#field(id);
    return at === undefined ? undefined : new FlatTable(this.#view, at + this.#view.getUint32(at, true));
  }

  text(id: number): string {
    const { start, length } = this.#vector(id, 1);
    return Buffer.from(this.#view.buffer, this.#view.byteOffset + start, length).toString('utf8');
  }

  /** Returns the tables of a vector. */
  tables(id: number): FlatTable[] {
    const { start, length } = this.#vector(id, 4);
    return Array.from({ length }, (_, i) => {
      const at = start + 4 * i;
      return new FlatTable(this.#view, at + this.#view.getUint32(at, true));
    });
  }

  /** Returns the structs of a vector, each as a view of its bytes. */
  structs(id: number, bytes: number): DataView[] {
    const { start, length } = this.#vector(id, bytes);
    const { buffer, byteOffset } = this.#view;
    return Array.from({ length }, (_, i) => new DataView(buffer, byteOffset + start + bytes * i, bytes));
  }

  #vector(id: number, itemBytes: number): { readonly start: number; readonly length: number } {
    const at = this.#field(id);
    if (at === undefined) return { start: 0, length: 0 };
    const head = at + this.#view.getUint32(at, true);
    const length = this.#view.getUint32(head, true);
    if (head + 4 + length * itemBytes > this.#view.byteLength)
      throw new RangeError('a vector leaves its buffer');
    return { start: head + 4, length };
  }
}
