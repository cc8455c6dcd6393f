/**
 * The resampling on WebAssembly SIMD (`wasm/resample.ts`): feeds it strips of the image and keeps its memory small.
 *
 * Rows go through a window: a strip of the image is resampled horizontally to the end of the window, and each output row is
 * computed as soon as its rows are there. So neither the image nor what the first pass makes of it is there as a whole.
 */
import { copyRows } from './copy-rows.js';
import { packedKernelOf, type PackedKernel } from './packed-kernel.js';
import type { ResamplePlan } from './resample-plan.js';
import type { RgbImage } from './rgb-image.js';
import { layOutSimd, type SimdLayout } from './simd-layout.js';
import { startSimdModule, type SimdModule, type WebAssemblyApi } from './simd-module.js';

const PAGE_BYTES = 65_536;
/** WebAssembly memory never shrinks: a thread keeps at most this. What needs more (rows of a million pixels) is left to JavaScript. */
const MAX_PAGES = 256;

/** An instance of the module and its memory. Made by {@link createSimdResampler}. */
export class SimdResampler {
  readonly #module: SimdModule;
  #bytes: Uint8Array;

  /** Use {@link createSimdResampler}. */
  constructor(module: SimdModule) {
    this.#module = module;
    this.#bytes = new Uint8Array(module.memory.buffer);
  }

  /** Bytes that the instance holds. */
  get memoryBytes(): number {
    return this.#bytes.length;
  }

  /**
   * Carries out a plan of one pass or two; bytes of `into` that the plan does not reach stay as they are.
   *
   * @returns False if it takes more memory than an instance may have: nothing is done then.
   */
  run(image: RgbImage, plan: ResamplePlan, into: Uint8Array): boolean {
    const rows = plan.rows && packedKernelOf(plan.rows);
    const columns = plan.columns && packedKernelOf(plan.columns);
    const layout = layOutSimd(image.width, plan, rows, columns);
    if (!this.#reserve(layout.bytes)) return false;
    new Passage(this.#module, this.#bytes, image, plan, rows, columns, layout).run(into);
    return true;
  }

  #reserve(bytes: number): boolean {
    const pages = Math.ceil(bytes / PAGE_BYTES);
    const missing = pages - this.#bytes.length / PAGE_BYTES;
    if (missing <= 0) return true;
    if (pages > MAX_PAGES) return false;
    const { memory } = this.#module;
    try {
      memory.grow(missing);
    } catch (error) {
      if (error instanceof RangeError) return false;
      throw error;
    }
    this.#bytes = new Uint8Array(memory.buffer);
    return true;
  }
}

/** One image on its way through the module. */
class Passage {
  readonly #module: SimdModule;
  readonly #bytes: Uint8Array;
  readonly #image: RgbImage;
  readonly #plan: ResamplePlan;
  readonly #rows: PackedKernel | null;
  readonly #columns: PackedKernel | null;
  readonly #layout: SimdLayout;
  /** The image's row that is the window's first. */
  #windowFrom: number;
  /** The image's next row to be read. */
  #next: number;
  /** Output rows that are done. */
  #done = 0;

  constructor(
    module: SimdModule,
    bytes: Uint8Array,
    image: RgbImage,
    plan: ResamplePlan,
    rows: PackedKernel | null,
    columns: PackedKernel | null,
    layout: SimdLayout,
  ) {
    this.#module = module;
    this.#bytes = bytes;
    this.#image = image;
    this.#plan = plan;
    this.#rows = rows;
    this.#columns = columns;
    this.#layout = layout;
    this.#windowFrom = plan.firstRow;
    this.#next = plan.firstRow;
  }

  run(into: Uint8Array): void {
    this.#putKernels();
    while (this.#next < this.#plan.lastRow) {
      this.#makeRoom();
      this.#readStrip();
      this.#writeRows(into);
    }
  }

