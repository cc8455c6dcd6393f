/** What the nodes of a model cost: multiply-accumulates, weights and activations, at given sizes of its inputs. */
import { TapirError } from '../../../base/errors.js';
import type { Graph, Node, Value } from '../../../onnx/graph/graph.js';
import { findParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import { initializersOf, quantisedWeights } from '../../../onnx/graph/quantised-weights.js';
import { contentsOf } from '../../../onnx/graph/scopes.js';
import { nodeMacs } from '../../../onnx/graph/cost/macs.js';
import { cutGraph, outputsOf } from '../../../onnx/graph/rewrite/prune.js';
import { keptInputs, startRewrite, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { ELEMENT_BITS, ELEMENT_TYPE, elementTypeName } from '../../../onnx/file/wire/schema.js';
import type { ScannedTensor } from '../../../onnx/file/scan/scan-value.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import type { TensorType } from '../../../onnx/file/wire/write-model.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { wholePart } from '../../../onnx/tensor/tensor-part.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeInputs } from '../open/value-info.js';
import { measureValues, readFacts } from './measure-values.js';
import { runMadeUp } from './run-made-up.js';
import { checkOpenable, SessionHolder } from './session-holder.js';

/** The rows and sizes to measure at. */
export interface MeasuredAt {
  /** Undefined for the batch that the file fixes, or 1. */
  readonly batch: number | undefined;
  /** Sizes of other open axes. */
  readonly inputSizes: CheckedSizes;
}

/** Elements of tensors by what they are to the network. */
export interface ElementCounts {
  /** Of learnable tensors, and of weights that are stored as levels. */
  readonly parameters: number;
  /** Of running statistics and of integers that a module holds. */
  readonly buffers: number;
  /**
   * Of all other tensors: constants of the network, and what the exporter computed of parameters. Without lone numbers, and without int64,
   * the type of sizes, axes and indices.
   */
  readonly constants: number;
}

/** What one node costs. */
export interface NodeCosts extends ElementCounts {
  /** Multiply-accumulates; undefined if the operator has no rule. */
  readonly macs: number | undefined;
  /** The initializers that it reads, each once, also inside its bodies, and those of its weights in 8 bits. */
  readonly initializers: readonly Value[];
  readonly weightBytes: number;
  /** Of its outputs. Sequences, maps and texts count zero. */
  readonly activationBytes: number;
}

/** The sizes of a tensor in one run. */
export interface MeasuredShape {
  /** A number of ONNX's element types. */
  readonly elemType: number;
  readonly dims: readonly number[];
}

/** The costs of all nodes that the outputs of a model need. */
export interface ModelCosts {
  /** What its outputs need, with fixed inputs. */
  readonly rewrite: Rewrite;
  /** In execution order. */
  readonly nodes: ReadonlyMap<Node, NodeCosts>;
  /** The inputs, and what the nodes compute. */
  readonly shapes: ReadonlyMap<Value, MeasuredShape>;
  /** The inputs with the sizes that everything was measured at. */
  readonly inputs: readonly TensorInfo[];
  readonly batch: number;
}

/**
 * Measures a model on the CPU, on made-up inputs where ONNX Runtime cannot infer sizes. Throws `BATCH_FIXED` if it takes another batch
 * only; `SESSION_FAILED`, `RUN_FAILED`, `INPUT_MISMATCH`, `GRAPH_INVALID`.
 */
export async function measureCosts(model: OnnxModel, at: MeasuredAt): Promise<ModelCosts> {
  const { graph, withSource } = modelInternals.of(model);
  await using sessions = new SessionHolder(model);
  const { rewrite, inputs, batch } = await fixInputs(rewriteWhole(graph), at, sessions);
  const measured = await measureValues(rewrite, at.inputSizes, sessions);
  const shapes = new Map<Value, MeasuredShape>();
  for (const [value, { elemType, dims }] of measured)
    if (elemType !== undefined) shapes.set(value, { elemType, dims });
  const needed = graph.nodes.filter((node) => rewrite.cut.nodes.has(node));
  const nodes = await withSource((source) => {
    const facts = readFacts(new WireReader(source), measured);
    return new Map(needed.map((node) => [node, costsOf(graph, node, nodeMacs(graph, node, facts), shapes)]));
  });
  return { rewrite, nodes, shapes, inputs, batch };
}

type FixedInputs = Pick<ModelCosts, 'rewrite' | 'inputs' | 'batch'>;

/** Fixes the inputs of a rewrite that only cuts. Sizes that nobody gives are found by running the graph, once. Throws as {@link measureCosts}. */
async function fixInputs(
  rewrite: Rewrite,
  { batch, inputSizes }: MeasuredAt,
  sessions: SessionHolder,
): Promise<FixedInputs> {
  const inputs = describeInputs(rewrite);
  const isOpen = inputs.some(({ dims }) => dims?.every((size) => typeof size === 'number') !== true);
  if (!isOpen) return checked(rewrite, inputs, inputs, batch);
  const replica = await sessions.open({ rewrite });
  const names = replica.facts.outputs.flatMap(({ name, isTensor }) => (isTensor ? [name] : []));
  const rows = batch ?? 1;
  const { fed, refused } = await runMadeUp({ rewrite, given: inputSizes, rows }, (feeds) =>
    replica.run(feeds.map(wholePart), names),
  );
  const dims = new Map(inputs.map(({ name }, i) => [name, fed[i]!.dims]));
  const restated = new Map<Value, TensorType>();
  for (const value of keptInputs(rewrite))
    if (value.type?.kind === 'tensor')
      restated.set(value, { elemType: value.type.elemType, dims: dims.get(value.name)! });
  const fixed = inputs.map((input) => ({ ...input, dims: dims.get(input.name)! }));
  const isFed = refused === undefined && fed.some(({ kinds }) => kinds.includes('rows'));
  if (isFed) return { rewrite: { ...rewrite, restated }, inputs: fixed, batch: rows };
  return checked({ ...rewrite, restated }, inputs, fixed, batch, refused);
}

/** Checks that the inputs have the batch that was asked for, where no open axis took it. */
function checked(
  rewrite: Rewrite,
  declared: readonly TensorInfo[],
  inputs: readonly TensorInfo[],
  asked: number | undefined,
  refused?: string,
): FixedInputs {
  const isOpen = ({ dims }: TensorInfo): boolean => typeof dims?.[0] !== 'number';
  const isBatched = ({ dims }: TensorInfo): boolean => dims !== null && dims.length > 1;
  const open = declared.findIndex((input, i) => isOpen(input) && isBatched(inputs[i]!));
  const leading = open < 0 ? inputs.find(isBatched) : inputs[open];
  const batch = Number(leading?.dims?.[0] ?? 1);
  if (asked === undefined || asked === batch) return { rewrite, inputs, batch };
  throw new TapirError(
    'BATCH_FIXED',
    refused === undefined && open >= 0
      ? `no axis of the inputs is the batch for sure; give whole shapes instead of a batch (inputSizes, or --input-shape)`
      : `the graph takes a batch of ${batch} here, not ${asked}; leave out the batch, or export the model with a dynamic one`,
    { details: { batch, rows: asked } },
  );
}

/** The part of a graph that its outputs need. */
function rewriteWhole(graph: Graph): Rewrite {
  const cut = cutGraph(graph, { outputs: outputsOf(graph.outputs, 'output'), allowNonTensor: true });
  checkOpenable(cut);
  return startRewrite(cut, true);
}

function costsOf(
  graph: Graph,
  node: Node,
  macs: number | undefined,
  shapes: ReadonlyMap<Value, MeasuredShape>,
): NodeCosts {
  const initializers = initializersOf(node);
  return {
    macs,
    initializers,
    ...weighTensors(graph, initializers, [node]),
    activationBytes: sum(node.outputs, (value) => {
      const shape = value && shapes.get(value);
      return shape ? bytesOf(shape) : 0;
    }),
  };
}

/** Elements and bytes of initializers, and of the tensors that bodies of nodes and functions state, each once. */
export function weighTensors(
  graph: Graph,
  initializers: readonly Value[],
  nodes: Iterable<Node>,
): ElementCounts & { readonly weightBytes: number } {
  const counts = countElements(graph, initializers);
  const held = [...contentsOf(graph, nodes)].map((content) => content.held);
  return {
    ...counts,
    constants: counts.constants + sum(held, ({ floats }) => floats),
    weightBytes:
      sum(initializers, ({ initializer }) => bytesOf(initializer!)) + sum(held, ({ bytes }) => bytes),
  };
}

/** Counts the elements of initializers. */
export function countElements(graph: Graph, initializers: readonly Value[]): ElementCounts {
  const { kinds } = findParameters(graph);
  const levels = quantisedWeights(graph);
  const counts = { parameter: 0, buffer: 0, constant: 0 };
  for (const value of initializers) {
    const kind = levels.has(value) ? 'parameter' : (kinds.get(value) ?? 'constant');
    const count = elementCount(value.initializer!.dims);
    const isCounted =
      value.initializer!.elemType !== ELEMENT_TYPE.int64 && (kind !== 'constant' || count > 1);
    if (isCounted) counts[kind] += count;
  }
  return { parameters: counts.parameter, buffers: counts.buffer, constants: counts.constant };
}

/** The types of a graph's parameters, those of most elements first. */
export function parameterTypes(graph: Graph): readonly string[] {
  const counts = new Map<string, number>();
  for (const value of graph.values.values()) {
    const count = value.initializer ? countElements(graph, [value]).parameters : 0;
    const type = elementTypeName(value.initializer?.elemType ?? 0);
    if (count > 0 && type !== undefined) counts.set(type, (counts.get(type) ?? 0) + count);
  }
  return [...counts].toSorted(([, a], [, b]) => b - a).map(([type]) => type);
}

/** Elements of tensors of all kinds. */
export function allElements({ parameters, buffers, constants }: ElementCounts): number {
  return parameters + buffers + constants;
}

/** Bytes of a tensor. Small types are packed. */
export function bytesOf({
  elemType,
  dims,
  parts,
}: Pick<ScannedTensor, 'elemType' | 'dims' | 'parts'>): number {
  if (parts) return sum(parts, bytesOf);
  return Math.ceil((elementCount(dims) * (ELEMENT_BITS.get(elemType) ?? 0)) / 8);
}

/** Adds up a figure of items. */
export function sum<Item>(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
