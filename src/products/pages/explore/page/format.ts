/** Sizes and costs as people read them. This file uses no part of the browser. */
import { formatBytes, formatLarge } from '../../../../base/html/numbers.js';
import type { StatedDims } from '../structure/model-structure.js';
import type { Metric } from './graph.js';

/** `256 × 56 × 56`: sizes without the batch. */
export function formatDims(dims: StatedDims | null): string {
  if (dims === null) return '';
  if (dims.length === 0) return 'scalar';
  return dims.map((size) => (size === null ? '?' : String(size))).join(' × ');
}

/** `4.09 G`, `102 MB`, `1.2 ms`; empty for nothing. */
export function formatCost(cost: number, metric: Metric): string {
  if (cost === 0) return '';
  if (metric === 'bytes') return formatBytes(cost);
  if (metric === 'milliseconds')
    return cost < 0.095 ? `${(1000 * cost).toFixed(0)} µs` : `${cost.toPrecision(cost < 100 ? 2 : 3)} ms`;
  return formatLarge(cost);
}

export const METRIC_NAMES: Readonly<Record<Metric, string>> = {
  macs: 'multiply-accumulates',
  parameters: 'parameters',
  bytes: 'bytes of results',
  milliseconds: 'time',
};

/** `20 %`, `0.3 %`; empty for nothing. */
export function formatShare(share: number): string {
  if (share === 0) return '0 %';
  return share < 0.001 ? '< 0.1 %' : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** The path before a name's last part, and that part; numbers alone are no part. No path where the box around shows it. */
export function splitName(name: string, around: string): readonly [before: string, last: string] {
  const slash = name.lastIndexOf('/');
  if (slash > 0) return [around === '' ? name.slice(0, slash + 1) : '', name.slice(slash + 1)];
  const atoms = name.split('.');
  let from = atoms.length - 1;
  while (from > 0 && /^\d+$/.test(atoms[from]!)) from--;
  const last = atoms.slice(from).join('.');
  const before = name.slice(0, name.length - last.length);
  return [before === `${around}.` ? '' : before, last];
}

/** Height and width in pixels of the sign for a tensor without its batch: the logarithms of its resolution and of its channels. */
export function signOf(dims: StatedDims | null): readonly [height: number, width: number] | undefined {
  const sizes = (dims ?? []).filter((size) => size !== 1);
  if (sizes.some((size) => typeof size !== 'number') || (dims ?? []).length === 0) return undefined;
  const known = sizes as number[];
  const [channels, side] =
    known.length >= 3
      ? [known[0]!, known[1]!]
      : known.length === 2
        ? [known[1]!, Math.sqrt(known[0]!)]
        : [known[0] ?? 1, 1];
  return [2 + 2.9 * Math.log2(Math.max(1, side)), 2 + 3.1 * Math.log2(Math.max(1, channels))];
}

/** What a mark means. */
export const MARKS: Readonly<Record<string, readonly [label: string, why: string]>> = {
  folded: [
    'folded',
    'It holds the value of the BatchNorm after it, which the exporter folded into its weights.',
  ],
  quantized: ['quantised', 'Its numbers are quantised integers, or computed from them.'],
  constant: ['constant', 'It depends on no input.'],
  sizes: ['sizes', 'It depends only on the sizes of inputs.'],
};
