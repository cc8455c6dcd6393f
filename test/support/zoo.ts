/** Facts about torchvision's networks (shared/fixtures/zoo), and their weights by formula. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { StateTensor } from '../../src/parameters/state/state-tensor.js';
import { makeTensor, type Tensor } from '../../src/tensor/tensor.js';
import { fixturePath, sharedFixtures } from './fixtures.js';

/** A value at a node, in part. */
export interface SampledValue {
  readonly node: string;
  readonly shape: readonly number[];
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly l2: number;
  readonly samples: { readonly index: readonly number[]; readonly value: readonly number[] };
}

export type Shape = readonly number[] | null;

interface Key {
  readonly key: string;
  readonly shape: readonly number[];
  readonly dtype: 'float32' | 'int64';
  readonly a?: number;
  readonly b?: number;
}

export interface Facts {
  readonly architecture: string;
  readonly num_classes: number;
  readonly keys: readonly Key[];
  readonly input: { readonly shape: readonly number[]; readonly seed: string };
  readonly eval_nodes: readonly string[];
  /** `null` where a node gives no tensor; a list of shapes for a tuple. */
  readonly shapes: Readonly<Record<string, Shape | readonly Shape[]>>;
  readonly fine_shapes: Readonly<Record<string, Shape | readonly Shape[]>>;
  readonly penultimate: SampledValue;
  readonly logits: SampledValue;
  readonly nodes: readonly SampledValue[];
}

/** The files with facts: all of them where the shared fixtures are, else a few. */
export const zooFolder: string =
  sharedFixtures === undefined ? fixturePath('zoo') : join(sharedFixtures, 'zoo');
export const zooFiles: readonly string[] = readdirSync(zooFolder).filter((name) =>
  /\.json(\.gz)?$/.test(name),
);

export function readFacts(path: string): Facts {
  const bytes = readFileSync(path);
  return JSON.parse((path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()) as Facts;
}

function mix(h: number): number {
  let x = h;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

function hashOf(text: string): number {
  let h = 2166136261;
  for (const byte of new TextEncoder().encode(text)) h = Math.imul(h ^ byte, 16777619);
  return h | 0;
}

const uniform = (seed: number, i: number): number => mix((Math.imul(i, 0x9e3779b1) + seed) | 0) / 2 ** 32;

/** Normal numbers by formula: sums of twelve uniform ones. */
export function normalNumbers(key: string, count: number): number[] {
  const seed = hashOf(key);
  return Array.from({ length: count }, (_, i) => {
    let sum = 0;
    for (let k = 0; k < 12; k++) sum += uniform(seed, 12 * i + k);
    return sum - 6;
  });
}

/** The state dict by formula. Values are made when they are read; computed ones are left out. */
export function weightsOf({ keys }: Facts): Map<string, StateTensor> {
  const made = keys.filter(({ a, dtype }) => a !== undefined || dtype === 'int64');
  const counters = made.filter(({ key, a }) => a !== undefined || key.endsWith('num_batches_tracked'));
  return new Map(
    counters.map(({ key, shape, dtype, a = 0, b = 0 }) => {
      const read = (): Tensor => {
        const count = shape.reduce((product, size) => product * size, 1);
        if (dtype === 'int64') return makeTensor('int64', shape, new BigInt64Array(count));
        const seed = hashOf(key);
        const values = new Float32Array(count);
        for (let i = 0; i < count; i++) values[i] = a + (uniform(seed, i) - 0.5) * b;
        return makeTensor('float32', shape, values);
      };
      const bytes = (): Promise<Uint8Array> => Promise.reject(new Error('not asked for'));
      return [key, { dtype, dims: shape, read: () => Promise.resolve(read()), bytes }];
    }),
  );
}

/** The images by formula. */
export function imageOf({ input: { shape, seed } }: Pick<Facts, 'input'>): Tensor<'float32'> {
  const [n, c, height, width] = shape as [number, number, number, number];
  const [fine, coarse] = [hashOf(seed), hashOf(`${seed}.blocks`)];
  const k = Math.ceil(width / 32);
  const data = new Float32Array(n * c * height * width);
  for (let i = 0; i < data.length; i++) {
    const x = i % width;
    const y = Math.floor(i / width) % height;
    const plane = Math.floor(i / (width * height));
    const block = (plane * k + (y >> 5)) * k + (x >> 5);
    data[i] = (uniform(fine, i) - 0.5) * 2 + (uniform(coarse, block) - 0.5) * 3;
  }
  return makeTensor('float32', shape, data);
}

/** How a computed value differs from the facts: empty if it does not. */
export function differences(
  { shape, min, max, mean, l2, samples, node }: SampledValue,
  { dims, data }: Pick<Tensor, 'dims' | 'data'>,
): string[] {
  if (dims.join() !== shape.join()) return [`${node} is [${dims.join()}], not [${shape.join()}]`];
  const values = data as Float32Array;
  const limit = 1e-4 * (max - min);
  let [sum, squares] = [0, 0];
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  const worst = samples.index.reduce(
    (most, index, i) => Math.max(most, Math.abs(values[index]! - samples.value[i]!)),
    0,
  );
  const problems: string[] = [];
  if (!(worst <= limit)) problems.push(`${node} differs by ${worst}, more than ${limit}`);
  if (!(Math.abs(sum / values.length - mean) <= limit))
    problems.push(`mean of ${node}: ${sum / values.length}, not ${mean}`);
  if (!(Math.abs(Math.sqrt(squares) / l2 - 1) <= 1e-4))
    problems.push(`norm of ${node}: ${Math.sqrt(squares)}, not ${l2}`);
  return problems;
}
