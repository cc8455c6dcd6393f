/** What a fast mode has done to the pixels of a run. */
import type { LoadedItem } from './loader.js';

/** As a manifest records it. */
export interface ReductionSummary {
  /** Images that were reduced while they were decoded. */
  readonly images: number;
  /** Over those among the first 64 inputs, against exact pixels, of 8-bit values after resize and crop; null if there are none. */
  readonly deviation: { readonly images: number; readonly mean: number; readonly max: number } | null;
}

/** Adds up the images of a run. */
export class ReducedImages {
  #images = 0;
  #measured = 0;
  #sum = 0;
  #max = 0;

  add({ reduction, deviation }: LoadedItem): void {
    if (reduction > 1) this.#images++;
    if (!deviation) return;
    this.#measured++;
    this.#sum += deviation.mean;
    this.#max = Math.max(this.#max, deviation.max);
  }

  get summary(): ReductionSummary {
    const [images, max] = [this.#measured, this.#max];
    return {
      images: this.#images,
      deviation: images === 0 ? null : { images, mean: this.#sum / images, max },
    };
  }
}
