/**
 * The resampling on WebAssembly SIMD (`wasm/resample.ts`): feeds it strips of the image and keeps its memory small.
 *
 * Rows go through a window: a strip of the image is resampled horizontally to the end of the window, and each output row is
 * computed as soon as its rows are there. So neither the image nor what the first pass makes of it is there as a whole.
 */
import { copyRows, rowsOf, type RgbImage, type RgbRows, type Rows } from '../pixels/rgb-image.js';
import type { Kernel } from './kernel.js';
import { packedKernelOf, type PackedKernel } from './packed-kernel.js';
import type { ResamplePlan } from './resample-plan.js';
import { layOutSimd, type SimdLayout } from './simd-layout.js';
import type { SimdModule } from '../simd/simd-module.js';

/**
 * Carries out a plan of one pass or two; bytes of `into` that the plan does not reach stay as they are.
 *
 * @returns False if it takes more memory than an instance may have: nothing is done then.
 */
export function resampleInSimd(
  simd: SimdModule,
  image: RgbImage,
  plan: ResamplePlan,
  into: Uint8Array,
): boolean {
  const passes = planPasses(image.width, plan, 0);
  if (!simd.reserve(passes.layout.end)) return false;
  runPasses(simd, rowsOf(image), passes, into);
  return true;
}

/** A plan with its weights as the module takes them, and where everything lies. */
export interface Passes {
  readonly plan: ResamplePlan;
  readonly rows: PackedKernel | null;
  readonly columns: PackedKernel | null;
  readonly layout: SimdLayout;
}

/** @param start - Where the module's memory is free: a multiple of 16. */
export function planPasses(imageWidth: number, plan: ResamplePlan, start: number): Passes {
  const rows = plan.rows && packedKernelOf(plan.rows);
  const columns = plan.columns && packedKernelOf(plan.columns);
  return { plan, rows, columns, layout: layOutSimd(imageWidth, plan, rows, columns, start) };
}

/** Carries out a plan; the memory up to the layout's end is reserved. */
export function runPasses(simd: SimdModule, image: RgbRows, passes: Passes, into: Uint8Array): void {
  const bytes = simd.reserve(passes.layout.end)!;
  new Passage({ ...passes, calls: simd.calls, bytes, image }).run(into);
}

/** What stays the same while an image is resampled. */
interface Given extends Passes {
  readonly calls: SimdModule['calls'];
  /** The module's memory. */
  readonly bytes: Uint8Array;
  readonly image: RgbRows;
}

/** One image on its way through the module. */
class Passage {
  readonly #given: Given;
  /** The image's row that is the window's first. */
  #windowFrom: number;
  /** The image's next row to be read. */
  #next: number;
  /** Output rows that are done. */
  #done = 0;

  constructor(given: Given) {
    this.#given = given;
    this.#windowFrom = given.plan.firstRow;
    this.#next = given.plan.firstRow;
  }

  run(into: Uint8Array): void {
    this.#putKernels();
    while (this.#next < this.#given.plan.lastRow) {
      this.#makeRoom();
      this.#readStrip();
      this.#writeRows(into);
    }
  }

  #putKernels(): void {
    const { bytes, plan, rows, columns, layout } = this.#given;
    const integers = new Int32Array(bytes.buffer);
    if (plan.rows && rows) {
      integers.set(plan.rows.first, layout.firsts / 4);
      integers.set(rows.weights, layout.rowWeights / 4);
    }
    if (plan.columns && columns) {
      const { first } = plan.columns;
      const offsets = integers.subarray(layout.offsets / 4);
      for (let x = 0; x < first.length; x++) offsets[x] = (first[x]! - layout.stripColumn) * 3;
      integers.set(columns.weights, layout.columnWeights / 4);
    }
  }

  /** Moves the rows that are still needed to the window's start, if a strip does not fit behind them. */
  #makeRoom(): void {
    const { bytes, plan, layout } = this.#given;
    const { window, windowPitch, windowRows, stripRows } = layout;
    if (this.#next - this.#windowFrom + stripRows <= windowRows) return;
    const needed = plan.rows ? plan.rows.first[this.#done]! : this.#next;
    const start = window + (needed - this.#windowFrom) * windowPitch;
    bytes.copyWithin(window, start, start + (this.#next - needed) * windowPitch);
    this.#windowFrom = needed;
  }

  /** Takes a strip of the image to the end of the window, through the horizontal pass if there is one. */
  #readStrip(): void {
    const { calls, bytes, image, plan, columns, layout } = this.#given;
    const { strip, stripPitch, windowPitch } = layout;
    const count = Math.min(layout.stripRows, plan.lastRow - this.#next);
    const column = columns ? layout.stripColumn : plan.firstColumn;
    const end = layout.window + (this.#next - this.#windowFrom) * windowPitch;
    if (columns) {
      const to = { data: bytes, offset: strip, pitch: stripPitch };
      image.copyRows(this.#next, column, count, stripPitch, to);
      // Up to three rows more than were copied, of what was there before: the next strip overwrites what becomes of them.
      const rows = Math.ceil(count / 4) * 4;
      const { offsets, columnWeights } = layout;
      const { pairs } = columns;
      calls.columns(strip, stripPitch, rows, offsets, columnWeights, pairs, plan.width, end, windowPitch);
    } else {
      const to = { data: bytes, offset: end, pitch: windowPitch };
      image.copyRows(this.#next, column, count, plan.width * 3, to);
    }
    this.#next += count;
  }

  /** Gives out the rows whose input is in the window. */
  #writeRows(into: Uint8Array): void {
    const { bytes: data, plan, layout } = this.#given;
    if (plan.rows) return this.#flatten(plan.rows, into);
    const count = this.#next - this.#windowFrom;
    this.#giveOut({ data, offset: layout.window, pitch: layout.windowPitch }, count, into);
    this.#windowFrom = this.#next;
  }

  /** The vertical pass, as far as it can go. */
  #flatten(kernel: Kernel, into: Uint8Array): void {
    const { calls, bytes: data, plan, rows, layout } = this.#given;
    const { window, windowPitch, result, resultRows } = layout;
    const { pairs } = rows!;
    const pitch = plan.width * 3;
    const isThere = (y: number): boolean =>
      y < plan.height && kernel.first[y]! + kernel.counts[y]! <= this.#next;
    while (isThere(this.#done)) {
      let count = 1;
      while (count < resultRows && isThere(this.#done + count)) count++;
      const firsts = layout.firsts + this.#done * 4;
      const weights = layout.rowWeights + this.#done * pairs * 8;
      calls.rows(window, windowPitch, this.#windowFrom, firsts, weights, pairs, count, pitch, result);
      this.#giveOut({ data, offset: result, pitch }, count, into);
    }
  }

  /** Copies the next rows of the result to their place. */
  #giveOut(from: Rows, count: number, into: Uint8Array): void {
    const { pitch, offset, width } = this.#given.plan;
    copyRows(from, { data: into, offset: offset + this.#done * pitch, pitch }, count, width * 3);
    this.#done += count;
  }
}
