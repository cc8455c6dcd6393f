/** The graphs of a training: a model with a loss, its backward pass, and its evaluation. Weights in training are inputs of both. */
import type { Attribute } from '../../../onnx/file/scan/attributes.js';
import { invalidOption } from '../../../base/checks.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { resolveTensors } from '../../../onnx/graph/names/resolve-tensors.js';
import { findParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import { siteOf, type Site } from '../../../onnx/graph/parameters/site.js';
import {
  MEAN_SLOT,
  VARIANCE_SLOT,
  withNorms,
  type NormRewrite,
} from '../../../onnx/graph/rewrite/norm-statistics.js';
import { cutGraph, type CutOutput } from '../../../onnx/graph/rewrite/prune.js';
import { feedInitializers, startRewrite, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { withLoss, type LossForm } from '../graph/loss-nodes.js';
import type { CheckedSizes } from '../../../run/model/open/input-sizes.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { deriveRewritten } from '../../../run/model/prune/derive-rewritten.js';
import { planBackward, readKept } from '../../gradients/differentiate.js';
import { describeValues } from '../../../run/model/oracle/infer-types.js';
import { SessionHolder } from '../../../run/model/oracle/session-holder.js';
import type { Dim } from '../../../onnx/file/wire/schema.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { mismatch } from '../../../onnx/tensor/tensor.js';
import { listNormNodes, unavailable, type NormLayer } from '../statistics/norm-layers.js';
import type { TrainerSetup } from './trainer-options.js';
import type { TrainedTensor, WantedTensor } from './trained-tensors.js';

/** A model with a loss after one of its outputs. */
export interface LossModel {
  readonly model: OnnxModel;
  /** The dims of the output, as far as they are known. */
  readonly dims: readonly Dim[];
  /** Names of the inputs for targets. */
  readonly targets: readonly string[];
  /** The name of the sum. */
  readonly loss: string;
  readonly predicted: string | undefined;
}

/** The input that holds the gradient of the objective with respect to the sum: one divided by the number of its terms. */
export const SEED = 'gradient/loss';

/** A tensor in training and the output that holds its gradient. */
export interface GradientOf {
  readonly tensor: TrainedTensor;
  readonly output: string;
}

/** The backward pass. */
export interface TrainingGraph extends NormRewrite {
  readonly gradients: readonly GradientOf[];
}

/**
 * Puts a loss after an output.
 *
 * @param output - Its name; by default the only output of the model.
 * @throws {@link TapirError} `OPTION_INVALID` if the model has several outputs and none is named; `OUTPUT_MISFIT`; `INPUT_MISMATCH` for an
 * output that is not float32; those of name resolution.
 */
export async function addLoss(
  model: OnnxModel,
  output: string | undefined,
  form: LossForm,
  inputSizes: CheckedSizes,
): Promise<LossModel> {
  const { graph } = modelInternals.of(model);
  const names = graph.outputs.map(({ name }) => `"${name}"`).join(', ');
  if (output === undefined && graph.outputs.length !== 1)
    throw invalidOption(
      'output',
      `the name of the output that the loss is computed of: the model has ${names}`,
      output,
    );
  const [found] = resolveTensors(graph, [output ?? `tensor:${graph.outputs[0]!.name}`]);
  const { request, value, why } = found!;
  const { dtype, dims } = await typeOf(model, value, inputSizes);
  if (dtype !== 'float32')
    throw mismatch(request, 'float32 to compute a loss of it', dtype ?? 'of an unknown type');
  if (dims === null) throw mismatch(request, 'of known rank to compute a loss of it', 'of an unknown one');
  const started = startRewrite(cutGraph(graph, { outputs: [{ request, key: value.name, value, why }] }));
  const { rewrite, ...rest } = withLoss(started, started.outputs[0]!, { dims, form });
  return { model: await deriveRewritten(model, rewrite, 'tensors'), dims, ...rest };
}

async function typeOf(model: OnnxModel, value: Value, inputSizes: CheckedSizes): Promise<TensorInfo> {
  await using sessions = new SessionHolder(model);
  return (await describeValues([value], inputSizes, sessions))(value);
}

/** Writes the backward pass from the loss to tensors. With `layers`, these norms take their statistics from the batch, as in train mode. */
export async function trainingGraph(
  lossModel: LossModel,
  tensors: readonly TrainedTensor[],
  layers: readonly NormLayer[],
  { inputSizes, recompute }: Pick<TrainerSetup, 'inputSizes' | 'recompute'>,
): Promise<TrainingGraph> {
  const { model } = lossModel;
  const { graph } = modelInternals.of(model);
  const valueOf = (name: string): Value => graph.values.get(name)!;
  const asked = (request: string, key: string, name: string): CutOutput => ({
    request,
    key,
    value: valueOf(name),
    why: 'training',
  });
  const plan = {
    targets: [asked('the loss', SEED, lossModel.loss)],
    gradients: tensors.map(({ name, initializer }, i) => ({
      ...asked(name, `gradient/${i}`, initializer),
      perm: null,
    })),
    returns: lossOutputs(lossModel),
    recompute: readKept(graph, recompute),
  };
  const inTraining = new Set(layers.map(({ node }) => node));
  const { rewrite } = await planBackward(model, plan, inputSizes, (node, stated) =>
    inTraining.has(node) ? trainingMode(stated) : stated,
  );
  const outputs = new Set(rewrite.outputs.map(({ value }) => value));
  const uses = layers
    .filter(({ node }) => rewrite.cut.nodes.has(node))
    .map((norm) => ({ norm, from: 'batch', isTapped: true }) as const);
  const normed = withNorms(rewrite, uses, outputs);
  const gradients = tensors.map((tensor, i) => ({
    tensor,
    output: rewrite.outputs.find(({ key }) => key === `gradient/${i}`)!.tensor,
  }));
  return { ...normed, gradients, rewrite: feedTensors(normed.rewrite, tensors) };
}

/** The attributes of a norm in training mode: so its gradient takes into account that the batch makes the statistics. */
function trainingMode(stated: ReadonlyMap<string, Attribute>): ReadonlyMap<string, Attribute> {
  const none = { float: undefined, ints: [], text: undefined, tensor: undefined };
  return new Map(stated).set('training_mode', { ...none, int: 1 });
}

/** The graph that computes the loss alone, with the norms' own statistics. */
export function evaluationGraph(loss: LossModel, tensors: readonly TrainedTensor[]): Rewrite {
  const { graph } = modelInternals.of(loss.model);
  return feedTensors(startRewrite(cutGraph(graph, { outputs: lossOutputs(loss) })), tensors);
}

/** What is fetched of a model with a loss: the sum first. */
export function lossOutputs({ model, loss, predicted }: LossModel): CutOutput[] {
  const { values } = modelInternals.of(model).graph;
  const names = [loss, ...(predicted === undefined ? [] : [predicted])];
  return names.map((name) => ({ request: name, key: name, value: values.get(name)!, why: 'loss' }));
}

/** Makes inputs of those tensors in training that a rewritten graph holds. */
export function feedTensors(rewrite: Rewrite, tensors: readonly TrainedTensor[]): Rewrite {
  const held = tensors.flatMap(({ initializer }) => rewrite.cut.graph.values.get(initializer) ?? []);
  return feedInitializers(rewrite, held);
}

/** The norms of a model whose statistics training updates. Throws `NORMS_UNAVAILABLE` if an exporter folded norms into layers. */
export async function trainableNorms(model: OnnxModel): Promise<NormLayer[]> {
  const { folded } = findParameters(modelInternals.of(model).graph);
  if (folded.length > 0)
    throw unavailable(
      `the exporter folded ${folded.length} norms into layers`,
      'train with batchNorm "frozen", or export without folding (do_constant_folding=False, training=PRESERVE; dynamo: optimize=False)',
      folded.map(({ layer }) => layer),
    );
  return listNormNodes(model);
}

/** The statistics of a norm as tensors. */
export function normTensors({ node, name }: NormLayer): readonly [WantedTensor, WantedTensor] {
  const at = (slot: number, attribute: string): WantedTensor => {
    const site: Site | undefined = siteOf(node, slot);
    if (site) return { name: `${name}.${attribute}`, sites: [site], perm: null };
    throw unavailable(`the statistics of "${name}" are computed`, 'train with batchNorm "frozen"', [name]);
  };
  return [at(MEAN_SLOT, 'running_mean'), at(VARIANCE_SLOT, 'running_var')];
}

/** The node of another form of the model that gives the same tensor; undefined if that form does not need it. */
export function sameNode(model: OnnxModel, { outputs }: Node): Node | undefined {
  return modelInternals.of(model).graph.values.get(outputs[0]!.name)?.producer;
}

/** Whether the loss is computed of a tensor, so that training may change it. */
export function isInLoss({ model }: LossModel, { initializer }: TrainedTensor): boolean {
  return modelInternals.of(model).graph.values.has(initializer);
}
