/** What processors that cut patches do, by name: all that differs between them. A further name lacks its row, and does not compile. */
import type { PatchLayout } from '../../../onnx/tensor/cut-patches.js';
import type { Size } from '../pixels/geometry.js';
import {
  glmSize,
  naflexSize,
  qwenSize,
  type NaflexPatches,
  type PatchOptions,
  type QwenPatches,
} from './patch-sizes.js';

/** The rules of one processor. */
interface PatchProcessor<Given extends PatchOptions> {
  /** Every option, and its default. */
  readonly defaults: Given;
  /** The size that an image is resized to before it is cut. Throws `IMAGE_MISFIT`. */
  sizeOf(image: Size, given: Given): Size;
  /** The order of the numbers. */
  layoutOf(given: Given): PatchLayout;
  /** The rows that a photo is padded to, with a mask beside them; null if photos have rows of their own, with a grid beside them. */
  paddedTo(given: Given): number | null;
  /** How many patches a photo has, in words. */
  mostOf(given: Given): string;
}

type OptionsOf<Name> = Name extends NaflexPatches['processor'] ? NaflexPatches : QwenPatches;

const QWEN: PatchProcessor<QwenPatches> = {
  defaults: {
    processor: 'qwen2-vl',
    size: 14,
    merge: 2,
    frames: 2,
    minPixels: 56 * 56,
    maxPixels: 28 * 28 * 1280,
  },
  sizeOf: (image, given) => qwenSize(image, given, 1),
  layoutOf: ({ size, merge, frames }) => ({ size, merge, frames, isLast: false }),
  paddedTo: () => null,
  mostOf: ({ minPixels, maxPixels }) => `${minPixels} to ${maxPixels} pixels of a photo`,
};

export const PATCH_PROCESSORS: {
  readonly [Name in PatchOptions['processor']]: PatchProcessor<OptionsOf<Name>>;
} = {
  naflex: {
    defaults: { processor: 'naflex', size: 16, maxPatches: 256 },
    sizeOf: naflexSize,
    layoutOf: ({ size }) => ({ size, merge: 1, frames: 1, isLast: true }),
    paddedTo: ({ maxPatches }) => maxPatches,
    mostOf: ({ maxPatches }) => `at most ${maxPatches} of a photo`,
  },
  'qwen2-vl': QWEN,
  'glm-4v': {
    ...QWEN,
    defaults: { ...QWEN.defaults, processor: 'glm-4v', minPixels: 112 * 112, maxPixels: 28 * 28 * 15_000 },
    sizeOf: glmSize,
    mostOf: (given) => `${QWEN.mostOf(given)} and its ${given.frames} frames`,
  },
};

/** The rules of the processor that options name. */
export function patchProcessor<Given extends PatchOptions>({ processor }: Given): PatchProcessor<Given> {
  // The row of that name takes these options.
  return PATCH_PROCESSORS[processor] as unknown as PatchProcessor<Given>;
}
