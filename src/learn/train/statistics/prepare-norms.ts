/** The norms to estimate, those included that an exporter folded into layers. */
import { invalidOption } from '../../../base/checks.js';
import { channelsOf, type FoldedLayer } from '../../../onnx/graph/parameters/folded-layer.js';
import { findParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import { siteOf } from '../../../onnx/graph/parameters/site.js';
import { toFloat64 } from '../../../run/model/open/encode-values.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import { deriveModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { NormFinder } from '../../parameters/folding/find-norm.js';
import { ambiguous, unknownEpsilon } from '../../parameters/match/load-errors.js';
import { Loading } from '../../parameters/match/loading.js';
import type { StateValue } from '../../parameters/folding/state-value.js';
import { makeTensor } from '../../../onnx/tensor/tensor.js';
import type { ChannelStatistics } from './channel-moments.js';
import { listNormNodes, MOMENTUM, unavailable, uniqueNames, type NormLayer } from './norm-layers.js';

type State = ReadonlyMap<string, StateValue>;

/** A norm, and the layer that it is folded into again. */
export interface EstimatedLayer extends NormLayer {
  readonly folded?: FoldedLayer;
}

/** A model and its norms. */
export interface PreparedNorms {
  /** The model whose graph runs and is written: its layers have no norm in them if a state dict is known. */
  readonly base: OnnxModel;
  readonly layers: readonly EstimatedLayer[];
}

/** What is known of norms that were folded. */
export interface FoldedKnowledge {
  readonly state: State | undefined;
  /** The state dict of the present weights. */
  readonly reference: State | undefined;
  readonly epsilon: number | undefined;
  /** Statistics of what folded layers give on the source data, by layer. */
  readonly source: ReadonlyMap<string, ChannelStatistics> | undefined;
}

/** A norm is added after a folded layer with almost no epsilon: the source's variance is matched as it is. */
const NO_EPSILON = 1e-20;

/**
 * The norms of a model that can be estimated, in execution order.
 *
 * @throws {@link TapirError} `NORMS_UNAVAILABLE` if there are none, or if some are folded and nothing is known of them;
 * `STATE_AMBIGUOUS`, `STATE_MISMATCH`.
 */
export async function prepareNorms(model: OnnxModel, known: FoldedKnowledge): Promise<PreparedNorms> {
  const { folded } = findParameters(modelInternals.of(model).graph);
  const nodes = await listNormNodes(model);
  if (folded.length + nodes.length === 0)
    throw unavailable(
      'the model has no BatchNorm',
      'if the source network has some, export it again without folding (do_constant_folding=False, training=PRESERVE; dynamo: optimize=False)',
      [],
    );
  if (folded.length === 0) {
    if (!known.source) return { base: model, layers: nodes };
    throw invalidOption('sourceMoments', 'left out: no norm of this model is folded into a layer', 'moments');
  }
  // Norms that are still nodes keep their statistics: moments are matched for the others only.
  if (known.source) return { base: model, layers: matchedLayers(model, folded, known.source) };
  if (known.state) return unfold(model, folded, { ...known, state: known.state });
  const names = layerNames(folded);
  throw unavailable(
    `the exporter folded ${folded.length} of ${folded.length + nodes.length} norms into layers (${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''})`,
    'pass the state dict of the present weights (state), or moments of the source data (sourceMoments), or export again without folding (do_constant_folding=False, training=PRESERVE; dynamo: optimize=False)',
    names,
  );
}

/** Everything whose moments can be measured: norms that are nodes, and what folded layers give. */
export async function measurableNorms(model: OnnxModel): Promise<NormLayer[]> {
  const { folded } = findParameters(modelInternals.of(model).graph);
  const names = layerNames(folded);
  const layers = folded.map((layer, i) => normBehind(layer, names[i]!, undefined));
  return [...(await listNormNodes(model)), ...layers].toSorted((a, b) => a.node.index - b.node.index);
}

/** The names of folded norms, as far as the file tells them; else the layer's. */
function layerNames(folded: readonly FoldedLayer[]): string[] {
  return uniqueNames(
    folded.map(({ layer, norms, isProven }) => (isProven || norms.length === 1 ? norms[0]! : layer)),
  );
}

/** What is added after a folded layer to normalise by other statistics. */
function normBehind(folded: FoldedLayer, name: string, added: NormLayer['added']): EstimatedLayer {
  const { node, weight } = folded;
  const channels = channelsOf(folded);
  const [gamma, beta] = [filled(channels, 1), filled(channels, 0)];
  const own = added ?? { gamma, beta, epsilon: NO_EPSILON, statistics: undefined };
  return {
    node,
    input: node.outputs[0]!,
    channels,
    elemType: weight.initializer.initializer!.elemType,
    added: own,
    name,
    momentum: MOMENTUM,
    readStatistics: async () => own.statistics ?? { mean: own.beta, variance: own.gamma.map((x) => x * x) },
    folded,
  };
}

/** Norms that give a layer's output the moments that it has on the source data. */
function matchedLayers(
  model: OnnxModel,
  folded: readonly FoldedLayer[],
  source: ReadonlyMap<string, ChannelStatistics>,
): EstimatedLayer[] {
  const names = layerNames(folded);
  const missing = names.filter((name, i) => source.get(name)?.mean.length !== channelsOf(folded[i]!));
  if (missing.length > 0)
    throw unavailable(
      `the source moments lack ${missing.join(', ')}`,
      `measure them with measureMoments, or with tapir models bn ${model.label} SOURCE --moments FILE`,
      missing,
    );
  return folded.map((layer, i) => {
    const { mean, variance } = source.get(names[i]!)!;
    const gamma = variance.map(Math.sqrt);
    return normBehind(layer, names[i]!, { gamma, beta: mean, epsilon: NO_EPSILON, statistics: undefined });
  });
}

/** The model with the state dict's weights and without norms in its layers, and the norms that belong after them. */
async function unfold(
  model: OnnxModel,
  folded: readonly FoldedLayer[],
  { state, reference = state, epsilon }: FoldedKnowledge & { readonly state: State },
): Promise<PreparedNorms> {
  const found = await new NormFinder(modelInternals.of(model), state, reference, epsilon).find(folded);
  const without = new Map(state);
  const norms = folded.map((layer) => {
    const { norm, epsilon: own, candidates } = found.get(layer)!;
    if (norm === undefined) throw ambiguous(`${layer.layer}.weight`, candidates);
    if (own === undefined) throw unknownEpsilon(layer.layer, norm);
    const channels = channelsOf(layer);
    // Folding this norm changes nothing.
    for (const [key, value] of [
      [`${norm}.weight`, 1],
      [`${norm}.bias`, 0],
      [`${norm}.running_mean`, 0],
      [`${norm}.running_var`, 1 - own],
    ] as const)
      if (state.has(key)) without.set(key, constant(channels, value));
    return { norm, epsilon: own };
  });
  const { chunks } = await new Loading(modelInternals.of(model), {
    state: without,
    reference,
    epsilon,
    norms: found,
    notes: [],
  }).run(true);
  const base = chunks ? await deriveModel(model, chunks) : model;
  const { graph } = modelInternals.of(base);
  const names = uniqueNames(norms.map(({ norm }) => norm));
  const layers = await Promise.all(
    folded.map(async (layer, i) => {
      const { norm, epsilon: own } = norms[i]!;
      const values = await readNorm(layer, norm, state);
      const node = graph.values.get(layer.node.outputs[0]!.name)!.producer!;
      const inBase = { ...layer, node, weight: siteOf(node, 1)!, bias: siteOf(node, 2) };
      return normBehind(inBase, names[i]!, { ...values, epsilon: own });
    }),
  );
  return {
    base,
    layers: [...(await listNormNodes(base)), ...layers].toSorted((a, b) => a.node.index - b.node.index),
  };
}

async function readNorm(
  layer: FoldedLayer,
  norm: string,
  state: State,
): Promise<Pick<NonNullable<NormLayer['added']>, 'gamma' | 'beta' | 'statistics'>> {
  const read = async (attribute: string, otherwise: number): Promise<Float64Array> => {
    const value = state.get(`${norm}.${attribute}`);
    return value ? toFloat64(await value.read()) : filled(channelsOf(layer), otherwise);
  };
  return {
    gamma: await read('weight', 1),
    beta: await read('bias', 0),
    statistics: { mean: await read('running_mean', 0), variance: await read('running_var', 1) },
  };
}

function constant(channels: number, value: number): StateValue {
  const tensor = makeTensor('float64', [channels], filled(channels, value));
  return { dtype: tensor.dtype, dims: tensor.dims, read: () => Promise.resolve(tensor) };
}

function filled(channels: number, value: number): Float64Array {
  return new Float64Array(channels).fill(value);
}
