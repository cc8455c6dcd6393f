/** Scaled dot-product attention. Vaswani et al., "Attention Is All You Need", 2017. */
import type { Module } from './module.js';

export interface AttentionOptions {
  readonly channels: number;
  readonly heads: number;
  /** Number of the tokens that see each other; left out where it is open. */
  readonly tokens?: number;
  /** Scores `[batch, heads, tokens, tokens]` of queries and keys `[batch, tokens, heads, width]`; their product unless given. */
  readonly score?: (queries: string, keys: string) => string;
}

/** Attention of tokens to each other, `[batch, tokens, channels]`. Queries, keys and values lie side by side, `[batch, tokens, 3 · channels]`. */
export function attention(
  layer: Module,
  joined: string,
  { channels, heads, tokens, ...given }: AttentionOptions,
): string {
  const width = channels / heads;
  const score =
    given.score ??
    ((queries, keys) =>
      dotProducts(layer, layer.node('Mul', [queries, layer.constant({ float: width ** -0.5 })]), keys));
  // 0 keeps a size.
  const lead = tokens === undefined ? [0, 0] : [-1, tokens];
  const byHead = layer.constant([...lead, heads, width]);
  const [queries, keys, values] = layer
    .split(joined, -1, [channels, channels, channels])
    .map((part) => layer.node('Reshape', [part, byHead])) as [string, string, string];
  const shares = layer.node('Softmax', [score(queries, keys)], { axis: -1 });
  const mixed = layer.node('MatMul', [shares, headsFirst(layer, values)]);
  return layer.node('Reshape', [headsFirst(layer, mixed), layer.constant([...lead, channels])]);
}

/** The product of every query with every key, per head. */
export function dotProducts(layer: Module, queries: string, keys: string): string {
  const columns = layer.node('Transpose', [keys], { perm: [0, 2, 3, 1] });
  return layer.node('MatMul', [headsFirst(layer, queries), columns]);
}

/** Swaps tokens and heads. */
function headsFirst(layer: Module, tensor: string): string {
  return layer.node('Transpose', [tensor], { perm: [0, 2, 1, 3] });
}

/** For every pair of places in a window: the row of their distance in a table of all distances, whose last axis is the last side. */
export function relativePositions(sides: readonly number[]): number[] {
  const places = sides.reduce<readonly (readonly number[])[]>(
    (all, side) => all.flatMap((place) => Array.from({ length: side }, (_, at) => [...place, at])),
    [[]],
  );
  const rowOf = (a: readonly number[], b: readonly number[]): number =>
    sides.reduce((row, side, axis) => row * (2 * side - 1) + a[axis]! - b[axis]! + side - 1, 0);
  return places.flatMap((place) => places.map((other) => rowOf(place, other)));
}
