/** What an exporter did to a model, in sentences. */
import type { Graph } from '../../../../onnx/graph/graph.js';
import { floatView } from '../../../../onnx/graph/float-view/float-view.js';
import { moduleTree } from '../../../../onnx/graph/names/module-tree.js';
import { ordinalNames } from '../../../../onnx/graph/names/ordinal-names.js';
import { allExternalTensors } from '../../../../onnx/file/external-data.js';
import { describeValue } from '../../../../run/model/open/value-info.js';
import { dimsText } from '../../../../onnx/tensor/tensor-info.js';
import type { StructureNode } from './model-structure.js';

/** The facts, the most useful first. */
export function exporterFacts(graph: Graph, nodes: readonly StructureNode[]): string[] {
  return [...originFacts(graph), ...inputFacts(graph), ...markFacts(nodes), ...fileFacts(graph)];
}

function* originFacts(graph: Graph): Generator<string> {
  const { producer, irVersion, opsets } = graph.model;
  const sets = [...opsets].map(([domain, version]) =>
    domain === '' ? `${version}` : `${domain} ${version}`,
  );
  const by = producer === '' ? 'The file does not say what wrote it' : `Written by ${producer}`;
  yield `${by}: operator set ${sets.join(', ')}, format version ${irVersion}.`;
  yield nameFact(graph);
}

function nameFact(graph: Graph): string {
  const { scheme } = moduleTree(graph);
  if (graph.sidecar) return 'A names file beside the model tells the names of the source network.';
  if (scheme === 'torchscript')
    return 'Its nodes carry module paths, as PyTorch’s TorchScript exporter writes them.';
  if (scheme === 'dynamo')
    return 'Its nodes carry module paths in their metadata, as PyTorch’s dynamo exporter writes them.';
  const known = ordinalNames(floatView(graph).graph);
  if (known)
    return 'Its nodes carry no module paths; the names come from torchvision’s network with the same operators.';
  return 'Its nodes carry no module paths: long rows of nodes are shown as runs.';
}

function* inputFacts(graph: Graph): Generator<string> {
  for (const value of graph.inputs) {
    const info = describeValue(value);
    const [rows] = info.dims ?? [];
    if (info.dims === null) yield `Input “${info.name}” states no sizes.`;
    else if (info.dims.length < 2) yield `Input “${info.name}” is ${dimsText(info)}.`;
    else if (typeof rows === 'number')
      yield `Input “${info.name}” is ${dimsText(info)}: the batch is fixed at ${rows}; --set dynamicBatch=true opens it where that can be verified.`;
    else yield `Input “${info.name}” is ${dimsText(info)}: any batch.`;
  }
}

function* markFacts(nodes: readonly StructureNode[]): Generator<string> {
  const count = (test: (node: StructureNode) => boolean): number => nodes.filter(test).length;
  const folded = count(({ marks }) => marks.includes('folded'));
  if (folded > 0)
    yield `${folded} ${folded === 1 ? 'convolution holds' : 'convolutions hold'} the BatchNorm after it: its own value is not in the file, so its own name is refused.`;
  const quantised = count(({ marks }) => marks.includes('quantized'));
  if (quantised > 0) yield `${quantised} nodes compute with quantised numbers.`;
  const constants = count(({ role }) => role === 'constant');
  const sizes = count(({ role }) => role === 'shape');
  if (constants + sizes > 0)
    yield `${constants} nodes depend on no input and ${sizes} only on sizes; they are hidden until you show them.`;
}

function* fileFacts(graph: Graph): Generator<string> {
  const files = [...new Set(allExternalTensors(graph.model).map(({ location }) => location))];
  if (files.length > 0)
    yield `Weights lie in other files: ${files.slice(0, 3).join(', ')}${files.length > 3 ? ', …' : ''}.`;
  if (graph.nodes.some(({ domain, opType }) => domain === 'com.microsoft.nchwc' || opType === 'FusedConv'))
    yield 'ONNX Runtime’s optimiser wrote this file: many names of the source network are gone.';
  const functions = graph.model.functions.length;
  if (functions > 0) yield `It defines ${functions} operators itself.`;
}
