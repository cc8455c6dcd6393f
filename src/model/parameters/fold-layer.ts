/** The tensors of a folded layer, made of a state dict. */
import type { FoldedLayer } from '../../graph/parameters/folded-layer.js';
import { makeTensor, type Tensor } from '../../tensor/tensor.js';
import { toFloat64 } from '../encode-values.js';
import { foldBatchNorm } from './fold-batch-norm.js';
import { type StateValue } from './state-values.js';

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

/** Folds a norm into a layer, in torch's layout. All required keys must be there. */
export async function foldLayer(
  layer: FoldedLayer,
  norm: string,
  state: ReadonlyMap<string, StateValue>,
  epsilon: number,
): Promise<{ readonly weight: Tensor<'float64'>; readonly bias: Tensor<'float64'> }> {
  const read = async (key: string): Promise<Float64Array | undefined> => {
    const value = state.get(key);
    return value && toFloat64(await value.read());
  };
  const { dims } = state.get(`${layer.layer}.weight`)!;
  const made = foldBatchNorm(
    {
      weight: (await read(`${layer.layer}.weight`))!,
      dims,
      bias: await read(`${layer.layer}.bias`),
      gamma: await read(`${norm}.weight`),
      beta: await read(`${norm}.bias`),
      mean: (await read(`${norm}.running_mean`))!,
      variance: (await read(`${norm}.running_var`))!,
    },
    // A Gemm's weight may be transposed in the file; torch has output channels first.
    { axis: layer.perm ? 0 : layer.axis, groups: layer.groups },
    epsilon,
  );
  return {
    weight: makeTensor('float64', dims, made.weight),
    bias: makeTensor('float64', [made.bias.length], made.bias),
  };
}
