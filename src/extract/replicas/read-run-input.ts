/** What a caller passes to a run → the model's feeds. */
import { imageOfApplied } from '../../photos/images/transform/load-pixels.js';
import { feedTensors } from '../../photos/feeds/match-tensors.js';
import { arePhotos } from '../../photos/images/transform/photo-tensors.js';
import { mismatch, type NamedTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { readFeeds } from '../../onnx/tensor/read-feeds.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { LoadedPhoto } from './run-options.js';

/** Reads a `RunInput`: one tensor per input, in the model's order. Throws `INPUT_MISMATCH`. */
export function readRunInput(inputs: readonly TensorInfo[], input: unknown): NamedTensor[] {
  const tensors = tensorsOfPhotos(input);
  if (tensors) return feedTensors(inputs, tensors);
  if (isPhoto(input)) return readFeeds(inputs, input.toTensor());
  if (isPixels(input) && !inputs.some(({ name }) => name === 'data'))
    throw mismatch(
      'photo',
      'a photo of loadImage, or what apply() of a transform gives',
      'pixels; embed takes them',
    );
  return readFeeds(inputs, input);
}

/** Whether it is one photo, which cannot be split over devices. */
export function isPhoto(input: unknown): input is LoadedPhoto {
  return (
    typeof input === 'object' && input !== null && 'toTensor' in input && typeof input.toTensor === 'function'
  );
}

/** Whether it is decoded pixels, which no transform has made ready. */
function isPixels(input: unknown): boolean {
  return (
    typeof input === 'object' && input !== null && 'data' in input && ('width' in input || 'info' in input)
  );
}

/** The tensors of photos, which are matched to the inputs; undefined for what is fed as it is. */
function tensorsOfPhotos(input: unknown): Readonly<Record<string, Tensor>> | undefined {
  if (arePhotos(input)) return input;
  return (isPhoto(input) ? input : imageOfApplied(input))?.toTensors?.();
}
