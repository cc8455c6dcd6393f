/** Datasets of the probes' fixtures, and folders like those that embedFolder writes. */
import { readFileSync } from 'node:fs';
import { openDataset, type Dataset } from 'onnx-tapir';
import type { Probe } from 'onnx-tapir/features';
import { fixturePath } from './fixtures.js';
import { readNpy } from './npy.js';
import { storeDataset } from './stored-dataset.js';

/** A linear classifier as scikit-learn found it. */
export interface GoldenLinear {
  readonly coef: readonly (readonly number[])[];
  readonly intercept: readonly number[];
  /** Only of logistic regression. */
  readonly objective: number;
}

/** What make.py writes. */
export interface Golden {
  readonly rows: number;
  readonly elements: number;
  readonly labels: readonly number[];
  readonly logistic: Readonly<Record<string, GoldenLinear>>;
  readonly balanced: GoldenLinear;
  readonly binary: GoldenLinear;
  readonly standardized: GoldenLinear;
  readonly ridge: Readonly<Record<string, GoldenLinear>>;
  readonly ridgeBalanced: GoldenLinear;
  readonly ridgeBinary: GoldenLinear;
  readonly halves: Readonly<Record<'knn' | 'cosine' | 'centroid', readonly number[]>>;
}

/** Vectors and their labels. */
export interface Labelled {
  readonly elements: number;
  readonly vectors: readonly Float32Array[];
  readonly labels: readonly number[];
}

export function readGolden(name: string): Golden & Labelled {
  const golden = JSON.parse(readFileSync(fixturePath(`probe/${name}.json`), 'utf8')) as Golden;
  const { data } = readNpy(fixturePath(`probe/${name}.npy`));
  const values = Float32Array.from(data as Float32Array);
  const { elements } = golden;
  const vectors = golden.labels.map((_, row) => values.slice(row * elements, (row + 1) * elements));
  return { ...golden, vectors };
}

/** A dataset on disk; the image of row 3 with the label 7 is `7/3.png`. */
export function datasetOf({ vectors, labels }: Labelled, shard?: number): Dataset {
  const inputs = labels.map((label, row) => ({ path: `${label}/${row}.png`, row }));
  const shape = { key: 'f', rows: vectors, inputs: [{ path: '0/broken.png' }, ...inputs] };
  return storeDataset({ ...shape, ...(shard === undefined ? {} : { shard }) }, openDataset);
}

/** Rows of weights of a linear probe. */
export function weightsOf({ head }: Probe): number[][] {
  if (head.type !== 'linear') throw new Error('the probe is not linear');
  const elements = head.weight.length / head.bias.length;
  return Array.from(head.bias, (_, k) => Array.from(head.weight.subarray(k * elements, (k + 1) * elements)));
}

export function biasOf({ head }: Probe): number[] {
  if (head.type !== 'linear') throw new Error('the probe is not linear');
  return Array.from(head.bias);
}

/** The largest difference between two lists of lists. */
export function farthest(a: readonly (readonly number[])[], b: readonly (readonly number[])[]): number {
  if (a.length !== b.length) throw new Error(`${a.length} rows are not ${b.length}`);
  return Math.max(...a.map((row, i) => Math.max(...row.map((value, j) => Math.abs(value - b[i]![j]!)))));
}
