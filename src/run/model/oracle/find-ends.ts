/** The ends of a model that scores images: its image, its scores, and the last value in front of them that still has places. */
import type { Graph, Node, Value } from '../../../onnx/graph/graph.js';
import { imageInput, imageSize } from '../../../onnx/graph/image-axes.js';
import { provenLayout } from '../../../onnx/graph/layout.js';
import { nameValues } from '../../../onnx/graph/names/name-list.js';
import { resolveNames } from '../../../onnx/graph/names/resolve-names.js';
import { operatorOf } from '../../../onnx/graph/operators/operators.js';
import { findProbabilities } from '../../../onnx/graph/probabilities.js';
import { findGrid } from '../../../onnx/graph/rewrite/token-grid.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { readInputSizes, type InputSizes } from '../open/input-sizes.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeValues } from './infer-types.js';
import { SessionHolder } from './session-holder.js';

/** Where images enter a model, and where scores leave it. */
export interface ModelEnds {
  /** The image input; undefined if no input has four axes. */
  readonly image: { readonly name: string; readonly layout: 'NCHW' | 'NHWC' } | undefined;
  readonly scores: {
    /** A name that resolves to the value whose elements are the scores. */
    readonly output: string;
    /** The operator after it that makes probabilities of the scores; null if there is no such operator. */
    readonly skipped: string | null;
  };
}

/**
 * Finds both ends.
 *
 * @param output - The scores, by name; by default the first output of the model, or what its final Softmax, LogSoftmax or Sigmoid reads.
 */
export function findEnds(model: OnnxModel, output?: string): ModelEnds {
  const { graph } = modelInternals.of(model);
  const image = imageInput(graph);
  return {
    image: image && { name: image.value.name, layout: image.axis === 1 ? 'NHWC' : 'NCHW' },
    scores: output === undefined ? findScores(graph) : { output, skipped: null },
  };
}

function findScores(graph: Graph): ModelEnds['scores'] {
  const [output] = graph.outputs;
  const node = findProbabilities(output!);
  const logits = node?.inputs[0];
  if (!logits) return { output: `tensor:${output!.name}`, skipped: null };
  return { output: nameValues(graph).get(logits) ?? `tensor:${logits.name}`, skipped: node.opType };
}

/**
 * Finds the last value with places that an output depends on: a map higher and wider than 1, or tokens of patches. Where the output
 * reads a single token, the patches behind the last attention count nothing; then it is the last normalised tokens in front of it,
 * such as `ln_1` of a ViT's last block.
 *
 * @returns Its name; a list of names of values with places, the last first, if none is proven to be the one.
 * @throws {@link TapirError} those of name resolution.
 */
export async function findPlaces(
  model: OnnxModel,
  output: string,
  inputSizes: InputSizes,
): Promise<string | readonly string[]> {
  const { graph } = modelInternals.of(model);
  const [resolved] = resolveNames(graph, [output]);
  const end = resolved!.value;
  const before = valuesBefore(end);
  const upTo = new Set([...before, end]);
  await using sessions = new SessionHolder(model);
  const typeOf = await describeValues([...upTo], readInputSizes(inputSizes), sessions);
  const named = [...nameValues(graph)].filter(([value]) => value.producer && before.has(value)).toReversed();
  const withPlaces: string[] = [];
  let needsMixing = false;
  for (const [value, name] of named) {
    const kind = placesOf(graph, value, typeOf(value));
    if (!kind) continue;
    const after = kind === 'tokens' ? nodesAfter(value, upTo) : [];
    needsMixing ||= after.some((node) => picksToken(node, typeOf));
    if (!needsMixing || (isNormalised(value) && after.some((node) => mixesPlaces(node, graph)))) return name;
    withPlaces.push(name);
  }
  return withPlaces;
}

/** All computed values that a value depends on. */
function valuesBefore(end: Value): ReadonlySet<Value> {
  const found = new Set<Value>();
  const stack = [end];
  for (let value = stack.pop(); value; value = stack.pop())
    for (const read of value.producer?.inputs ?? [])
      if (read?.producer && !found.has(read)) {
        found.add(read);
        stack.push(read);
      }
  return found;
}

/** The nodes that depend on a value, among those that compute some values. */
function nodesAfter(start: Value, among: ReadonlySet<Value>): readonly Node[] {
  const found = new Set<Node>();
  const stack = [start];
  for (let value = stack.pop(); value; value = stack.pop())
    for (const node of value.uses) {
      if (found.has(node)) continue;
      const results = node.outputs.filter((result) => result && among.has(result));
      if (results.length === 0) continue;
      found.add(node);
      for (const result of results) stack.push(result!);
    }
  return [...found];
}

/** Whether a value has places, and in which form. A size that the file leaves open counts as more than 1. */
function placesOf(graph: Graph, value: Value, { dtype, dims }: TensorInfo): 'map' | 'tokens' | undefined {
  if (dtype !== 'float32' || !dims) return undefined;
  const layout = provenLayout(graph, value, dims);
  if (layout === 'NCHW' || layout === 'NHWC') {
    const first = layout === 'NCHW' ? 2 : 1;
    return dims[first] !== 1 && dims[first + 1] !== 1 ? 'map' : undefined;
  }
  if (layout !== 'NLC' && layout !== 'NCL') return undefined;
  const tokens = dims[layout === 'NLC' ? 1 : 2];
  const image = imageSize(graph);
  const grid = image && typeof tokens === 'number' ? findGrid(tokens, image, undefined) : undefined;
  if (typeof grid !== 'object' || !grid.size) return undefined;
  return grid.size[0] > 1 && grid.size[1] > 1 ? 'tokens' : undefined;
}

/** Whether a node takes a single token out of tokens `[N, L, C]`. */
function picksToken({ opType, inputs, outputs }: Node, typeOf: (value: Value) => TensorInfo): boolean {
  if (opType !== 'Gather' && opType !== 'Slice') return false;
  const [from, to] = [typeOf(inputs[0]!), typeOf(outputs[0]!)];
  if (from.dtype !== 'float32' || from.dims?.length !== 3 || !to.dims) return false;
  return to.dims.length === 2 || to.dims[1] === 1;
}

/** Whether a node lets places exchange what they hold: attention, a product of two values that depend on the input. */
function mixesPlaces(node: Node, graph: Graph): boolean {
  const { opType, inputs } = node;
  const roles = nodeRoles(graph);
  const isProduct =
    opType === 'MatMul' && inputs.every((read) => read?.producer && roles.get(read.producer) === 'data');
  return operatorOf(node)?.isAttention === true || isProduct;
}

/** Whether a value comes from a layer normalisation, whole or as the exporter writes it in parts: (x − μ) / σ · weight + bias. */
function isNormalised({ producer }: Value): boolean {
  if (producer?.opType === 'LayerNormalization') return true;
  const parts = ['Add', 'Mul', 'Div'];
  let node = producer;
  for (const part of parts) {
    if (node?.opType !== part) return false;
    node = node.inputs.find((read) => read?.producer)?.producer;
  }
  return true;
}
