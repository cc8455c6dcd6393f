/** What a caller passes to a run → the model's feeds. */
import { feedTensors } from '../../photos/feeds/match-tensors.js';
import { arePhotos } from '../../photos/images/transform/photo-tensors.js';
import { readFeeds } from '../../onnx/tensor/read-feeds.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { NamedTensor, Tensor } from '../../onnx/tensor/tensor.js';
import type { LoadedPhoto } from './run-options.js';

/** Reads a `RunInput`: one tensor per input, in the model's order. Throws `INPUT_MISMATCH`. */
export function readRunInput(inputs: readonly TensorInfo[], input: unknown): NamedTensor[] {
  const tensors = tensorsOfPhotos(input);
  if (tensors) return feedTensors(inputs, tensors);
  return readFeeds(inputs, isPhoto(input) ? input.toTensor() : input);
}

/** Whether it is one photo, which cannot be split over devices. */
export function isPhoto(input: unknown): input is LoadedPhoto {
  return (
    typeof input === 'object' && input !== null && 'toTensor' in input && typeof input.toTensor === 'function'
  );
}

/** The tensors of photos, which are matched to the inputs; undefined for what is fed as it is. */
function tensorsOfPhotos(input: unknown): Readonly<Record<string, Tensor>> | undefined {
  if (arePhotos(input)) return input;
  return isPhoto(input) ? input.toTensors?.() : undefined;
}
