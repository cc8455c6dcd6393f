/** Decodes a JPEG row by row in the memory of `wasm/jpeg.ts`. */
import { copyRows, type RgbRows, type Rows } from '../pixels/rgb-image.js';
import type { JpegComponent, JpegHeader } from './jpeg-header.js';
import {
  COMPONENTS_AT,
  COMPONENT_BYTES,
  QUANTS_AT,
  QUANT_BYTES,
  ZIGZAG_AT,
  type JpegLayout,
  type JpegPlane,
} from './jpeg-layout.js';
import { putHuffman, putQuant, putZigzag } from './jpeg-tables.js';
import type { SimdModule } from '../simd/simd-module.js';

/** What stays constant while an image is decoded. */
export interface JpegParts {
  readonly calls: SimdModule['calls'];
  /** The module's memory. */
  readonly memory: Uint8Array;
  readonly file: Uint8Array;
  readonly header: JpegHeader;
  readonly layout: JpegLayout;
}

const NEEDS_INPUT = 1;
const BAD = -1;

/** Thrown when another decoder must read the file. */
export class UnsoundJpeg extends Error {}

/** An image that is being decoded; each row can be read once, from the top. */
export class JpegScan implements RgbRows {
  readonly #given: JpegParts;
  /** Offset in the file of the next byte to copy into memory. */
  #next: number;
  /** Address of the end of the bytes in memory. */
  #inputEnd: number;
  #mcuRow = 0;
  /** The first row of RGB in the strip. */
  #first = 0;
  /** The row after the last one in the strip. */
  #end = 0;

  constructor(given: JpegParts) {
    this.#given = given;
    this.#next = given.header.scanAt;
    this.#inputEnd = given.layout.input;
  }

  get height(): number {
    return this.#given.header.height;
  }

  get width(): number {
    return this.#given.header.width;
  }

  /** Puts tables and input in place. Call it once, before anything else. */
  start(): void {
    const { calls, header, layout } = this.#given;
    this.#putTables();
    calls.setScanInput(layout.input, layout.input);
    calls.startScan(header.components.length, layout.mcusPerRow, header.restartInterval);
    this.#feed();
  }

  copyRows(row: number, column: number, count: number, bytes: number, to: Rows): void {
    const { memory, layout } = this.#given;
    const pitch = this.width * 3;
    let done = 0;
    while (done < count) {
      const next = row + done;
      while (next >= this.#end) this.#decodeRows(next);
      const some = Math.min(count - done, this.#end - next);
      const from = { data: memory, offset: layout.strip + (next - this.#first) * pitch + column * 3, pitch };
      copyRows(from, { ...to, offset: to.offset + done * to.pitch }, some, bytes);
      done += some;
    }
  }

  /** Decodes the remaining rows: only then is it certain that the file is sound. */
  finish(): void {
    const { calls, layout } = this.#given;
    while (this.#mcuRow < layout.mcuRows) this.#decodeRows(Infinity);
    this.#feed();
    if (!calls.endsWell()) throw new UnsoundJpeg();
  }

  #putTables(): void {
    const { memory, header, layout } = this.#given;
    putZigzag(memory, ZIGZAG_AT);
    for (const [index, { across, down }] of header.components.entries()) {
      const [dc, ac] = layout.tables[index]!;
      const { at, pitch } = layout.planes[index]!;
      putQuant(memory, QUANTS_AT + index * QUANT_BYTES, header.quants[index]!);
      const specs = header.tables[index]!;
      if (!putHuffman(memory, dc, specs.dc, true) || !putHuffman(memory, ac, specs.ac, false))
        throw new UnsoundJpeg();
      const fields = new Int32Array(
        memory.buffer,
        COMPONENTS_AT + index * COMPONENT_BYTES,
        COMPONENT_BYTES / 4,
      );
      fields.set([dc, ac, at, pitch, across, down, 0, 0]);
    }
  }

  /** Moves the input that is left to the start of its buffer and fills the rest from the file. */
  #feed(): void {
    const { calls, memory, file, layout } = this.#given;
    const { input, inputBytes } = layout;
    const at = calls.scanPosition();
    const end = this.#inputEnd;
    memory.copyWithin(input, at, end);
    const left = end - at;
    const more = Math.min(inputBytes - left, file.length - this.#next);
    memory.set(file.subarray(this.#next, this.#next + more), input + left);
    this.#next += more;
    this.#inputEnd = input + left + more;
    calls.setScanInput(input, this.#inputEnd);
  }

  /** Decodes a row of MCUs, and converts it to RGB if it reaches the row `asked`. */
  #decodeRows(asked: number): void {
    const { calls, memory, file, header, layout } = this.#given;
    for (;;) {
      const result = calls.decodeMcuRow(this.#next === file.length);
      if (result === BAD) throw new UnsoundJpeg();
      if (result !== NEEDS_INPUT) break;
      this.#feed();
    }
    const [luma] = layout.planes;
    const isLast = this.#mcuRow === layout.mcuRows - 1;
    const above = this.#mcuRow * luma!.rows;
    this.#first = this.#end;
    // If rows of chroma are interpolated, the last row needs the next row of MCUs.
    this.#end = isLast ? header.height : above + luma!.rows - luma!.keptRows;
    if (asked < this.#end) this.#upsample(this.#first - above, this.#end - 1 - above);
    for (const { at, pitch, rows, keptRows } of layout.planes) {
      memory.copyWithin(at - keptRows * pitch, at + (rows - keptRows) * pitch, at + rows * pitch);
    }
    this.#mcuRow++;
  }

  /** Converts rows to RGB; they are counted from the first row of this row of MCUs. */
  #upsample(first: number, last: number): void {
    const { calls, header, layout } = this.#given;
    const { height, width, components } = header;
    const { planes, lines, strip } = layout;
    const [luma, blue, red] = planes as [JpegPlane, JpegPlane?, JpegPlane?];
    const [{ across, down }] = components as [JpegComponent];
    const chromaRows = Math.ceil(height / down) - this.#mcuRow * (blue?.rows ?? 0);
    calls.upsample(
      kindOf(header),
      luma.at,
      luma.pitch,
      blue?.at ?? 0,
      red?.at ?? 0,
      blue?.pitch ?? 0,
      lines,
      Math.ceil(width / across),
      this.#mcuRow === 0 ? 0 : -(blue?.keptRows ?? 0),
      Math.min(chromaRows, blue?.rows ?? 0) - 1,
      first,
      last,
      width,
      strip,
    );
  }
}

/** The `kind` parameter of `upsample` in `wasm/jpeg-colour.ts`. */
function kindOf({ components }: JpegHeader): number {
  const [luma] = components;
  if (components.length === 1) return 0;
  return luma!.across === 1 ? 1 : luma!.down === 1 ? 2 : 3;
}
