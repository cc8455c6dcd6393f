/**
 * What processors that cut patches do, by name: all that differs between them. A further one is its options, its size and its row here, and
 * the classes of transformers that it stands for. Sizes are whole numbers of patches, as many as the processor allows. Algorithms:
 * transformers, image_processing_siglip2.py, image_processing_qwen2_vl.py and image_processing_glm4v.py (Apache-2.0).
 */
import { roundHalfEven } from '../../../base/round-half-even.js';
import type { PatchLayout } from '../../../onnx/tensor/cut-patches.js';
import { misfitImage } from '../file/image-errors.js';
import type { Size } from '../pixels/geometry.js';

/** NaFlex of SigLIP 2: the largest picture of at most so many patches. */
export interface NaflexPatches {
  readonly processor: 'naflex';
  /** Pixels of a patch's side. */
  readonly size: number;
  /** The most patches of a photo; tensors are padded to this number. */
  readonly maxPatches: number;
}

/**
 * Qwen2-VL, 2.5-VL and 3-VL: whole blocks of patches, with a number of pixels between two limits. GLM-4V counts those of all frames, and
 * first enlarges a photo that is smaller than a block.
 */
export interface QwenPatches {
  readonly processor: 'qwen2-vl' | 'glm-4v';
  /** Pixels of a patch's side. */
  readonly size: number;
  /** Patches of a block's side; the model merges the patches of a block. */
  readonly merge: number;
  /** How often a photo is repeated, as the frames of a video. */
  readonly frames: number;
  readonly minPixels: number;
  readonly maxPixels: number;
}

/** How a photo is cut into patches. */
export type PatchOptions = NaflexPatches | QwenPatches;

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

/** The options that have this name. */
type OptionsOf<Name, Given = PatchOptions> = Given extends { readonly processor: infer Names }
  ? Name extends Names
    ? Given
    : never
  : never;

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

/** The search ends when its limits are this close. */
const EPSILON = 1e-5;
/** Images are enlarged at most by this factor. */
const MOST_SCALE = 100;

/** The largest scale whose patches are few enough, found by halving. */
export function naflexSize({ height, width }: Size, { size, maxPatches }: NaflexPatches): Size {
  const sideOf = (side: number, scale: number): number =>
    Math.max(size, Math.ceil((side * scale) / size) * size);
  let [low, high] = [EPSILON / 10, MOST_SCALE];
  while (high - low >= EPSILON) {
    const scale = (low + high) / 2;
    const count = (sideOf(height, scale) / size) * (sideOf(width, scale) / size);
    if (count <= maxPatches) low = scale;
    else high = scale;
  }
  return { height: sideOf(height, low), width: sideOf(width, low) };
}

/** Longer photos are refused. */
const MOST_RATIO = 200;

/** `smart_resize`. @param frames - How often the pixels of a photo count. */
export function qwenSize(
  { height, width }: Size,
  { size, merge, minPixels, maxPixels }: QwenPatches,
  frames: number,
): Size {
  const ratio = Math.max(height, width) / Math.min(height, width);
  if (ratio > MOST_RATIO)
    throw misfitImage(
      `its longer side is ${ratio} times the shorter one, and the processor takes at most ${MOST_RATIO}`,
    );
  const block = size * merge;
  const sides = (round: (blocks: number) => number, of: (side: number) => number): Size => ({
    height: round(of(height) / block) * block,
    width: round(of(width) / block) * block,
  });
  const plain = sides(roundHalfEven, (side) => side);
  const pixels = frames * plain.height * plain.width;
  if (pixels > maxPixels) {
    const by = Math.sqrt((frames * height * width) / maxPixels);
    return sides(
      (blocks) => Math.max(1, Math.floor(blocks)),
      (side) => side / by,
    );
  }
  if (pixels >= minPixels) return plain;
  const by = Math.sqrt(minPixels / (frames * height * width));
  return sides(Math.ceil, (side) => side * by);
}

/** `smart_resize` of GLM-4V. */
export function glmSize({ height, width }: Size, patches: QwenPatches): Size {
  const block = patches.size * patches.merge;
  const by = Math.min(height, width) < block ? Math.max(block / height, block / width) : 1;
  const grown = { height: Math.trunc(height * by), width: Math.trunc(width * by) };
  return qwenSize(grown, patches, patches.frames);
}
