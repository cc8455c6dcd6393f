/** Which tensors are those of photos, beside what users see. */
import type { Tensor } from '../../../onnx/tensor/tensor.js';

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
