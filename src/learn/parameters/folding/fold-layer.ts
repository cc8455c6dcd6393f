/** The tensors of a folded layer, made of a state dict. */
import type { FoldedLayer } from '../../../onnx/graph/parameters/folded-layer.js';
import { makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import { toFloat64 } from '../../../run/model/open/encode-values.js';
import { foldBatchNorm, type ChannelLayout, type FoldedTensors } from './fold-batch-norm.js';
import type { StateValues } from './state-value.js';

/** The keys that a folded layer is made of. */
export function foldedKeys(
  { layer }: FoldedLayer,
  norm: string,
): { readonly required: readonly string[]; readonly optional: readonly string[] } {
  return {
    required: [`${layer}.weight`, `${norm}.running_mean`, `${norm}.running_var`],
    optional: [`${layer}.bias`, `${norm}.weight`, `${norm}.bias`],
  };
}

/** How output channels lie in a layer's weight, in torch's layout. */
export function layoutOf({ perm, axis, groups }: FoldedLayer): ChannelLayout {
  // A Gemm's weight may be transposed in the file; torch has output channels first.
  return { axis: perm ? 0 : axis, groups };
}

/** Reads the tensors of a layer and its norm. All required keys must be there. */
export async function readFolded(
  { layer }: FoldedLayer,
  norm: string,
  state: StateValues,
): Promise<FoldedTensors> {
  const read = async (key: string): Promise<Float64Array | undefined> => {
    const value = state.get(key);
    return value && toFloat64(await value.read());
  };
  return {
    weight: (await read(`${layer}.weight`))!,
    dims: state.get(`${layer}.weight`)!.dims,
    bias: await read(`${layer}.bias`),
    gamma: await read(`${norm}.weight`),
    beta: await read(`${norm}.bias`),
    mean: (await read(`${norm}.running_mean`))!,
    variance: (await read(`${norm}.running_var`))!,
  };
}

/** Folds a norm into a layer, in torch's layout. All required keys must be there. */
export async function foldLayer(
  layer: FoldedLayer,
  norm: string,
  state: StateValues,
  epsilon: number,
): Promise<{ readonly weight: Tensor<'float64'>; readonly bias: Tensor<'float64'> }> {
  const tensors = await readFolded(layer, norm, state);
  const made = foldBatchNorm(tensors, layoutOf(layer), epsilon);
  return {
    weight: makeTensor('float64', tensors.dims, made.weight),
    bias: makeTensor('float64', [made.bias.length], made.bias),
  };
}
