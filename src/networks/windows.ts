/**
 * Square windows of a map `[batch, height, width, channels]`, for attention inside them, shifted or not. Height and width are open: all
 * sizes are computed in the graph. Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.
 */
import { sizes } from './layers.js';
import type { Module } from './module.js';

/** What windows of a map's size need, as tensors. */
export interface Windows {
  readonly side: number;
  /** Height and width of the map. */
  readonly size: string;
  /** The same, padded to whole windows. */
  readonly padded: string;
  /** What is padded, as the operator Pad takes it. */
  readonly pads: string;
  /** Numbers of windows along the height and the width, each `[1]`. */
  readonly counts: readonly [string, string];
  /** Per axis, for shifted windows: where the pixels come from, and where they go back to. */
  readonly shifted: readonly [Roll, Roll];
  /** `[windows, 1, side², side²]`: −100 where tokens of a shifted window come from different edges of the map, else 0. */
  readonly mask: string;
}

interface Roll {
  readonly there: string;
  readonly back: string;
  /** The number of the region that a pixel is in. */
  readonly region: string;
}

export function windowsOf(module: Module, map: string, side: number): Windows {
  const node = (opType: string, ...inputs: string[]): string => module.node(opType, inputs);
  const whole = (values: number | readonly number[]): string => module.constant(values);
  const size = sizes(module, map, 1, 3);
  const counts = node('Div', node('Add', size, whole(side - 1)), whole(side));
  const padded = node('Mul', counts, whole(side));
  const none = whole([0]);
  const pads = joinSizes(module, [none, none, none, none, none, node('Sub', padded, size), none]);
  // A map of one window is not shifted.
  const isShifted = module.node('Cast', [node('Greater', padded, whole(side))], { to: 7 });
  const shift = node('Mul', isShifted, whole(Math.floor(side / 2)));
  const roll = (axis: number): Roll => {
    const length = node('Gather', padded, whole(axis));
    const by = node('Gather', shift, whole(axis));
    const places = node('Range', whole(0), length, whole(1));
    const atLeast = (limit: string): string =>
      module.node('Cast', [node('GreaterOrEqual', places, node('Sub', length, limit))], { to: 7 });
    return {
      there: node('Mod', node('Add', places, by), length),
      back: node('Mod', node('Add', places, node('Sub', length, by)), length),
      region: node('Add', atLeast(whole(side)), atLeast(by)),
    };
  };
  const shifted = [roll(0), roll(1)] as const;
  const down = node('Unsqueeze', node('Gather', counts, whole(0)), none);
  const across = node('Unsqueeze', node('Gather', counts, whole(1)), none);
  const rows = node('Mul', node('Unsqueeze', shifted[0].region, whole([1])), whole(3));
  const regions = node('Add', rows, shifted[1].region);
  const sides = whole([side]);
  const apart = node('Reshape', regions, joinSizes(module, [down, sides, across, sides]));
  const grouped = module.node('Transpose', [apart], { perm: [0, 2, 1, 3] });
  const tokens = node('Reshape', grouped, whole([-1, side * side]));
  const same = node('Equal', node('Unsqueeze', tokens, whole([1])), node('Unsqueeze', tokens, whole([2])));
  const penalty = node('Where', same, module.constant({ float: 0 }), module.constant({ float: -100 }));
  const mask = node('Unsqueeze', penalty, whole([1]));
  return { side, size, padded, pads, counts: [down, across], shifted, mask };
}

/** Lists of sizes one after the other. */
export function joinSizes(module: Module, parts: readonly string[]): string {
  return module.node('Concat', parts, { axis: 0 });
}

/** A map → its windows, `[batch · windows, side², channels]`. */
export function toWindows(
  module: Module,
  map: string,
  { side, pads, counts, shifted }: Windows,
  { channels, isShifted }: { readonly channels: number; readonly isShifted: boolean },
): string {
  let x = module.node('Pad', [map, pads]);
  if (isShifted)
    shifted.forEach(({ there }, k) => {
      x = module.node('Gather', [x, there], { axis: k + 1 });
    });
  const [down, across] = counts;
  const sides = module.constant([side]);
  const batch = module.constant([-1]);
  const apart = joinSizes(module, [batch, down, sides, across, module.constant([side, channels])]);
  x = module.node('Transpose', [module.node('Reshape', [x, apart])], { perm: [0, 1, 3, 2, 4, 5] });
  return module.node('Reshape', [x, module.constant([-1, side * side, channels])]);
}

/** The reverse of {@link toWindows}. */
export function fromWindows(
  module: Module,
  tokens: string,
  { side, size, padded, counts, shifted }: Windows,
  { channels, isShifted }: { readonly channels: number; readonly isShifted: boolean },
): string {
  const batch = module.constant([-1]);
  const apart = joinSizes(module, [batch, ...counts, module.constant([side, side, channels])]);
  let x = module.node('Reshape', [tokens, apart]);
  x = module.node('Transpose', [x], { perm: [0, 1, 3, 2, 4, 5] });
  const whole = joinSizes(module, [batch, padded, module.constant([channels])]);
  x = module.node('Reshape', [x, whole]);
  if (isShifted)
    shifted.forEach(({ back }, k) => {
      x = module.node('Gather', [x, back], { axis: k + 1 });
    });
  return module.node('Slice', [x, module.constant([0, 0]), size, module.constant([1, 2])]);
}
