/** The constants of layers, in float32. */
import type { LayerConstant } from '../../graph/quantize/layers.js';
import type { FloatConstant } from '../../graph/quantize/roundings.js';
import { readInitializerBytes } from '../../model/open/read-initializer.js';
import type { ModelState } from '../../model/open/model-state.js';

/** Reads a constant as its layer reads it. */
export async function readConstant(
  state: ModelState,
  { tensor, isTransposed }: LayerConstant,
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
