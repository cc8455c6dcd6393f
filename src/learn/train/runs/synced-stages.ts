/**
 * A model in stages between its norms, forwards and backwards, for statistics over all rows. Between stages there is a barrier: forwards
 * for the moments of what norms normalise, backwards for the gradients of these moments.
 */
import type { Graph, Value } from '../../../onnx/graph/graph.js';
import { withNorms, type Norm, type NormFeed } from '../../../onnx/graph/rewrite/norm-statistics.js';
import type { CutOutput } from '../../../onnx/graph/rewrite/prune.js';
import { startRewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { cutToStage, type NormStage } from '../../../extract/stages/graph/norm-stages.js';
import type { CheckedSizes } from '../../../run/model/open/input-sizes.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { deriveRewritten } from '../../../run/model/prune/derive-rewritten.js';
import { planBackward } from '../../gradients/differentiate.js';
import type { GradientOutput } from '../../gradients/with-gradients.js';
import { isFloatType } from '../../../onnx/file/wire/schema.js';
import type { Part } from '../../../extract/replicas/rewrite-sessions.js';
import {
  cutForward,
  readStages,
  type ForwardStage,
  type Keyed,
  type TypeOf,
} from '../statistics/stage-walk.js';
import type { NormLayer } from '../statistics/norm-layers.js';
import type { TrainedTensor } from './trained-tensors.js';
import { feedTensors, lossOutputs, type LossModel } from './training-graphs.js';

/** The backward pass through a stage. */
export interface BackwardStage extends Part {
  /** Names of the inputs that take the gradients of what the stage computes. */
  readonly seeds: ReadonlyMap<Value, string>;
  readonly feeds: ReadonlyMap<NormLayer, NormFeed>;
  /** The gradients of what it reads of earlier stages. */
  readonly takes: readonly Keyed<Value>[];
  readonly tensors: readonly Keyed<TrainedTensor>[];
  /** The gradients of norms' statistics. */
  readonly statistics: readonly Keyed<{ readonly layer: NormLayer; readonly what: 'mean' | 'variance' }>[];
}

export interface SyncedStage {
  readonly forward: ForwardStage;
  /** undefined if nothing in or before it is trained. */
  readonly backward: BackwardStage | undefined;
}

/** Cuts the training of a model into stages. */
export async function makeSyncedStages(
  loss: LossModel,
  layers: readonly NormLayer[],
  tensors: readonly TrainedTensor[],
  inputSizes: CheckedSizes,
): Promise<SyncedStage[]> {
  const { model } = loss;
  const { graph } = modelInternals.of(model);
  const outputs = lossOutputs(loss);
  const { stages, typeOf } = await readStages(model, layers, outputs, inputSizes);
  const trained = valuesBehind(graph, tensors);
  const made: SyncedStage[] = [];
  for (const [k, stage] of stages.entries()) {
    const cut = cutForward(model, stage, layers, typeOf, (name) => `forward/${k}/${name}`);
    const forward = { ...cut, rewrite: feedTensors(cut.rewrite, tensors) };
    // oxlint-disable-next-line no-await-in-loop -- each opens a session to find out types
    const backward = await makeBackward(model, stage, {
      k,
      layers,
      tensors,
      typeOf,
      trained,
      loss: outputs[0]!.value,
      inputSizes,
    });
    made.push({ forward, backward });
  }
  return made;
}

/** The values that depend on tensors in training. */
function valuesBehind(graph: Graph, tensors: readonly TrainedTensor[]): ReadonlySet<Value> {
  const found = new Set(tensors.map(({ initializer }) => graph.values.get(initializer)!));
  for (const node of graph.nodes)
    if (node.reads.some((value) => found.has(value)))
      for (const output of node.outputs) if (output) found.add(output);
  return found;
}

interface Context {
  readonly k: number;
  readonly layers: readonly NormLayer[];
  readonly tensors: readonly TrainedTensor[];
  readonly typeOf: TypeOf;
  readonly trained: ReadonlySet<Value>;
  readonly loss: Value;
  readonly inputSizes: CheckedSizes;
}

async function makeBackward(
  model: OnnxModel,
  stage: NormStage,
  { k, layers, tensors, typeOf, trained, loss, inputSizes }: Context,
): Promise<BackwardStage | undefined> {
  const { graph } = modelInternals.of(model);
  const isCarried = (value: Value): boolean =>
    trained.has(value) && (value === loss || isFloatType(typeOf(value).elemType));
  const computed = [
    ...stage.gives,
    ...stage.norms.map(({ input }) => input),
    ...(stage.outputs.some(({ value }) => value === loss) ? [loss] : []),
  ];
  const targets = [...new Set(computed)].filter(isCarried);
  if (targets.length === 0) return undefined;
  const started = startRewrite(cutToStage(graph, stage), true, typeOf);
  const uses = layers.map((norm) => ({ norm, from: 'inputs' as const, isTapped: false }));
  const { rewrite, feeds } = withNorms(started, uses, new Set(targets));
  // Its own model, because its norms read inputs now, which have gradients.
  const own = await deriveRewritten(model, rewrite, 'tensors');
  const { values } = modelInternals.of(own).graph;
  const layerFeeds = feeds as ReadonlyMap<Norm, NormFeed> as ReadonlyMap<NormLayer, NormFeed>;
  const gradients: GradientOutput[] = [];
  /** Asks for the gradient of a tensor. */
  const ask = <Of>(name: string, of: Of): Keyed<Of> => {
    const key = `backward/${k}/${gradients.length}`;
    gradients.push({ ...output(key, values.get(name)!), perm: null });
    return { key, of };
  };
  const asked = {
    takes: stage.takes.filter(isCarried).map((of) => ask(of.name, of)),
    tensors: tensors
      .filter(({ initializer }) => rewrite.cut.values.has(graph.values.get(initializer)!))
      .map((of) => ask(of.initializer, of)),
    statistics: [...layerFeeds]
      .filter(([{ input }]) => trained.has(input))
      .flatMap(([layer, feed]) =>
        (['mean', 'variance'] as const).map((what) => ask(feed[what], { layer, what })),
      ),
  };
  const seeds = targets.map(({ name }, i) => output(`seed/${k}/${i}`, values.get(name)!));
  const plan = { targets: seeds, gradients, returns: [] };
  const { rewrite: back } = await planBackward(own, plan, inputSizes);
  return {
    model: own,
    rewrite: feedTensors(back, tensors),
    seeds: new Map(targets.map((value, i) => [value, back.inputs[i]!.name])),
    feeds: layerFeeds,
    ...asked,
  };
}

function output(key: string, value: Value): CutOutput {
  return { request: value.name, key, value, why: 'training' };
}
