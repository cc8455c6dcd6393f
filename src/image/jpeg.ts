/**
 * Baseline JPEG → RGB on WebAssembly SIMD (`wasm/jpeg.ts`), the pixels of libjpeg-turbo bit for bit. Photos of a few hundred pixels a
 * side decode in less CPU time than sharp's call takes (docs/decisions/011-jpeg.md).
 *
 * What is not plain, and what is not sound, is left to sharp, which also words the errors.
 */
import { readJpegHeader, type JpegHeader } from './jpeg-header.js';
import {
  COMPONENTS_AT,
  COMPONENT_BYTES,
  layOutJpeg,
  QUANTS_AT,
  QUANT_BYTES,
  ZIGZAG_AT,
  type JpegLayout,
  type JpegPlane,
} from './jpeg-layout.js';
import { putHuffman, putQuant, putZigzag } from './jpeg-tables.js';
import type { RgbImage } from './rgb-image.js';
import { sharedSimdModule, type SimdModule } from './simd-module.js';

/** What to leave to another decoder besides. */
export interface JpegOptions {
  readonly limitPixels: number;
  /** Leave images that EXIF asks to turn. */
  readonly isUpright: boolean;
}

/**
 * Decodes a JPEG.
 *
 * @param bytes - The whole file; read only.
 * @param simd - The module to use; null leaves everything.
 * @returns Undefined for a file that is to be left to another decoder: damaged, of another kind, or larger than allowed.
 */
export function decodeJpeg(
  bytes: Uint8Array,
  options: JpegOptions,
  simd: () => SimdModule | null = sharedSimdModule,
): RgbImage | undefined {
  const header = readJpegHeader(bytes);
  if (!header || header.height * header.width > options.limitPixels) return undefined;
  if (options.isUpright && !header.isUpright) return undefined;
  const module = simd();
  const layout = layOutJpeg(header, bytes.length - header.scanAt);
  const memory = module?.reserve(layout.bytes);
  if (!module || !memory) return undefined;
  try {
    return new Scan({ calls: module.calls, memory, file: bytes, header, layout }).decode();
  } catch (error) {
    // A trap of WebAssembly (which neither Node's types nor ECMAScript's know), or no memory for the pixels.
    if (error instanceof Error && /^(Runtime|Range)Error$/.test(error.name)) return undefined;
    throw error;
  }
}

/** What stays the same while an image is decoded. */
interface Given {
  readonly calls: SimdModule['calls'];
  /** The module's memory. */
  readonly memory: Uint8Array;
  readonly file: Uint8Array;
  readonly header: JpegHeader;
  readonly layout: JpegLayout;
}

const NEEDS_INPUT = 1;
const BAD = -1;

/** One image on its way through the module. */
class Scan {
  readonly #given: Given;
  /** The file's next byte that is not in memory yet. */
  #next: number;
  /** End of the bytes that are. */
  #inputEnd: number;

  constructor(given: Given) {
    this.#given = given;
    this.#next = given.header.scanAt;
    this.#inputEnd = given.layout.input;
  }

  decode(): RgbImage | undefined {
    const { calls, header, layout } = this.#given;
    const { height, width, components, restartInterval } = header;
    if (!this.#putTables()) return undefined;
    calls.setScanInput(layout.input, layout.input);
    calls.startScan(components.length, layout.mcusPerRow, restartInterval);
    this.#feed();
    const data = new Uint8Array(height * width * 3);
    for (let row = 0; row < layout.mcuRows; row++) {
      if (!this.#decodeRow()) return undefined;
      this.#writeRows(row, data);
    }
    this.#feed();
    return calls.endsWell() ? { height, width, data } : undefined;
  }

  #putTables(): boolean {
    const { memory, header, layout } = this.#given;
    putZigzag(memory, ZIGZAG_AT);
    for (const [index, { across, down }] of header.components.entries()) {
      const [dc, ac] = layout.tables[index]!;
      const { at, pitch } = layout.planes[index]!;
      putQuant(memory, QUANTS_AT + index * QUANT_BYTES, header.quants[index]!);
      const specs = header.tables[index]!;
      if (!putHuffman(memory, dc, specs.dc, true) || !putHuffman(memory, ac, specs.ac, false)) return false;
      const fields = new Int32Array(
        memory.buffer,
        COMPONENTS_AT + index * COMPONENT_BYTES,
        COMPONENT_BYTES / 4,
      );
      fields.set([dc, ac, at, pitch, across, down, 0, 0]);
    }
    return true;
  }

  /** Moves what was not taken yet to the beginning, and fills up behind it. */
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

  #decodeRow(): boolean {
    const { calls, file } = this.#given;
    for (;;) {
      const result = calls.decodeMcuRow(this.#next === file.length);
      if (result === BAD) return false;
      if (result !== NEEDS_INPUT) return true;
      this.#feed();
    }
  }

  /** Gives out the rows of RGB that a row of MCUs completes. */
  #writeRows(mcuRow: number, data: Uint8Array): void {
    const { calls, memory, header, layout } = this.#given;
    const { height, width, components } = header;
    const { planes, lines, strip } = layout;
    const [luma, blue, red] = planes as [JpegPlane, JpegPlane?, JpegPlane?];
    const isFirst = mcuRow === 0;
    const isLast = mcuRow === layout.mcuRows - 1;
    const above = mcuRow * luma.rows;
    // Where rows of chroma are interpolated, the last one of these waits for the next row of MCUs.
    const first = isFirst ? 0 : -luma.keptRows;
    const last = isLast ? height - 1 - above : luma.rows - 1 - luma.keptRows;
    const chromaRows = Math.ceil(height / components[0]!.down) - mcuRow * (blue?.rows ?? 0);
    calls.upsample(
      kindOf(header),
      luma.at,
      luma.pitch,
      blue?.at ?? 0,
      red?.at ?? 0,
      blue?.pitch ?? 0,
      lines,
      Math.ceil(width / components[0]!.across),
      isFirst ? 0 : -(blue?.keptRows ?? 0),
      Math.min(chromaRows, blue?.rows ?? 0) - 1,
      first,
      last,
      width,
      strip,
    );
    const bytes = (last - first + 1) * width * 3;
    data.set(memory.subarray(strip, strip + bytes), (above + first) * width * 3);
    for (const { at, pitch, rows, keptRows } of planes) {
      memory.copyWithin(at - keptRows * pitch, at + (rows - keptRows) * pitch, at + rows * pitch);
    }
  }
}

/** The `kind` of `wasm/jpeg-colour.ts`. */
function kindOf({ components }: JpegHeader): number {
  const [luma] = components;
  if (components.length === 1) return 0;
  return luma!.across === 1 ? 1 : luma!.down === 1 ? 2 : 3;
}
