/** The tensors of a photo that is cut into patches, as transformers names, types and shapes them. */
import { cutPatches, gridOf, patchLength, type PatchLayout } from '../../../onnx/tensor/cut-patches.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import { patchProcessor, type PatchOptions } from './patch-processors.js';
import type { RgbImage } from '../pixels/rgb-image.js';

/** The order of the numbers that a processor gives. */
export function layoutOf(patches: PatchOptions): PatchLayout {
  return patchProcessor(patches).layoutOf(patches);
}

/** Describes the tensors of one photo. */
export function patchTensors(patches: PatchOptions): readonly TensorInfo[] {
  const length = patchLength(layoutOf(patches));
  const padded = patchProcessor(patches).paddedTo(patches);
  if (padded === null)
    return [
      { name: 'pixel_values', dtype: 'float32', dims: ['patches', length] },
      { name: 'image_grid_thw', dtype: 'int64', dims: [1, 3] },
    ];
  return [
    { name: 'pixel_values', dtype: 'float32', dims: [1, padded, length] },
    { name: 'pixel_attention_mask', dtype: 'int32', dims: [1, padded] },
    { name: 'spatial_shapes', dtype: 'int64', dims: [1, 2] },
  ];
}

/**
 * Makes the tensors of one photo.
 *
 * @param values - The value of each channel and byte.
 */
export function cutTensors(
  image: RgbImage,
  patches: PatchOptions,
  values: Float32Array,
): Record<string, Tensor> {
  const layout = layoutOf(patches);
  const length = patchLength(layout);
  const grid = gridOf(image, layout);
  const count = grid[0] * grid[1];
  const padded = patchProcessor(patches).paddedTo(patches);
  const data = new Float32Array((padded ?? count) * length);
  cutPatches(image, layout, values, data);
  if (padded === null)
    return {
      pixel_values: makeTensor('float32', [count, length], data),
      image_grid_thw: makeTensor('int64', [1, 3], BigInt64Array.from([1, ...grid], BigInt)),
    };
  return {
    pixel_values: makeTensor('float32', [1, padded, length], data),
    pixel_attention_mask: makeTensor('int32', [1, padded], new Int32Array(padded).fill(1, 0, count)),
    spatial_shapes: makeTensor('int64', [1, 2], BigInt64Array.from(grid, BigInt)),
  };
}
