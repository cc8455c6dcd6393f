/** The shared fixtures of gradients and training: tensors and summaries, and how results are compared with them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Tensor } from 'onnx-tapir';
import { sharedFixtures } from './fixtures.js';

/** A tensor as the fixtures write it: base64 of little-endian elements. */
export interface StoredTensor {
  readonly dtype: 'float32' | 'int64' | 'bool';
  readonly shape: readonly number[];
  readonly data: string;
}

/** Statistics and some elements of a tensor. */
export interface Summary {
  readonly shape: readonly number[];
  readonly mean: number;
  readonly l2: number;
  readonly maxAbs: number;
  readonly index: readonly number[];
  readonly value: readonly number[];
}

export type Stored = Readonly<Record<string, StoredTensor>>;

/** A file of the training fixtures. */
export function trainingPath(path: string): string {
  return join(sharedFixtures ?? '', 'training', path);
}

export const hasTraining: boolean = sharedFixtures !== undefined && existsSync(trainingPath('README.md'));

export function readTraining<Content>(path: string): Content {
  return JSON.parse(readFileSync(trainingPath(path), 'utf8')) as Content;
}

/** Decodes a tensor. */
export function decode({ dtype, shape, data }: StoredTensor): Tensor {
  const { buffer } = Uint8Array.from(Buffer.from(data, 'base64'));
  if (dtype === 'float32') return { dtype, dims: [...shape], data: new Float32Array(buffer) };
  if (dtype === 'int64') return { dtype, dims: [...shape], data: new BigInt64Array(buffer) };
  return { dtype, dims: [...shape], data: new Uint8Array(buffer) };
}

/** Expects |a − b| ≤ absolute + relative · max|b|, and the same dims. */
export function expectClose(
  what: string,
  actual: Pick<Tensor, 'dims' | 'data'>,
  expected: StoredTensor,
  relative = 1e-5,
  absolute = 1e-6,
): void {
  expect([...actual.dims], `${what}: dims`).toEqual([...expected.shape]);
  const wanted = decode(expected).data as Float32Array;
  const given = actual.data as Float32Array;
  let worst = 0;
  let size = 0;
  for (const [i, value] of wanted.entries()) {
    // NaN must fail.
    const difference = Math.abs(given[i]! - value);
    if (!(difference <= worst)) worst = difference;
    size = Math.max(size, Math.abs(value));
  }
  expect(worst, `${what}: largest difference (largest value ${size})`).toBeLessThanOrEqual(
    absolute + relative * size,
  );
}

/** The gradient of the mean cross entropy with respect to logits `[N, K, …]`; positions labelled −100 are left out. */
export function crossEntropyGradient(logits: Tensor, labels: Tensor): Tensor {
  const [rows, classes] = logits.dims as [number, number];
  const values = logits.data as Float32Array;
  const places = values.length / rows / classes;
  const wanted = Array.from(labels.data as BigInt64Array, Number);
  const count = wanted.filter((label) => label !== -100).length;
  const data = new Float32Array(values.length);
  for (const [position, label] of wanted.entries()) {
    if (label === -100) continue;
    const first = Math.floor(position / places) * classes * places + (position % places);
    const at = (k: number): number => first + k * places;
    const all = Array.from({ length: classes }, (_, k) => values[at(k)]!);
    const largest = Math.max(...all);
    const total = all.reduce((sum, value) => sum + Math.exp(value - largest), 0);
    for (const [k, value] of all.entries())
      data[at(k)] = (Math.exp(value - largest) / total - (k === label ? 1 : 0)) / count;
  }
  return { dtype: 'float32', dims: [...logits.dims], data };
}

/** The largest difference of a tensor from a summary: of its samples, its mean and its length. */
export function summaryDifference({ data, dims }: Tensor, summary: Summary): number {
  expect([...dims]).toEqual([...summary.shape]);
  const values = data as Float32Array;
  let [sum, squares] = [0, 0];
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  const samples = summary.index.map((at, k) => Math.abs(values[at]! - summary.value[k]!));
  const length = Math.abs(Math.sqrt(squares) - summary.l2) * (summary.maxAbs / (summary.l2 || 1));
  const worst = Math.max(Math.abs(sum / values.length - summary.mean), length, ...samples);
  return Number.isNaN(worst) ? Infinity : worst;
}
