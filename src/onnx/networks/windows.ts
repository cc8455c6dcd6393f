/**
 * Windows of a map `[batch, …sides, channels]`, for attention inside them, shifted or not, over height and width or over time, height and width. The sides of the map are open: all
 * sizes are computed in the graph. Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.
 */
import { sizes } from './layers.js';
import type { Module } from './module.js';

/** What windows of a map's size need, as tensors. */
export interface Windows {
  /** The length of a window along each axis, each `[1]`. */
  readonly sides: readonly string[];
  /** The number of tokens in a window, `[1]`. */
  readonly tokens: string;
  /** The sides of the map. */
  readonly size: string;
  /** The same, padded to whole windows. */
  readonly padded: string;
  /** What is padded, as the operator Pad takes it. */
  readonly pads: string;
  /** Numbers of windows along each axis, each `[1]`. */
  readonly counts: readonly string[];
  /** Per axis, for shifted windows: where the pixels come from, and where they go back to. */
  readonly shifted: readonly Roll[];
  /** `[windows, 1, tokens, tokens]`: −100 where tokens of a shifted window come from different edges of the map, else 0. */
  readonly mask: string;
}

interface Roll {
  readonly there: string;
  readonly back: string;
  /** The number of the region that a pixel is in. */
  readonly region: string;
}

/** Lengths of windows. */
export interface WindowShape {
  /** Per axis. */
  readonly sides: readonly number[];
  /** Whether windows become smaller where the map is; else the map is padded. */
  readonly isAdaptive: boolean;
}

export function windowsOf(module: Module, map: string, { sides: given, isAdaptive }: WindowShape): Windows {
  const axes = given.length;
  const node = (opType: string, ...inputs: string[]): string => module.node(opType, inputs);
  const whole = (values: number | readonly number[]): string => module.constant(values);
  const size = sizes(module, map, 1, 1 + axes);
  const side = isAdaptive ? node('Min', size, whole(given)) : whole(given);
  const counts = node('Div', node('Add', size, node('Sub', side, whole(1))), side);
  const padded = node('Mul', counts, side);
  const none = whole([0]);
  const before = Array.from({ length: axes + 3 }, () => none);
  const pads = joinSizes(module, [...before, node('Sub', padded, size), none]);
  // A map of one window is not shifted.
  const isShifted = module.node('Cast', [node('Greater', padded, side)], { to: 7 });
  const shift = node('Mul', isShifted, node('Div', side, whole(2)));
  const part = (list: string, axis: number): string => node('Gather', list, whole([axis]));
  const scalar = (list: string, axis: number): string => node('Gather', list, whole(axis));
  const shifted = given.map((_, axis): Roll => {
    const length = scalar(padded, axis);
    const by = scalar(shift, axis);
    const places = node('Range', whole(0), length, whole(1));
    const atLeast = (limit: string): string =>
      module.node('Cast', [node('GreaterOrEqual', places, node('Sub', length, limit))], { to: 7 });
    return {
      there: node('Mod', node('Add', places, by), length),
      back: node('Mod', node('Add', places, node('Sub', length, by)), length),
      region: node('Add', atLeast(scalar(side, axis)), atLeast(by)),
    };
  });
  const sides = given.map((length, axis) => (isAdaptive ? part(side, axis) : whole([length])));
  const volume = given.reduce((product, length) => product * length, 1);
  const tokens = isAdaptive
    ? sides.reduce((product, length) => node('Mul', product, length))
    : whole([volume]);
  const numbers = given.map((_, axis) => part(counts, axis));
  // Regions of earlier axes count for more, and their pixels lie before those of later ones.
  const regions = shifted
    .map(({ region }) => region)
    .reduce((all, region) => node('Add', node('Mul', node('Unsqueeze', all, whole([-1])), whole(3)), region));
  const apart = node('Reshape', regions, joinSizes(module, interleave(numbers, sides)));
  const grouped = module.node('Transpose', [apart], { perm: inWindows(axes, 0) });
  const list = node('Reshape', grouped, joinSizes(module, [whole([-1]), tokens]));
  const same = node('Equal', node('Unsqueeze', list, whole([1])), node('Unsqueeze', list, whole([2])));
  const penalty = node('Where', same, module.constant({ float: 0 }), module.constant({ float: -100 }));
  const mask = node('Unsqueeze', penalty, whole([1]));
  return { sides, tokens, size, padded, pads, counts: numbers, shifted, mask };
}

/** Lists of sizes one after the other. */
export function joinSizes(module: Module, parts: readonly string[]): string {
  return module.node('Concat', parts, { axis: 0 });
}

function interleave<Item>(first: readonly Item[], second: readonly Item[]): Item[] {
  return first.flatMap((item, at) => [item, second[at]!]);
}

/** The order of axes `count, side, count, side, …` from one on that has all counts first. */
function inWindows(axes: number, from: number): number[] {
  const pairs = Array.from({ length: axes }, (_, at) => from + 2 * at);
  return [...pairs, ...pairs.map((at) => at + 1)];
}

interface WindowOptions {
  readonly channels: number;
  readonly isShifted: boolean;
}

/** A map → its windows, `[batch · windows, tokens, channels]`. */
export function toWindows(
  module: Module,
  map: string,
  { sides, tokens, pads, counts, shifted }: Windows,
  { channels, isShifted }: WindowOptions,
): string {
  let x = module.node('Pad', [map, pads]);
  if (isShifted)
    shifted.forEach(({ there }, k) => {
      x = module.node('Gather', [x, there], { axis: k + 1 });
    });
  const axes = sides.length;
  const [batch, last] = [module.constant([-1]), module.constant([channels])];
  const apart = joinSizes(module, [batch, ...interleave(counts, sides), last]);
  const perm = [0, ...inWindows(axes, 1), 2 * axes + 1];
  x = module.node('Transpose', [module.node('Reshape', [x, apart])], { perm });
  return module.node('Reshape', [x, joinSizes(module, [batch, tokens, last])]);
}

/** The reverse of {@link toWindows}. */
export function fromWindows(
  module: Module,
  tokens: string,
  { sides, size, padded, counts, shifted }: Windows,
  { channels, isShifted }: WindowOptions,
): string {
  const axes = sides.map((_, k) => k + 1);
  const [batch, last] = [module.constant([-1]), module.constant([channels])];
  let x = module.node('Reshape', [tokens, joinSizes(module, [batch, ...counts, ...sides, last])]);
  const perm = [0, ...axes.flatMap((axis) => [axis, axis + axes.length]), 2 * axes.length + 1];
  x = module.node('Transpose', [x], { perm });
  x = module.node('Reshape', [x, joinSizes(module, [batch, padded, last])]);
  if (isShifted)
    shifted.forEach(({ back }, k) => {
      x = module.node('Gather', [x, back], { axis: k + 1 });
    });
  return module.node('Slice', [x, module.constant(axes.map(() => 0)), size, module.constant(axes)]);
}
