/** Features with the element type that they are stored with. */
import { encodeFloat16InRange } from '../../onnx/tensor/float16.js';
import type { DType, Tensor } from '../../onnx/tensor/tensor.js';

/** Returns the element type that features have on disk or in rows. */
export function storedType(dtype: DType, half: boolean): DType {
  return half && dtype === 'float32' ? 'float16' : dtype;
}

/**
 * Converts a feature to that type. Returns the same tensor if it has the type already. Warns once of each key whose values become
 * infinite: such rows have no cosine, and are no results of a search.
 */
export function storedTensor(key: string, tensor: Tensor, half: boolean): Tensor {
  if (storedType(tensor.dtype, half) === tensor.dtype) return tensor;
  const { halves, overflows } = encodeFloat16InRange(tensor.data as Float32Array);
  if (overflows > 0) warnOfOverflow(key);
  return { dtype: 'float16', dims: tensor.dims, data: halves };
}

const warned = new Set<string>();

function warnOfOverflow(key: string): void {
  if (warned.has(key)) return;
  warned.add(key);
  process.emitWarning(
    `output "${key}" has values above 65,504, which float16 cannot hold: they become infinite, and searches leave their rows out. Store float32 (dtype: 'float32', --set dtype=float32), or vectors of length 1 (l2Normalize, --set l2Normalize=true)`,
    { code: 'TAPIR_FLOAT16_OVERFLOW' },
  );
}
