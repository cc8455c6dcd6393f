/** Writes statistics into a model: into the norms' own tensors, or into the layers that norms are folded into. */
import { inverse, siteOf, type Site } from '../../../onnx/graph/parameters/site.js';
import { MEAN_SLOT, VARIANCE_SLOT } from '../../../onnx/graph/rewrite/norm-statistics.js';
import { encodeValues, toFloat64 } from '../../../run/model/open/encode-values.js';
import { modelInternals, type ModelState } from '../../../run/model/open/model-state.js';
import { deriveModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { foldBatchNorm } from '../../parameters/folding/fold-batch-norm.js';
import { readInitializer } from '../../../run/model/open/read-initializer.js';
import { replaceTensors, type NewInput, type SiteEdit } from '../../../run/model/open/replace-tensors.js';
import { permute } from '../../../onnx/tensor/permute.js';
import { makeTensor } from '../../../onnx/tensor/tensor.js';
import type { ChannelStatistics } from './channel-moments.js';
import type { NormLayer } from './norm-layers.js';
import type { EstimatedLayer } from './prepare-norms.js';

/** A model with new statistics. All else are the bytes of the given one. */
export async function writeStatistics(
  model: OnnxModel,
  statistics: ReadonlyMap<EstimatedLayer, ChannelStatistics>,
): Promise<OnnxModel> {
  const state = modelInternals.of(model);
  const edits: SiteEdit[] = [];
  const inputs: NewInput[] = [];
  for (const [layer, values] of statistics) {
    if (layer.folded) await foldInto(state, layer, values, edits, inputs);
    else {
      replace(layer, MEAN_SLOT, `${layer.name}.running_mean`, values.mean, edits, inputs);
      replace(layer, VARIANCE_SLOT, `${layer.name}.running_var`, values.variance, edits, inputs);
    }
  }
  const chunks = await replaceTensors(state, edits, inputs);
  return chunks ? await deriveModel(model, chunks) : model;
}

/** Replaces one tensor of a norm where the norm reads it. Other readers of it keep theirs. */
function replace(
  { node, elemType, channels }: NormLayer,
  slot: number,
  name: string,
  values: Float64Array,
  edits: SiteEdit[],
  inputs: NewInput[],
): void {
  const bytes = encode(values, elemType);
  const value = node.inputs[slot];
  // A tensor after an Identity is replaced for all who read that Identity.
  const isOwn = value?.initializer !== undefined || value?.uses.length === 1;
  const site = isOwn ? siteOf(node, slot) : undefined;
  if (site) edits.push({ site, name, bytes });
  else inputs.push({ node, slot, name, elemType, dims: [channels], bytes });
}

/** Folds a norm into the layer in front of it. */
async function foldInto(
  state: ModelState,
  { folded, added, elemType, name }: EstimatedLayer,
  { mean, variance }: ChannelStatistics,
  edits: SiteEdit[],
  inputs: NewInput[],
): Promise<void> {
  const { node, weight: site, bias, perm, axis, groups } = folded!;
  const { gamma, beta, epsilon } = added!;
  const read = async ({ initializer }: Site) => readInitializer(state, initializer.initializer!);
  const stored = await read(site);
  const weight = perm ? permute(stored, inverse(perm)) : stored;
  const { dims } = weight;
  const made = foldBatchNorm(
    {
      weight: toFloat64(weight),
      dims,
      bias: bias && toFloat64(await read(bias)),
      gamma,
      beta,
      mean,
      // A channel without any deviation keeps its weights: nothing says how to scale it.
      variance: variance.map((value, c) => (value === 0 && !added!.statistics ? gamma[c]! ** 2 : value)),
    },
    { axis: perm ? 0 : axis, groups },
    epsilon,
  );
  const bytes = encodeValues(makeTensor('float64', dims, made.weight), elemType, perm);
  edits.push({ site, name: `${name}.weight`, bytes });
  const shift = { name: `${name}.bias`, bytes: encode(made.bias, elemType) };
  if (bias) edits.push({ site: bias, ...shift });
  else inputs.push({ node, slot: 2, elemType, dims: [made.bias.length], ...shift });
}

function encode(values: Float64Array, elemType: number): Uint8Array {
  return encodeValues(makeTensor('float64', [values.length], values), elemType, null);
}
