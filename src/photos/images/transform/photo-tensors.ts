/** What is known of photos and of their tensors, beside what users see. */
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import type { Transform } from './transform.js';

const transforms = new WeakMap<object, Transform>();

/** Remembers the transform of a loaded image, and returns the image. */
export function keepTransform<Image extends object>(image: Image, transform: Transform): Image {
  transforms.set(image, transform);
  return image;
}

/** The transform of a loaded image; undefined for anything else. */
export function transformOf(image: unknown): Transform | undefined {
  return typeof image === 'object' && image !== null ? transforms.get(image) : undefined;
}

const ofPhotos = new WeakSet<object>();

/** Remembers that tensors are those of photos, which `run` matches to the inputs of a model. Returns them. */
export function markAsPhotos(tensors: Record<string, Tensor>): Record<string, Tensor> {
  ofPhotos.add(tensors);
  return tensors;
}

/** Whether tensors come from `toTensors` or `collateImages`. */
export function arePhotos(tensors: unknown): tensors is Readonly<Record<string, Tensor>> {
  return typeof tensors === 'object' && tensors !== null && ofPhotos.has(tensors);
}
