/** The vectors that two models give for the same images, output by output. */
import { binsFor, countInBins, type Histogram } from '../../../base/histogram.js';
import { compareVectors } from '../../../onnx/tensor/compare-vectors.js';
import { cosineDistances } from '../../../onnx/tensor/vectors/cosine.js';
import { elementCount, type Tensor } from '../../../onnx/tensor/tensor.js';
import { findNeighbours } from '../../../onnx/tensor/vectors/neighbours.js';
import { floatsOf } from '../../../onnx/tensor/widen.js';
import { highest } from '../../../onnx/tensor/vectors/largest.js';
import { layOutRow, poolRow, type RowLayout } from '../../../onnx/tensor/vectors/row-layout.js';
import type { Breathe } from '../../../onnx/tensor/vectors/breathe.js';

/** An image and the cosine between its two vectors. */
export interface ComparedImage {
  /** Position among the compared images, from 0. */
  readonly index: number;
  /** Null for an image that was given as bytes. */
  readonly path: string | null;
  readonly cosine: number;
}

/** How the vectors of two models agree. */
export interface Agreement {
  /** Images whose vectors were compared: those that both models embedded, without NaN and infinite values. */
  readonly images: number;
  /** Images with a NaN or an infinite value in a vector. They count nowhere else. */
  readonly notFinite: number;
  /** Images whose vectors are the same, bit for bit. */
  readonly identical: number;
  /** Largest absolute difference of an element; null if the vectors have different shapes. */
  readonly maxDifference: number | null;
  /**
   * The cosine between the two vectors of an image; of one number, the smaller divided by the larger. Null if they have different
   * shapes, as maps of other layouts have, or if there is no image. A map and the same map as one vector have a cosine.
   */
  readonly cosine: { readonly mean: number; readonly least: number } | null;
  /** How many images have which cosine, in equal steps; null where there is no cosine. */
  readonly cosines: Histogram | null;
  /**
   * The share of images whose highest score is at the same class; null unless the output has a score for each class that the model
   * names, or for ImageNet's thousand.
   */
  readonly top1: number | null;
  /** The images of the least cosine, at most ten, the least first. */
  readonly worst: readonly ComparedImage[];
  /**
   * The share of A's nearest neighbours, by cosine, that B has as well: the mean over all images. Maps are averaged over space and
   * tokens over the sequence before. Null if there are not at least two more images than neighbours, and for single numbers, which
   * have no direction.
   */
  readonly recall: { readonly neighbours: number; readonly mean: number } | null;
}

const MOST_WORST = 10;
/** Classes of ImageNet: few other outputs have as many elements. */
const IMAGENET_CLASSES = 1000;

/** Compares the vectors of one output. */
export class OutputComparer {
  readonly #classes: number | undefined;
  readonly #a = new PooledRows();
  readonly #b = new PooledRows();
  readonly #worst: ComparedImage[] = [];
  #images = 0;
  #notFinite = 0;
  #identical = 0;
  #maxDifference = 0;
  #cosines: number[] = [];
  #sameTop = 0;
  #isScores = true;
  #isSameShape = true;

  /** @param classes - How many classes the model names; undefined if it names none. */
  constructor(classes?: number) {
    this.#classes = classes;
  }

  /** Adds the vectors of an image. */
  add(index: number, path: string | null, a: Tensor, b: Tensor): void {
    const [x, y] = [numbersOf(a), numbersOf(b)];
    if (!x.every(Number.isFinite) || !y.every(Number.isFinite)) {
      this.#notFinite++;
      return;
    }
    this.#images++;
    this.#a.add(x, a.dims);
    this.#b.add(y, b.dims);
    if (!haveSameOrder(a.dims, b.dims)) {
      this.#isSameShape = false;
      return;
    }
    const { cosine, maxDifference } = compareVectors(x, y);
    if (maxDifference === 0) this.#identical++;
    this.#maxDifference = Math.max(this.#maxDifference, maxDifference);
    this.#cosines.push(cosine);
    this.#isScores &&= a.dims.length === 1 && x.length === (this.#classes ?? IMAGENET_CLASSES);
    if (this.#isScores && highest(x) === highest(y)) this.#sameTop++;
    this.#worst.push({ index, path, cosine });
    this.#worst.sort((one, other) => one.cosine - other.cosine || one.index - other.index);
    this.#worst.length = Math.min(this.#worst.length, MOST_WORST);
  }

  /** Summarises all images. */
  async finish(neighbours: number, breathe: Breathe): Promise<Agreement> {
    const images = this.#images;
    const isComparable = this.#isSameShape && images > 0;
    const worst = isComparable ? this.#worst : [];
    return {
      images,
      notFinite: this.#notFinite,
      identical: this.#identical,
      maxDifference: isComparable ? this.#maxDifference : null,
      cosine: isComparable
        ? { mean: this.#cosines.reduce((sum, one) => sum + one, 0) / images, least: worst[0]!.cosine }
        : null,
      cosines: isComparable ? (countInBins(this.#cosines, binsFor(images)) ?? null) : null,
      top1: isComparable && this.#isScores ? this.#sameTop / images : null,
      worst,
      // With fewer images, all of them are neighbours of each other in any model.
      recall:
        images < neighbours + 2 || this.#a.columns === 1
          ? null
          : { neighbours, mean: await this.#recall(neighbours, breathe) },
    };
  }

  async #recall(count: number, breathe: Breathe): Promise<number> {
    // One matrix of distances after the other, to hold only one of them.
    const a = await this.#a.neighbours(count, breathe);
    const b = await this.#b.neighbours(count, breathe);
    let shared = 0;
    for (let start = 0; start < a.length; start += count) {
      const ofB = new Set(b.subarray(start, start + count));
      for (const index of a.subarray(start, start + count)) if (ofB.has(index)) shared++;
    }
    return shared / a.length;
  }
}

/** The rows of an output as vectors, one after the other. */
class PooledRows {
  readonly #rows: Float32Array[] = [];
  #layout: RowLayout | undefined;

  add(data: Float32Array, dims: readonly number[]): void {
    this.#layout ??= layOutRow(dims);
    const { channels, averaged } = this.#layout;
    const row = averaged === null ? data : new Float32Array(channels);
    if (averaged !== null) poolRow(data, 0, this.#layout, row, 0);
    this.#rows.push(row);
  }

  get columns(): number | undefined {
    return this.#rows[0]?.length;
  }

  /** The nearest rows of each row. */
  async neighbours(count: number, breathe: Breathe): Promise<Uint16Array> {
    const rows = this.#rows.length;
    const columns = this.columns!;
    const data = new Float32Array(rows * columns);
    this.#rows.splice(0).forEach((row, place) => data.set(row, place * columns));
    return findNeighbours(await cosineDistances({ rows, columns, data }, breathe), count).indices;
  }
}

/** Whether elements at the same place belong together: axes are the same except those of size 1, or one side is flat. */
function haveSameOrder(a: readonly number[], b: readonly number[]): boolean {
  const [p, q] = [a, b].map((dims) => dims.filter((size) => size !== 1)) as [number[], number[]];
  if (p.length > 1 && q.length > 1) return p.join() === q.join();
  return elementCount(p) === elementCount(q);
}

function numbersOf(tensor: Tensor): Float32Array {
  return floatsOf(tensor) ?? new Float32Array();
}
