/**
 * The resampling on WebAssembly SIMD (`wasm/resample.ts`), strip by strip, so that its memory stays small.
 *
 * Rows pass through a window: the horizontal pass appends a strip of the image to the window, and the vertical pass computes each
 * output row as soon as the window has its rows. Neither the image nor the result of the first pass is in memory as a whole.
 */
import { copyRows, rowsOf, type RgbImage, type RgbRows, type Rows } from '../pixels/rgb-image.js';
import type { Kernel } from './kernel.js';
import type { ResamplePlan } from './resample-plan.js';
import { layOutSimd, type SimdLayout, packedKernelOf, type PackedKernel } from './simd-layout.js';
import type { SimdModule } from '../simd/simd-module.js';

/**
 * Executes a plan with one or two passes. Bytes of `into` outside the plan stay unchanged.
 *
 * @returns False, without having done anything, if the plan needs more memory than an instance may have.
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

/** A plan with its weights in the module's format, and the memory layout. */
export interface Passes {
  readonly plan: ResamplePlan;
  readonly rows: PackedKernel | null;
  readonly columns: PackedKernel | null;
  readonly layout: SimdLayout;
}

/** @param start - Address from which the module's memory is free; a multiple of 16. */
export function planPasses(imageWidth: number, plan: ResamplePlan, start: number): Passes {
  const rows = plan.rows && packedKernelOf(plan.rows);
  const columns = plan.columns && packedKernelOf(plan.columns);
  return { plan, rows, columns, layout: layOutSimd(imageWidth, plan, rows, columns, start) };
}

/** Executes a plan. The memory up to the end of the layout must be reserved. */
export function runPasses(simd: SimdModule, image: RgbRows, passes: Passes, into: Uint8Array): void {
  const bytes = simd.reserve(passes.layout.end)!;
  new Passage({ ...passes, calls: simd.calls, bytes, image }).run(into);
}

/** What stays constant while an image is resampled. */
interface Given extends Passes {
  readonly calls: SimdModule['calls'];
  /** The module's memory. */
  readonly bytes: Uint8Array;
  readonly image: RgbRows;
}

class Passage {
  readonly #given: Given;
  /** The image's row that is first in the window. */
  #windowFrom: number;
  /** The image's next row to read. */
  #next: number;
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

  /** If a strip does not fit after the rows in the window, moves the rows that are still needed to its start. */
  #makeRoom(): void {
    const { bytes, plan, layout } = this.#given;
    const { window, windowPitch, windowRows, stripRows } = layout;
    if (this.#next - this.#windowFrom + stripRows <= windowRows) return;
    // The nearest inputs may leave out rows, even the next one.
    const needed = plan.rows ? Math.min(this.#next, plan.rows.first[this.#done]!) : this.#next;
    const start = window + (needed - this.#windowFrom) * windowPitch;
    bytes.copyWithin(window, start, start + (this.#next - needed) * windowPitch);
    this.#windowFrom = needed;
  }

  /** Appends a strip of the image to the window, through the horizontal pass if there is one. */
  #readStrip(): void {
    const { calls, bytes, image, plan, columns, layout } = this.#given;
    const { strip, stripPitch, windowPitch } = layout;
    const count = Math.min(layout.stripRows, plan.lastRow - this.#next);
    const column = columns ? layout.stripColumn : plan.firstColumn;
    const end = layout.window + (this.#next - this.#windowFrom) * windowPitch;
    if (columns) {
      const to = { data: bytes, offset: strip, pitch: stripPitch };
      image.copyRows(this.#next, column, count, stripPitch, to);
      // Rounded up, so the pass may also read up to three stale rows; the next strip overwrites their results.
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

  /** Writes the output rows whose input is in the window. */
  #writeRows(into: Uint8Array): void {
    const { bytes: data, plan, layout } = this.#given;
    if (plan.rows) return this.#flatten(plan.rows, into);
    const count = this.#next - this.#windowFrom;
    this.#giveOut({ data, offset: layout.window, pitch: layout.windowPitch }, count, into);
    this.#windowFrom = this.#next;
  }

  /** Runs the vertical pass for all output rows whose input is in the window. */
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

  /** Copies the next rows of the result to where they belong. */
  #giveOut(from: Rows, count: number, into: Uint8Array): void {
    const { pitch, offset, width } = this.#given.plan;
    copyRows(from, { data: into, offset: offset + this.#done * pitch, pitch }, count, width * 3);
    this.#done += count;
  }
}
