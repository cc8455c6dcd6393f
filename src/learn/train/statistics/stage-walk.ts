/**
 * A model in stages between its norms, and the walk of a batch through them. Between stages there is a barrier: the moments of what
 * norms normalise are combined over all pieces of the batch.
 */
import type { Value } from '../../../onnx/graph/graph.js';
import { withNorms, type NormFeed, type NormTap } from '../../../onnx/graph/rewrite/norm-statistics.js';
import type { CutOutput } from '../../../onnx/graph/rewrite/prune.js';
import { startRewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import type { CheckedSizes } from '../../../run/model/open/input-sizes.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { describeValues } from '../../../run/model/oracle/infer-types.js';
import { SessionHolder } from '../../../run/model/oracle/session-holder.js';
import { elementTypeNumber } from '../../../onnx/file/wire/schema.js';
import type { TensorType } from '../../../onnx/file/wire/write-model.js';
import type { Runner } from '../../../run/runtime/replica.js';
import { cutToStage, stagesOf, type NormStage } from '../../../extract/stages/graph/norm-stages.js';
import { nameTensor, type NamedTensor } from '../../../onnx/tensor/tensor.js';
import { wholePart, type FeedPart } from '../../../onnx/tensor/tensor-part.js';
import type { Piece } from '../../../extract/replicas/batch-pieces.js';
import type { Outputs } from '../../../extract/replicas/dispatch.js';
import type { Part } from '../../../extract/replicas/rewrite-sessions.js';
import { combineMoments, populationStatistics, type ChannelMoments } from './channel-moments.js';
import type { NormLayer, NormMoments } from './norm-layers.js';
import { feedStatistics, readTap } from './norm-taps.js';

/** The type of a tensor between stages. */
export type TypeOf = (value: Value) => TensorType;

/** The stages of a model, and the types of the tensors between them. */
export interface Stages {
  readonly stages: readonly NormStage[];
  /** With the stated shapes: without them, onnxruntime chooses other layouts. */
  readonly typeOf: TypeOf;
}

/**
 * Cuts a model between its norms; see {@link stagesOf}. With `inputSizes`, the model runs on made-up inputs where only that tells the rank of
 * a tensor between stages: a stage for itself has nothing that tells it.
 */
export async function readStages(
  model: OnnxModel,
  layers: readonly NormLayer[],
  outputs: readonly CutOutput[] = [],
  inputSizes?: CheckedSizes,
): Promise<Stages> {
  const stages = stagesOf(modelInternals.of(model).graph, layers, outputs);
  await using sessions = new SessionHolder(model);
  const taken = [...new Set(stages.flatMap(({ takes }) => takes))];
  const describe = await describeValues(taken, inputSizes, sessions);
  const typeOf: TypeOf = (value) => {
    const { dtype, dims } = describe(value);
    return { elemType: elementTypeNumber(dtype ?? '') ?? 0, dims };
  };
  return { stages, typeOf };
}

/** What comes out of a graph under a key. */
export interface Keyed<Of> {
  readonly key: string;
  readonly of: Of;
}

/** The way forth through a stage. */
export interface ForwardStage extends Part {
  readonly stage: NormStage;
  /** Tensors that later stages read, and outputs of the model. */
  readonly gives: readonly Keyed<Value>[];
  /** The norms whose inputs it computes, and the outputs with their moments: keys in place of names. */
  readonly taps: ReadonlyMap<NormLayer, NormTap>;
  /** The norms that it computes, and the inputs for their statistics. */
  readonly feeds: ReadonlyMap<NormLayer, NormFeed>;
}

/** A piece on its way through the stages. */
export interface Travelling extends Piece {
  /** What stages computed, by name, for those that read it. */
  readonly held: Map<string, NamedTensor>;
}

/** Cuts a stage out of a model, all norms of which take their statistics from inputs. `keyOf` gives the key of a tensor. */
export function cutForward(
  model: OnnxModel,
  stage: NormStage,
  layers: readonly NormLayer[],
  typeOf: TypeOf,
  keyOf: (name: string) => string = (name) => name,
): ForwardStage {
  const tapped = new Set(stage.norms);
  const fetched = new Set([...stage.gives, ...stage.outputs.map(({ value }) => value)]);
  const started = startRewrite(cutToStage(modelInternals.of(model).graph, stage), true, typeOf);
  const uses = layers.map((norm) => ({ norm, from: 'inputs' as const, isTapped: tapped.has(norm) }));
  const { rewrite, taps, feeds } = withNorms(started, uses, fetched);
  const byKey = ({ mean, rest, variance, shape }: NormTap): NormTap => ({
    mean: keyOf(mean),
    rest: keyOf(rest),
    variance: keyOf(variance),
    shape: keyOf(shape),
  });
  const keyed = rewrite.outputs.map((output) => ({ ...output, key: keyOf(output.tensor) }));
  return {
    model,
    stage,
    rewrite: { ...rewrite, outputs: keyed },
    gives: [...fetched].map((value) => ({ key: keyOf(value.name), of: value })),
    taps: new Map([...taps].map(([norm, tap]) => [norm as NormLayer, byKey(tap)])),
    feeds: feeds as ReadonlyMap<unknown, NormFeed> as ForwardStage['feeds'],
  };
}

/** Runs a stage on a piece, which then holds what it gives. All pieces share `fixed`. Returns the other outputs: the taps. */
export async function passStage(
  { rewrite, gives }: ForwardStage,
  replica: Runner,
  piece: Travelling,
  fixed: readonly FeedPart[],
  signal: AbortSignal | undefined,
): Promise<Outputs> {
  const names = rewrite.cut.inputs.map(({ name }) => name);
  const fetches = [...new Set(rewrite.outputs.map(({ key }) => key))];
  const outputs = await replica.run([...feedsOf(piece, names), ...fixed], fetches, { signal });
  const given = new Map(gives.map(({ key, of }) => [key, of.name]));
  return outputs.filter((output) => {
    const name = given.get(output.name);
    if (name !== undefined) piece.held.set(name, nameTensor(name, output));
    return name === undefined;
  });
}

/** What a piece holds, or was given. */
export function feedsOf({ held, feeds }: Travelling, names: readonly string[]): FeedPart[] {
  return names.map((name) => {
    const tensor = held.get(name);
    return tensor ? wholePart(tensor) : feeds.get(name)!;
  });
}

/** The statistics of norms whose moments are known, as feeds. */
export function feedMoments(feeds: ForwardStage['feeds'], moments: NormMoments): FeedPart[] {
  return [...feeds].flatMap(([layer, feed]) =>
    feedStatistics(layer, feed, populationStatistics(moments.get(layer)!)),
  );
}

/** Combines what a stage has tapped of the pieces. */
export function combineTaps(
  { taps }: ForwardStage,
  results: readonly Outputs[],
  into: Map<NormLayer, ChannelMoments>,
): void {
  for (const layer of taps.keys())
    into.set(layer, combineMoments(results.map((outputs) => readTap({ taps }, layer, outputs))));
}
