/** Facts about torchvision's networks (shared/fixtures/zoo), and their weights by formula. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { StateTensor } from '../../src/learn/parameters/state/state-tensor.js';
import { makeTensor, type Tensor } from '../../src/onnx/tensor/tensor.js';
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
  readonly kind?: 'parameter' | 'buffer';
  readonly a?: number;
  readonly b?: number;
}

/** An input by formula, and what the network makes of it. */
export interface Run {
  readonly input: { readonly shape: readonly number[]; readonly seed: string };
  readonly shapes: Readonly<Record<string, Shape | readonly Shape[]>>;
  readonly nodes?: readonly SampledValue[];
  readonly penultimate?: SampledValue;
  readonly penultimate_low?: SampledValue;
  readonly penultimate_aux?: SampledValue;
  readonly logits?: SampledValue;
  readonly outputs?: Readonly<Record<string, Omit<SampledValue, 'node'>>>;
  readonly heads?: readonly {
    readonly takes: unknown;
    readonly outputs: Readonly<Record<string, Omit<SampledValue, 'node'>>>;
  }[];
}

/** Facts about a network of segmentation, detection or video, or a pyramid (shared/fixtures/zoo2). */
export interface TaskFacts extends Run {
  readonly family: string;
  readonly architecture: string;
  readonly mode?: string;
  readonly num_classes: number;
  readonly kwargs: Readonly<Record<string, unknown>>;
  readonly parameters: number;
  readonly macs_conv_linear_whole_input: number;
  readonly keys: Facts['keys'];
  readonly key_prefix?: string;
  readonly eval_nodes: readonly string[];
  readonly old_keys?: Readonly<Record<string, string>>;
  readonly fine_shapes: Facts['fine_shapes'];
  readonly more?: readonly Run[];
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

export function readFacts<Of = Facts>(path: string): Of {
  const bytes = readFileSync(path);
  return JSON.parse((path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()) as Of;
}

/** The folder of {@link TaskFacts}; undefined where the shared fixtures are not. */
export const tasksFolder: string | undefined = sharedFixtures && join(sharedFixtures, 'zoo2');

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
export function weightsOf({ keys }: Pick<Facts, 'keys'>): Map<string, StateTensor> {
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
  const [height, width] = shape.slice(-2) as [number, number];
  const [fine, coarse] = [hashOf(seed), hashOf(`${seed}.blocks`)];
  const k = Math.ceil(width / 32);
  const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
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
  tolerance = 1e-4,
): string[] {
  if (dims.join() !== shape.join()) return [`${node} is [${dims.join()}], not [${shape.join()}]`];
  const values = data as Float32Array;
  const limit = tolerance * (max - min);
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
