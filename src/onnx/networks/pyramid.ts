/** FeaturePyramidNetwork: Lin et al., "Feature Pyramid Networks for Object Detection", 2016. */
import { activate, add, batchNorm, conv, interpolate } from './layers.js';
import type { Module } from './module.js';
import type { Value } from './network.js';

/** What comes after the last level: `pool` is torchvision's LastLevelMaxPool, `p6p7` its LastLevelP6P7 (Lin et al., "Focal Loss", 2017). */
export type ExtraLevels = 'pool' | 'p6p7';

export interface PyramidShape {
  /** Channels of all levels. */
  readonly channels: number;
  /** Whether every convolution has a BatchNorm instead of a bias. */
  readonly hasNorms: boolean;
  readonly extra: ExtraLevels | undefined;
  /** Whether `p6` is computed from the last level of the pyramid, rather than from the map under it. */
  readonly isP6OfPyramid: boolean;
}

/** Writes a pyramid on feature maps, from the finest to the coarsest. Returns its levels in that order, those of `extra` last. */
export function writePyramid(fpn: Module, maps: readonly Value[], options: PyramidShape): Value[] {
  const { channels, hasNorms, extra, isP6OfPyramid } = options;
  const block = (name: string, at: number, x: Value, kernel: number): Value => {
    const module = fpn.child(name).child(String(at));
    const y = conv(module, '0', x, channels, { kernel, bias: !hasNorms });
    return hasNorms ? batchNorm(module, '1', y) : y;
  };
  const levels: Value[] = [];
  let inner: Value | undefined;
  for (const [at, map] of [...maps.entries()].toReversed()) {
    const lateral = block('inner_blocks', at, map, 1);
    inner = inner ? add(fpn, lateral, interpolate(fpn, inner, lateral, 'nearest')) : lateral;
    levels.unshift(block('layer_blocks', at, inner, 3));
  }
  fpn.arrange(['inner_blocks', 'layer_blocks'].flatMap((name) => maps.map((_, at) => `${name}.${at}`)));
  const last = levels.at(-1)!;
  const blocks = fpn.child('extra_blocks');
  if (extra === 'pool') levels.push(halve(blocks, last));
  if (extra === 'p6p7') {
    const wide = { kernel: 3, stride: 2, bias: true };
    const p6 = conv(blocks, 'p6', isP6OfPyramid ? last : maps.at(-1)!, channels, wide);
    levels.push(p6, conv(blocks, 'p7', activate(blocks, 'relu', p6, 'relu'), channels, wide));
  }
  return levels;
}

/** The keys of a pyramid's levels: those of its maps, and those of `extra`. */
export function levelKeys(maps: readonly string[], extra: ExtraLevels | undefined): string[] {
  const more = { pool: ['pool'], p6p7: ['p6', 'p7'] };
  return [...maps, ...(extra ? more[extra] : [])];
}

/** Older checkpoints have no number for the convolution of a block. */
export function renamePyramidKey(key: string): string {
  return key.replace(/((?:inner|layer)_blocks\.\d+)\.(weight|bias)$/, '$1.0.$2');
}

/** Every second pixel. */
function halve(module: Module, x: Value): Value {
  const attributes = { kernel_shape: [1, 1], strides: [2, 2] };
  return module.operation('max_pool2d', x.channels, 'MaxPool', [x.name], attributes);
}
