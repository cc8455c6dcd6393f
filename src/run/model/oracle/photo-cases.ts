/** Photos of odd sizes, for a cut that takes photos: what it is fed, and what the full graph is. */
import { isTapirError } from '../../../base/errors.js';
import { mixBits } from '../../../base/random.js';
import type { DecodedPhoto, PhotoFront } from '../../../onnx/graph/rewrite/photo-input.js';
import { PHOTO_INPUT } from '../../../onnx/tensor/tensor-info.js';
import { makeTensor, nameTensor, type NamedTensor } from '../../../onnx/tensor/tensor.js';

/** A pixel, a strip, and photos larger and smaller than what models take. */
const SIZES = [
  [1, 1],
  [131, 17],
  [301, 457],
  [683, 512],
] as const;

/** The feeds of one run. */
export interface PhotoCase {
  /** Those of the full graph, with the pixels that the front's transform gives. */
  readonly feeds: readonly NamedTensor[];
  /** The feed of the cut. */
  readonly photos: NamedTensor;
}

/**
 * The cases of a front.
 *
 * @param made - Made-up feeds of the full graph: those of its other inputs, and the number of rows.
 */
export function photoCases(front: PhotoFront, made: readonly NamedTensor[], seed: number): PhotoCase[] {
  const rows = made.find(({ name }) => name === front.input)!.dims[0]!;
  return SIZES.flatMap(([height, width], place): PhotoCase[] => {
    const photos = Array.from({ length: rows }, (_, row) =>
      makePhoto(height, width, seed + 31 * place + row),
    );
    const pixels = tensorOf(front, photos);
    if (!pixels) return [];
    const data = Buffer.concat(photos.map((photo) => photo.data));
    const dims = [...(front.hasBatch ? [rows] : []), height, width, 3];
    return [
      {
        feeds: made.map((feed) => (feed.name === front.input ? nameTensor(feed.name, pixels) : feed)),
        photos: nameTensor(PHOTO_INPUT, makeTensor('uint8', dims, new Uint8Array(data))),
      },
    ];
  });
}

/** The pixels of photos; undefined where the transform takes none of their size. */
function tensorOf(
  front: PhotoFront,
  photos: readonly DecodedPhoto[],
): ReturnType<PhotoFront['tensorOf']> | undefined {
  try {
    return front.tensorOf(photos);
  } catch (error) {
    if (isTapirError(error, 'IMAGE_MISFIT')) return undefined;
    throw error;
  }
}

function makePhoto(height: number, width: number, seed: number): DecodedPhoto {
  const start = Math.imul(mixBits(seed), 0x9e3779b9);
  const data = Uint8Array.from({ length: height * width * 3 }, (_, at) => mixBits(start + at));
  return { height, width, data };
}
