/** Constants as layers read them. */
import type { LayerConstant } from '../graph/precision/constants.js';
import type { FloatConstant } from '../graph/quantize/roundings.js';
import type { ModelState } from '../model/open/model-state.js';
import { readInitializerBytes } from '../model/open/read-initializer.js';

/** Reads a float32 constant. Throws as {@link readInitializerBytes}. */
export async function readConstant(
  state: ModelState,
  { tensor, isTransposed }: Pick<LayerConstant, 'tensor' | 'isTransposed'>,
): Promise<FloatConstant> {
  const { buffer } = await readInitializerBytes(state, tensor);
  const data = new Float32Array(buffer);
  if (!isTransposed) return { data, dims: tensor.dims };
  const [rows, columns] = tensor.dims as [number, number];
  return {
    data: data.map((_, at) => data[(at % rows) * columns + Math.floor(at / rows)]!),
    dims: [columns, rows],
  };
}
