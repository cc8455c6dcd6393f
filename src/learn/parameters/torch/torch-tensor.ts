/** A tensor of a file of torch.save: a view of a storage, whose bytes the containers keep in different places. */
import type { SharedFile } from '../../../base/files/shared-file.js';
import type { StateFile } from '../state/state-file.js';
import { stateTensor, type StateTensor } from '../state/state-tensor.js';
import { storedBytes } from '../state/stored-types.js';
import { gatherView, isContiguous, spanOf } from '../../../onnx/tensor/strided.js';
import type { PickledTensor } from './torch-pickle.js';

/** Makes a tensor that is read when it is asked for: `readSpan` reads so many bytes of its storage, from one on. */
export function openView(
  file: StateFile,
  key: string,
  tensor: PickledTensor,
  readSpan: (bytes: SharedFile, start: number, length: number) => Promise<ArrayBuffer>,
): StateTensor {
  const { dtype, dims } = tensor;
  const elementBytes = storedBytes(dtype, 1);
  const { start, count } = spanOf(tensor);
  const load = (): Promise<ArrayBuffer> =>
    file.read(async (bytes) => {
      const span = await readSpan(bytes, start * elementBytes, count * elementBytes);
      return isContiguous(tensor) ? span : gatherView(span, tensor, elementBytes);
    }, key);
  return stateTensor({ path: file.path, key, dtype, dims, load });
}
