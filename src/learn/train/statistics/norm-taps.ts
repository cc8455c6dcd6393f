/** What runs of a rewritten graph tell about norms, and statistics as its feeds. */
import {
  momentsType,
  type Norm,
  type NormFeed,
  type NormRewrite,
} from '../../../onnx/graph/rewrite/norm-statistics.js';
import { mismatch, makeTensor, nameTensor, type NamedTensor } from '../../../onnx/tensor/tensor.js';
import { wholePart, type FeedPart } from '../../../onnx/tensor/tensor-part.js';
import type { Outputs } from '../../../extract/replicas/dispatch.js';
import type { ChannelMoments, ChannelStatistics } from './channel-moments.js';

/** The moments that a run gave for a norm. */
export function readTap({ taps }: Pick<NormRewrite, 'taps'>, norm: Norm, outputs: Outputs): ChannelMoments {
  const tap = taps.get(norm)!;
  const valuesOf = (name: string): NamedTensor => outputs.find((output) => output.name === name)!;
  const [rows, , ...positions] = Array.from(valuesOf(tap.shape).data as BigInt64Array, Number);
  const count = positions.reduce((product, size) => product * size, rows!);
  const read = (name: string): Float64Array => new Float64Array(valuesOf(name).data as Float32Array);
  const [rounded, rest, squares] = [read(tap.mean), read(tap.rest), read(tap.variance)];
  // The mean of float32 is off by some rest; the squares are taken around it.
  const mean = rounded.map((value, c) => value + rest[c]!);
  const variance = squares.map((value, c) => Math.max(0, value - rest[c]! ** 2));
  if (![...mean, ...variance].every(Number.isFinite))
    throw mismatch(norm.input.name, 'finite, for moments to exist', 'infinite values or NaN');
  return { count, mean, m2: variance.map((value) => value * count) };
}

/** Statistics as feeds of a rewritten graph. */
export function feedStatistics(
  norm: Norm,
  feed: NormFeed,
  { mean, variance }: ChannelStatistics,
): FeedPart[] {
  const type = momentsType(norm);
  const part = (name: string, values: Float64Array): FeedPart => {
    const data = type === 'float64' ? values : new Float32Array(values);
    return wholePart(nameTensor(name, makeTensor(type, [norm.channels], data as never)));
  };
  return [part(feed.mean, mean), part(feed.variance, variance)];
}
