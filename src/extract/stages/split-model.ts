/** A model as stages that run one after the other, each a model itself. */
import {
  checkInteger,
  checkText,
  givenFields,
  invalidOption,
  isPlainObject,
  type Options,
} from '../../base/checks.js';
import { integer, oneOf, readOptions, refuseUnused, unchecked, type Fields } from '../../base/options.js';
import type { Graph, Node } from '../../onnx/graph/graph.js';
import { resolveTensors } from '../../onnx/graph/names/resolve-tensors.js';
import { choosePlaces, type PlaceCosts } from './graph/choose-places.js';
import { lineUp, type CutLine } from '../../onnx/graph/cost/cut-line.js';
import { nodesOfModule } from './graph/module-nodes.js';
import { formStages, stagesAt, stagesBehind, type StageEnd, type StagePart } from './graph/stages.js';
import { cutGraph, describeNode, outputsOf } from '../../onnx/graph/rewrite/prune.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { readInputSizes, type InputSizes } from '../../run/model/open/input-sizes.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import { readModel, type ModelSource, type OnnxModel } from '../../run/model/open/open-model.js';
import { prunedInternals, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import { checkNames } from '../../run/model/open/return-nodes.js';
import { describeInputs, describeType } from '../../run/model/open/value-info.js';
import { cutStages } from './cut-stages.js';
import { deriveRewritten } from '../../run/model/prune/derive-rewritten.js';
import {
  allElements,
  bytesOf,
  measureCosts,
  sum,
  weighTensors,
  type MeasuredShape,
  type ModelCosts,
} from '../../run/model/oracle/model-costs.js';
import { timeNodes } from '../../run/model/oracle/time-nodes.js';

/** What a stage holds: all up to a value, or a module. Neither: all up to where the next stage begins. */
export interface StageSpan {
  /** Name of the value with which the stage ends. */
  readonly until?: string;
  /** Path of the module that the stage is, such as `layer3`. */
  readonly module?: string;
}

/**
 * Where to split: into a number of stages with balanced costs, after the values of these names, in execution order, or into stages that
 * are described one by one.
 */
export type SplitPlaces =
  { readonly stages: number | readonly StageSpan[] } | { readonly cuts: readonly string[] };

/** Options of {@link splitModel}. */
export interface SplitOptions {
  /**
   * What is balanced: multiply-accumulates, the time that each node takes on one thread of this CPU (the model runs eight times), bytes of
   * activations, or parameters. Parameters are where a CNN is narrow, so stages with equal parameters take very unequal times.
   * @default 'macs'
   */
  readonly by: 'macs' | 'time' | 'activations' | 'parameters';
  /**
   * The most tensors that may cross from one stage to the next. Sizes do not count: a later stage computes them again from tensors that
   * it takes, or takes them as well. More give more places to cut: a U-Net has few that one tensor
   * crosses. With `cuts`, any number may cross.
   * @default 1
   */
  readonly maxTensors: number;
  /**
   * Bytes that each stage may need, or bytes by stage: its weights, and the tensors that are alive at once for `batch` rows.
   * @default undefined
   */
  readonly memoryBytes: number | readonly number[] | undefined;
  /**
   * Rows of a run, for `memoryBytes` and times; 0 takes the batch that the file fixes, or 1.
   * @default 0
   */
  readonly batch: number;
  /**
   * Sizes for axes of inputs that the file leaves open; see {@link RewriteOptions.inputSizes}. Costs depend on them.
   * @default {}, or those that a pruned model was made with
   */
  readonly inputSizes: InputSizes;
}

export const SPLIT_FIELDS: Fields<SplitOptions> = {
  by: oneOf(['macs', 'time', 'activations', 'parameters'], 'macs', 'what is balanced'),
  maxTensors: integer(1, 1024, 1, 'the most tensors that may cross a place; sizes do not count'),
  memoryBytes: unchecked(undefined),
  batch: integer(0, 65_536, 0, 'rows of a run, for memoryBytes and --by time'),
  inputSizes: unchecked({}),
};

/** One stage of a model. */
export interface ModelStage {
  /** The stage as a separate model with only its own weights. Inputs and outputs have the names of their tensors. */
  readonly model: PrunedModel;
  /** Multiply-accumulates of one row. */
  readonly macs: number;
  /** Milliseconds of `batch` rows, with `by: 'time'`; else null. */
  readonly milliseconds: number | null;
  /** Bytes of what its nodes compute, per row. */
  readonly activationBytes: number;
  /** Elements of its weights, of running statistics and constants, too. A tensor that several stages read counts in each. */
  readonly parameters: number;
  /** Bytes of its weights. */
  readonly weightBytes: number;
  /** Inputs of the whole model, and outputs of stages in front. */
  readonly inputs: readonly TensorInfo[];
  /** What later stages take, and outputs of the whole model. */
  readonly outputs: readonly TensorInfo[];
}

/** What crosses from the stages in front of a place to those after it. */
export interface Crossing {
  readonly tensors: readonly string[];
  readonly bytesPerSample: number;
}

/** A model that is split into stages. */
export interface ModelStages {
  readonly stages: readonly ModelStage[];
  /** One between each two stages. Inputs of the model that a later stage reads cross, too. */
  readonly crossing: readonly Crossing[];
  /** The mean cost of a stage divided by the largest one, at most 1. Times the number of stages, it bounds the speed-up of a pipeline. */
  readonly balance: number;
  /** Nodes whose operator has no rule, so that they count nothing in `macs`. */
  readonly uncounted: readonly string[];
}

/**
 * Splits a model into stages that are models themselves: for several devices (see {@link Pipeline}), or to run parts by hand.
 *
 * Feed each stage the outputs of the stages before it, by name. Then the last outputs equal those of the whole model bit for bit
 * with optimisations off; ONNX Runtime's fused operators can differ in the last bits at a cut.
 *
 * @param model - A model, where to open one, or a pruned model.
 * @param places - See {@link SplitPlaces}. The balance is exact: no other choice of places has a smaller largest stage.
 * @param given - See {@link SplitOptions}.
 * @throws {@link TapirError} `SPLIT_IMPOSSIBLE` if there are too few places, or none that keeps to `memoryBytes`; those of
 * {@link pruneModel} for the names in `cuts`; `BATCH_FIXED`, `SESSION_FAILED` if the model cannot be measured.
 *
 * @example
 * ```ts
 * import { splitModel } from 'onnx-tapir/stages';
 *
 * const { stages, crossing, balance } = await splitModel('resnet50.onnx', { stages: 2 });
 * console.log(stages.map(({ macs }) => macs), crossing[0]?.tensors, balance);
 * for (const [i, { model }] of stages.entries()) await model.save(`stage-${i}.onnx`);
 * ```
 */
export async function splitModel(
  model: OnnxModel | ModelSource | PrunedModel,
  places: SplitPlaces,
  given: Options<SplitOptions> = {},
): Promise<ModelStages> {
  return (await splitMeasured(model, places, given)).split;
}

/** A split, and what it was made of: the whole model, whose nodes the stages have, and its costs. */
export interface MeasuredSplit {
  readonly split: ModelStages;
  readonly whole: OnnxModel;
  readonly costs: ModelCosts;
}

/** Splits a model; see {@link splitModel}. */
export async function splitMeasured(
  model: OnnxModel | ModelSource | PrunedModel,
  places: SplitPlaces,
  given: Options<SplitOptions>,
): Promise<MeasuredSplit> {
  const options = readOptions(SPLIT_FIELDS, given, 'splitModel');
  const pruned = prunedInternals.has(model) ? prunedInternals.of(model) : undefined;
  const asked = readSplit(places, options);
  if (typeof asked.stages !== 'number')
    refuseUnused(SPLIT_FIELDS, options, ['maxTensors'], 'a split at names');
  const isSized = !pruned || Object.hasOwn(givenFields(given, 'splitModel'), 'inputSizes');
  const request = isSized ? asked : { ...asked, inputSizes: pruned.request.inputSizes };
  const whole = pruned
    ? await deriveRewritten(pruned.model, pruned.rewrite, 'tensors')
    : readModel(model as ModelSource);
  const { graph } = modelInternals.of(whole);
  const costs = await measureCosts(whole, request);
  const cut = cutGraph(graph, { outputs: outputsOf(graph.outputs, 'output') });
  const line = lineUp(cut);
  const times = request.by === 'time' ? await timeNodes(whole, costs, 1) : undefined;
  const figure = FIGURES[request.by];
  const costOf = (node: Node): number => {
    if (figure === 'milliseconds') return times!.get(node) ?? 0;
    const cost = costs.nodes.get(node)!;
    return (figure === 'parameters' ? allElements(cost) : cost[figure]) ?? 0;
  };
  const { stages: spans } = request;
  const [stageOf, count] =
    typeof spans === 'number'
      ? [stagesAt(line, choosePlaces(line, placeCosts(costs, { ...request, stages: spans }, costOf))), spans]
      : [stagesBehind(line, findEnds(graph, line, spans)), spans.length];
  const parts = formStages(cut, stageOf, count);
  const models = await cutStages(whole, parts, request.inputSizes);
  const stages = parts.map((part, i) => describeStage(part, models[i]!, costs, times));
  const sizes = stages.map((stage) => stage[figure]!);
  const uncounted = [...costs.nodes].flatMap(([node, { macs }]) =>
    macs === undefined ? [describeNode(node)] : [],
  );
  const split = { stages, crossing: crossingOf(parts, costs), balance: balanceOf(sizes), uncounted };
  return { split, whole, costs };
}

/** The mean of sizes divided by the largest; stages that all cost nothing are balanced. */
function balanceOf(sizes: readonly number[]): number {
  const largest = Math.max(...sizes);
  return largest === 0 ? 1 : sizes.reduce((sum, size) => sum + size, 0) / (sizes.length * largest);
}

/** The figure of a node and a stage that each choice balances. */
const FIGURES = {
  macs: 'macs',
  time: 'milliseconds',
  activations: 'activationBytes',
  parameters: 'parameters',
} as const;

/** A checked request. */
type SplitRequest = ReturnType<typeof readSplit>;

function readSplit(places: SplitPlaces, { by, maxTensors, memoryBytes, batch, inputSizes }: SplitOptions) {
  if (places === null || typeof places !== 'object' || 'stages' in places === 'cuts' in places)
    throw invalidOption(
      'places',
      '{ stages: a number, or a list of { until } or { module } } or { cuts: a list of names }',
      places,
    );
  const limits = memoryBytes === undefined ? [] : [memoryBytes].flat();
  return {
    stages: 'stages' in places ? readStages(places.stages) : spansOfCuts(checkNames('cuts', places.cuts)),
    by,
    maxTensors,
    limits: limits.map((bytes) => checkInteger('memoryBytes', bytes, 1, Number.MAX_SAFE_INTEGER)),
    batch: batch || undefined,
    inputSizes: readInputSizes(inputSizes),
  };
}

function readStages(given: number | readonly StageSpan[]): number | StageSpan[] {
  if (!Array.isArray(given)) return checkInteger('stages', given, 1, 1024);
  if (given.length === 0) throw invalidOption('stages', 'a list of at least one stage', given);
  return given.map((span, i) => readSpan(`stages[${i}]`, span));
}

function spansOfCuts(cuts: readonly string[]): StageSpan[] {
  return [...cuts.map((until) => ({ until })), {}];
}

/** Checks the end of a stage. Throws `OPTION_INVALID`. */
export function readSpan(option: string, given: unknown): StageSpan {
  const expected = '{ until: a name }, { module: a path } or {}';
  if (!isPlainObject(given) || Object.keys(given).length > 1) throw invalidOption(option, expected, given);
  const [[kind, name] = ['until', undefined]] = Object.entries(given);
  if (kind !== 'until' && kind !== 'module') throw invalidOption(option, expected, given);
  return name === undefined ? {} : { [kind]: checkText(`${option}.${kind}`, name) };
}

/** Finds the ends of stages in a graph. Unknown names of values are listed in one error. */
function findEnds(graph: Graph, line: CutLine, spans: readonly StageSpan[]): StageEnd[] {
  const named = resolveTensors(
    graph,
    spans.flatMap(({ until }) => until ?? []),
  ).values();
  return spans.map(({ until, module }) => {
    if (until !== undefined) return { until: named.next().value!.value };
    return module === undefined ? {} : { module: nodesOfModule(graph, line, module) };
  });
}

/** What the choice of places depends on. */
function placeCosts(
  { nodes, shapes }: ModelCosts,
  { stages, maxTensors, limits }: Omit<SplitRequest, 'stages'> & { readonly stages: number },
  costOf: PlaceCosts['costOf'],
): PlaceCosts {
  return {
    stages,
    maxTensors,
    limits,
    costOf,
    weightsOf: (node) => {
      const { initializers, weightBytes } = nodes.get(node)!;
      const read = initializers.map((value) => ({ value, bytes: bytesOf(value.initializer!) }));
      const inside = weightBytes - sum(read, ({ bytes }) => bytes);
      // What lies inside the node, under a value that is its own.
      const place = node.outputs.find((value) => value !== undefined);
      return inside > 0 && place ? [...read, { value: place, bytes: inside }] : read;
    },
    bytesOf: (value) => {
      const shape = shapes.get(value);
      return shape && bytesOf(shape);
    },
  };
}

function describeStage(
  { nodes }: StagePart,
  model: PrunedModel,
  { nodes: costs, batch }: ModelCosts,
  times: ReadonlyMap<Node, number> | undefined,
): ModelStage {
  const { rewrite, typeOf } = prunedInternals.of(model);
  const weights = [...rewrite.cut.values].filter(({ initializer }) => initializer !== undefined);
  const weight = weighTensors(rewrite.cut.graph, weights, rewrite.cut.nodes);
  return {
    model,
    macs: sum(nodes, (node) => costs.get(node)!.macs ?? 0) / batch,
    activationBytes: sum(nodes, (node) => costs.get(node)!.activationBytes) / batch,
    milliseconds: times ? sum(nodes, (node) => times.get(node) ?? 0) : null,
    parameters: allElements(weight),
    weightBytes: weight.weightBytes,
    inputs: describeInputs(rewrite),
    outputs: rewrite.outputs.map(({ tensor, value }) =>
      describeType(tensor, typeOf(value) ?? { elemType: 0, dims: null }),
    ),
  };
}

/** What crosses the places between the stages: what is computed in front, or fed, and taken behind. */
function crossingOf(parts: readonly StagePart[], { shapes, batch }: ModelCosts): Crossing[] {
  return parts.slice(1).map((_, i) => {
    const behind = parts.slice(i + 1);
    const made = new Set(behind.flatMap(({ outputs }) => outputs));
    const crossing = [...new Set(behind.flatMap(({ inputs }) => inputs))].filter((value) => !made.has(value));
    return {
      tensors: crossing.map(({ name }) => name),
      bytesPerSample: sum(crossing, (value) => rowBytes(shapes.get(value), batch)),
    };
  });
}

/** Bytes of one row of a tensor; all bytes of one that has no row per sample. */
function rowBytes(shape: MeasuredShape | undefined, batch: number): number {
  if (!shape) return 0;
  return shape.dims[0] === batch ? bytesOf(shape) / batch : bytesOf(shape);
}
