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
