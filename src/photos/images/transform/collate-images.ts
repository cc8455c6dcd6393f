/** Photos → the tensors of a batch. */
import { invalidOption } from '../../../base/checks.js';
import { createData, elementCount, makeTensor, mismatch, type Tensor } from '../../../onnx/tensor/tensor.js';
import type { LoadedImage } from './load-pixels.js';
import { markAsPhotos } from './photo-tensors.js';
import { transformOf, type Transform } from './transform.js';

/**
 * Puts photos into one batch, as the transform's library does for a list of them: tensors are stacked, and the patches of Qwen-VL models
 * joined one photo after the other.
 *
 * @param images - Photos from {@link loadImage}, at least one, all of the same transform.
 * @returns The tensors by name, in new buffers. Four photos of NaFlex with 256 patches of 16 × 16 pixels give `pixel_values`
 * `[4, 256, 768]` float32, `pixel_attention_mask` `[4, 256]` int32 and `spatial_shapes` `[4, 2]` int64. `run` takes them as they are.
 * @throws {@link TapirError} `INPUT_MISMATCH` for photos of unlike shape whose transform gives one tensor: nothing shows a model which
 * part is padding. `OPTION_INVALID` for photos of different transforms, or not from {@link loadImage}.
 *
 * @example
 * ```ts
 * import { collateImages, loadImage, transformFromConfig } from 'onnx-tapir';
 *
 * const naflex = transformFromConfig({ image_processor_type: 'Siglip2ImageProcessor', max_num_patches: 256 });
 * const photos = [await loadImage('wide.jpg', naflex), await loadImage('tall.jpg', naflex)];
 * console.log(collateImages(photos)['pixel_values']?.dims); // [2, 256, 768]
 * ```
 */
export function collateImages(images: readonly LoadedImage[]): Record<string, Tensor> {
  const [first] = checkImages(images);
  const batch = images.map((image) => image.toTensors());
  const joined = first!.tensors.map(
    ({ name }) =>
      [
        name,
        join(
          name,
          batch.map((one) => one[name]!),
        ),
      ] as const,
  );
  return markAsPhotos(Object.fromEntries(joined));
}

function checkImages(images: unknown): readonly Transform[] {
  const list: readonly unknown[] = Array.isArray(images) ? Array.from(images) : [];
  const transforms = list.map((image) => {
    const transform = transformOf(image);
    if (!transform) throw invalidOption('images', 'photos from loadImage', image);
    return transform;
  });
  if (transforms.length === 0)
    throw invalidOption('images', 'a list of photos from loadImage, at least one', images);
  const kinds = new Set(transforms.map(({ options }) => JSON.stringify(options)));
  if (kinds.size > 1)
    throw invalidOption('images', 'photos of one transform', `photos of ${kinds.size} transforms`);
  return transforms;
}

/** Joins tensors along their first axis. */
function join(name: string, tensors: readonly Tensor[]): Tensor {
  const [{ dtype, dims }] = tensors as readonly [Tensor, ...Tensor[]];
  const [, ...inner] = dims;
  const odd = tensors.find((tensor) => tensor.dims.slice(1).join() !== inner.join());
  if (odd) {
    const expected = `[1, ${inner.join(', ')}] for every photo: a model cannot tell padding from pixels (crop, or resize to one size)`;
    throw mismatch(name, expected, `[${odd.dims.join(', ')}]`);
  }
  const rows = tensors.reduce((sum, tensor) => sum + tensor.dims[0]!, 0);
  const data = createData(dtype, rows * elementCount(inner)) as Float32Array;
  let at = 0;
  for (const tensor of tensors) {
    // All have the same dtype.
    data.set(tensor.data as Float32Array, at);
    at += tensor.data.length;
  }
  return makeTensor(dtype, [rows, ...inner], data);
}
