/** The rows of a feature that have labels, block by block: in memory if they fit, else read again in each pass. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { NO_LABEL, type RowLabels } from '../../../../datasets/labels/labels.js';
import { readPaths } from '../../../../datasets/labels/live-rows.js';
import { datasetInvalid } from '../../../../base/files/dataset-invalid.js';
import type { BeginStep } from '../../../../base/progress.js';
import { elementCount } from '../../../../onnx/tensor/tensor.js';
import { unitVector } from '../../../../onnx/tensor/vectors/unit-vector.js';
import type { Dataset } from '../../../../datasets/files/dataset.js';

/** Consecutive labelled rows. */
export interface LabelledBlock {
  /** The position of the first one among all labelled rows. */
  readonly first: number;
  readonly rows: number;
  /** `rows × elements` numbers. */
  readonly data: Float32Array;
}

/** What is done to a vector before anything else: nothing, or division by its Euclidean norm (at least 1e-12). */
export type VectorNorm = 'none' | 'l2';

/** Size limit of the rows that are kept in memory. */
export const MOST_KEPT_BYTES: number = 256 * 2 ** 20;
/** Size limit of a block. */
const BLOCK_BYTES = 8 * 2 ** 20;
/** The norm of shorter vectors. */
export const LEAST_NORM = 1e-12;

/** Labelled rows that one can walk over again and again: what a classifier is fitted to. */
export abstract class RowBlocks {
  abstract readonly elements: number;
  /** The class of each row. */
  abstract readonly labels: Int32Array;
  /** Mean and standard deviation of each element. */
  abstract readonly mean: Float64Array;
  abstract readonly deviation: Float64Array;
  /** Called with how many rows a pass has seen. */
  onRows: (done: number) => void = () => undefined;

  /** All rows in order, at most `mostRows` in a block. The data belongs to the rows: leave it unchanged. */
  abstract blocks(mostRows?: number): AsyncGenerator<LabelledBlock>;

  /** The number of rows. */
  get count(): number {
    return this.labels.length;
  }

  /** A pass over all rows, which {@link RowBlocks.onRows} hears of. */
  async *pass(mostRows: number = Infinity): AsyncGenerator<LabelledBlock> {
    for await (const block of this.blocks(mostRows)) {
      yield block;
      this.onRows(block.first + block.rows);
    }
  }

  /** All rows in one array, `[count, elements]`, which the caller owns. */
  async copy(): Promise<Float32Array> {
    const all = new Float32Array(this.count * this.elements);
    for await (const { first, data } of this.pass()) all.set(data, first * this.elements);
    return all;
  }
}

/** The labelled rows of a feature. Open them with {@link openLabelledRows}. */
export class LabelledRows extends RowBlocks {
  readonly elements: number;
  readonly labels: Int32Array;
  /** The number of each labelled row in the dataset. */
  readonly numbers: Int32Array;
  readonly mean: Float64Array;
  readonly deviation: Float64Array;
  readonly #dataset: Dataset;
  readonly #key: string;
  readonly #norm: VectorNorm;
  readonly #kept: Float32Array | undefined;

  constructor(dataset: Dataset, key: string, labels: RowLabels, norm: VectorNorm) {
    super();
    this.elements = elementCount(dataset.manifest.features[key]!.dims);
    this.numbers = rowsWithLabels(labels.ofRow);
    this.labels = this.numbers.map((row) => labels.ofRow[row]!);
    this.mean = new Float64Array(this.elements);
    this.deviation = new Float64Array(this.elements);
    this.#dataset = dataset;
    this.#key = key;
    this.#norm = norm;
    const bytes = 4 * this.count * this.elements;
    this.#kept = bytes <= MOST_KEPT_BYTES ? new Float32Array(this.count * this.elements) : undefined;
  }

