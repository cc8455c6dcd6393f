/** torch's golden tables of splitting and joining. */
import { readFileSync } from 'node:fs';
import type { NamedTensor, Tensor } from '../../src/onnx/tensor/tensor.js';
import { fixturePath } from './fixtures.js';

export interface Case {
  readonly id: string;
  readonly kind: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
  readonly warning?: string;
  readonly what?: string;
}
const golden = JSON.parse(readFileSync(fixturePath('parallel/cases.json'), 'utf8')) as { cases: Case[] };
/** The cases of a kind. */
export const casesOf = (kind: string): Case[] => golden.cases.filter((one) => one.kind === kind);

const isPlain = (value: unknown): value is object => value !== null && typeof value === 'object';

/** The tensors of torch's nested value, by their place in it. */
export function leavesOf(value: unknown, path = ''): { name: string; value: Tensor | null }[] {
  if (!isPlain(value)) throw new Error('no such form');
  if ('tensor' in value) {
    const { shape, data } = value.tensor as { shape: number[]; data: number[] };
    return [{ name: path, value: { dtype: 'float32', dims: shape, data: Float32Array.from(data) } }];
  }
  if ('value' in value) return [{ name: path, value: null }];
  const [items] = Object.values(value) as unknown[];
  return Object.entries(items as object).flatMap(([key, item]) => leavesOf(item, `${path}/${key}`));
}

export function tensorsOf(value: unknown): NamedTensor[] {
  return leavesOf(value).flatMap(({ name, value: tensor }) => (tensor ? [{ name, ...tensor }] : []));
}

/** A tensor that compares by value. */
export function plain({ name, dims, data }: NamedTensor): object {
  return { name, dims: [...dims], data: [...(data as Float32Array)] };
}
