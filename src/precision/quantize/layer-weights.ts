/** The weights of layers, as they are rounded. */
import type { Layer } from '../../graph/quantize/layers.js';
import { foldNorm } from '../../graph/quantize/norms.js';
import type { FloatConstant } from '../../graph/quantize/roundings.js';
import type { ModelState } from '../../model/open/model-state.js';
import { readConstant } from '../read-constant.js';

/** The weights and the bias of a layer, with its norm in them. */
export async function readLayer(
  state: ModelState,
  { weights, bias, norm, axis }: Layer,
): Promise<{ readonly weights: FloatConstant; readonly bias: Float32Array | undefined }> {
  const own = await readConstant(state, weights);
  const added = bias && (await readConstant(state, bias)).data;
  if (!norm) return { weights: own, bias: added };
  const parameters = await Promise.all(
    norm.constants.map(async (one) => (await readConstant(state, one)).data),
  );
  return foldNorm(own, added, axis, parameters, norm.epsilon);
}