  #putKernels(): void {
    const integers = new Int32Array(this.#bytes.buffer);
    const { rows, columns } = this.#plan;
    const { firsts, rowWeights, offsets, columnWeights, stripColumn } = this.#layout;
    if (rows && this.#rows) {
      integers.set(rows.first, firsts / 4);
      integers.set(this.#rows.weights, rowWeights / 4);
    }
    if (columns && this.#columns) {
      columns.first.forEach((first, x) => (integers[offsets / 4 + x] = (first - stripColumn) * 3));
      integers.set(this.#columns.weights, columnWeights / 4);
    }
  }

  /** Moves the rows that are still needed to the window's start, if a strip does not fit behind them. */
  #makeRoom(): void {
    const { window, windowPitch, windowRows, stripRows } = this.#layout;
    if (this.#next - this.#windowFrom + stripRows <= windowRows) return;
    const needed = this.#plan.rows ? this.#plan.rows.first[this.#done]! : this.#next;
    const start = window + (needed - this.#windowFrom) * windowPitch;
    this.#bytes.copyWithin(window, start, start + (this.#next - needed) * windowPitch);
    this.#windowFrom = needed;
  }

  /** Takes a strip of the image to the end of the window, through the horizontal pass if there is one. */
  #readStrip(): void {
    const { strip, stripPitch, stripRows, stripColumn, window, windowPitch, offsets, columnWeights } =
      this.#layout;
    const { firstColumn, lastRow, width } = this.#plan;
    const count = Math.min(stripRows, lastRow - this.#next);
    const pitch = this.#image.width * 3;
    const columns = this.#columns;
    const from = (column: number): number => this.#next * pitch + column * 3;
    const end = window + (this.#next - this.#windowFrom) * windowPitch;
    const data = this.#bytes;
    if (columns) {
      const source = { data: this.#image.data, offset: from(stripColumn), pitch };
      copyRows(source, { data, offset: strip, pitch: stripPitch }, count, stripPitch);
      // Up to three rows more than were copied, of what was there before: the next strip overwrites what becomes of them.
      const rows = Math.ceil(count / 4) * 4;
      const { pairs } = columns;
      this.#module.columns(strip, stripPitch, rows, offsets, columnWeights, pairs, width, end, windowPitch);
    } else {
      const source = { data: this.#image.data, offset: from(firstColumn), pitch };
      copyRows(source, { data, offset: end, pitch: windowPitch }, count, width * 3);
    }
    this.#next += count;
  }

  /** Gives out the rows whose input is in the window. */
  #writeRows(into: Uint8Array): void {
    const { firsts, rowWeights, window, windowPitch, result, resultRows } = this.#layout;
    const { rows: kernel, offset, pitch, width, height } = this.#plan;
    const rows = this.#rows;
    const bytes = width * 3;
    const data = this.#bytes;
    const target = (): { data: Uint8Array; offset: number; pitch: number } => ({
      data: into,
      offset: offset + this.#done * pitch,
      pitch,
    });
    if (!kernel || !rows) {
      const count = this.#next - this.#windowFrom;
      copyRows({ data, offset: window, pitch: windowPitch }, target(), count, bytes);
      this.#done += count;
      this.#windowFrom = this.#next;
      return;
    }
    const isThere = (y: number): boolean => kernel.first[y]! + kernel.counts[y]! <= this.#next;
    while (this.#done < height && isThere(this.#done)) {
      let to = this.#done + 1;
      while (to < height && to - this.#done < resultRows && isThere(to)) to++;
      const count = to - this.#done;
      const weights = rowWeights + this.#done * rows.pairs * 8;
      const first = firsts + this.#done * 4;
      this.#module.rows(
        window,
        windowPitch,
        this.#windowFrom,
        first,
        weights,
        rows.pairs,
        count,
        bytes,
        result,
      );
      copyRows({ data, offset: result, pitch: bytes }, target(), count, bytes);
      this.#done = to;
    }
  }
}

/**
 * Starts an instance.
 *
 * @param api - Another `WebAssembly` than the process's, or none.
 * @returns Null where WebAssembly SIMD is not available.
 */
export function createSimdResampler(api?: WebAssemblyApi): SimdResampler | null {
  const module = startSimdModule(api);
  return module && new SimdResampler(module);
}