  async *blocks(mostRows: number = Infinity): AsyncGenerator<LabelledBlock> {
    const { elements, count } = this;
    if (!this.#kept) return yield* this.#read(mostRows);
    const rows = this.#rowsPerBlock(mostRows);
    for (let first = 0; first < count; first += rows) {
      const end = Math.min(count, first + rows);
      yield { first, rows: end - first, data: this.#kept.subarray(first * elements, end * elements) };
    }
  }

  #rowsPerBlock(mostRows: number): number {
    return Math.max(1, Math.min(mostRows, Math.floor(BLOCK_BYTES / (4 * this.elements))));
  }

  /** Reads all rows once: keeps them if they fit, and computes mean and deviation. */
  async load(): Promise<void> {
    const { elements, mean, deviation } = this;
    const sums = new Float64Array(elements);
    let seen = 0;
    for await (const block of this.#read(Infinity)) {
      await this.#checkFinite(block);
      this.#kept?.set(block.data, block.first * elements);
      addMoments(block, mean, sums, seen);
      seen += block.rows;
      this.onRows(seen);
      await nextTurn();
    }
    for (let i = 0; i < elements; i++) deviation[i] = Math.sqrt(sums[i]! / Math.max(1, seen));
  }

  async *#read(mostRows: number): AsyncGenerator<LabelledBlock> {
    const { elements, numbers } = this;
    let first = 0;
    const rowsPerBlock = this.#rowsPerBlock(mostRows);
    for await (const { firstRow, rows, data } of this.#dataset.blocks(this.#key, { rowsPerBlock })) {
      const start = first;
      while (first < numbers.length && numbers[first]! < firstRow + rows) {
        const from = (numbers[first]! - firstRow) * elements;
        const to = (first - start) * elements;
        if (from !== to) data.copyWithin(to, from, from + elements);
        first++;
      }
      const block = { first: start, rows: first - start, data: data.subarray(0, (first - start) * elements) };
      if (this.#norm === 'l2') divideByNorm(block, elements);
      if (block.rows > 0) yield block;
    }
  }

  /** Throws `DATASET_INVALID` for a row with a NaN or an infinity. */
  async #checkFinite({ first, rows, data }: LabelledBlock): Promise<void> {
    const at = data.findIndex((value) => !Number.isFinite(value));
    if (at < 0 || rows === 0) return;
    const row = this.numbers[first + Math.floor(at / this.elements)]!;
    const path = (await readPaths(this.#dataset, new Set([row]))).get(row) ?? null;
    const which = path === null ? `row ${row}` : `row ${row} ("${path}")`;
    throw datasetInvalid(this.#dataset.folder, `${which} of "${this.#key}" has NaN or infinite values`);
  }
}

/** Reads the labelled rows of a feature once, so that they can be walked over again. Throws `DATASET_INVALID`. */
export async function openLabelledRows(
  dataset: Dataset,
  key: string,
  labels: RowLabels,
  norm: VectorNorm,
  begin: BeginStep,
): Promise<LabelledRows> {
  const rows = new LabelledRows(dataset, key, labels, norm);
  rows.onRows = begin('reading the features', 'rows', rows.count);
  await rows.load();
  return rows;
}

function rowsWithLabels(ofRow: Int32Array): Int32Array {
  const numbers = new Int32Array(ofRow.length);
  let count = 0;
  for (const [row, label] of ofRow.entries()) if (label !== NO_LABEL) numbers[count++] = row;
  return numbers.slice(0, count);
}

/** Adds rows to a mean and to sums of squared deviations from it: Chan, Golub and LeVeque's formula, block by block. */
function addMoments(
  { rows, data }: LabelledBlock,
  mean: Float64Array,
  sums: Float64Array,
  seen: number,
): void {
  const elements = mean.length;
  const own = new Float64Array(elements);
  for (let at = 0; at < data.length;) for (let i = 0; i < elements; i++) own[i]! += data[at++]!;
  for (let i = 0; i < elements; i++) own[i]! /= rows;
  for (let at = 0; at < data.length;)
    for (let i = 0; i < elements; i++) {
      const difference = data[at++]! - own[i]!;
      sums[i]! += difference * difference;
    }
  for (let i = 0; i < elements; i++) {
    const shift = own[i]! - mean[i]!;
    sums[i]! += (shift * shift * seen * rows) / (seen + rows);
    mean[i]! += (shift * rows) / (seen + rows);
  }
}

function divideByNorm({ data }: LabelledBlock, elements: number): void {
  for (let start = 0; start < data.length; start += elements) {
    const row = data.subarray(start, start + elements);
    unitVector(row, LEAST_NORM, row);
  }
}
