/** Describes a rewrite as plain data: what it keeps, drops, adds and resolves. */
import { allExternalTensors, listExternal, type ExternalTensor } from '../../file/external-data.js';
import { sizeOf, type Chunk } from '../../file/wire/chunk.js';
import type { PartList, PrunePlan } from './plan.js';
import { readInt8Facts } from './int8-facts.js';
import { describeNode, keepsInitializer } from './prune.js';
import { keepsTraining, trainingFields } from './lay-out.js';
import { addedNodes, keptInputs, type Rewrite } from './rewrite.js';

/** The external tensors that stay as they are. */
export function externalTensors({ cut, retyped }: Rewrite): ExternalTensor[] {
  const { values, nodes, functions } = cut;
  const tensors = listExternal({
    initializers: [...values].flatMap(({ initializer, producer }) => (producer ? [] : (initializer ?? []))),
    nodes: [...nodes].map((node) => node.scanned),
    functions,
  });
  return retyped.size === 0 ? tensors : tensors.filter(({ tensor }) => !retyped.has(tensor));
}

/** Describes a rewrite. `chunks` are the pieces of the written file. */
export function planOf(rewrite: Rewrite, chunks: readonly Chunk[]): PrunePlan {
  const { cut } = rewrite;
  const { graph } = cut;
  const { model } = graph;
  const keptFiles = filesOf(externalTensors(rewrite));
  const allFiles = filesOf(allExternalTensors(model));
  const fed = new Set(keptInputs(rewrite));
  const part = (isKept: boolean): PartList => ({
    nodes: graph.nodes.filter((node) => cut.nodes.has(node) === isKept).map(describeNode),
    initializers: model.graph.initializers
      .filter((tensor) => keepsInitializer(cut, tensor) === isKept)
      .map((tensor) => tensor.name),
    inputs: graph.inputs.filter((value) => fed.has(value) === isKept).map((value) => value.name),
    functions: model.functions.filter((fn) => cut.functions.has(fn) === isKept).map((fn) => fn.name),
    externalFiles: isKept ? keptFiles : allFiles.filter((file) => !keptFiles.includes(file)),
    bytes: isKept ? sizeOf(chunks) : model.sizeBytes - copiedBytes(chunks),
  });
  return {
    kept: part(true),
    dropped: part(false),
    added: {
      nodes: addedNodes(rewrite).map((node) => node.name),
      initializers: rewrite.tensors.map((tensor) => tensor.name),
      inputs: rewrite.inputs.map((input) => input.name),
    },
    resolved: rewrite.outputs.map(({ request, key, value, why, computed }) => ({
      request,
      key,
      tensor: value.name,
      node: value.producer ? describeNode(value.producer) : null,
      why,
      computed,
    })),
    batch: rewrite.batch ?? null,
    notes: [...notesOf(rewrite), ...rewrite.notes],
  };
}

/** Locations as the model states them, in the order of first use. */
function filesOf(tensors: readonly ExternalTensor[]): string[] {
  return [...new Set(tensors.map(({ location }) => location))];
}

function copiedBytes(chunks: readonly Chunk[]): number {
  return sizeOf(chunks.filter((chunk) => !(chunk instanceof Uint8Array) && !('path' in chunk)));
}

/** The note of a plan with such operators. */
export const SHARED_SCALES =
  'it takes 8-bit scales from the whole batch (DynamicQuantizeLinear): the features of an image depend on the images beside it; run batches of 1, or quantise the float32 model (tapir quantize)';

function* notesOf(rewrite: Rewrite): Generator<string> {
  const { cut } = rewrite;
  const { model, nodes } = cut.graph;
  if (!keepsTraining(rewrite) && trainingFields(cut).length > 0)
    yield 'training_info was dropped: it refers to dropped parts';
  const isOptimised = nodes.some(
    (node) => node.domain === 'com.microsoft.nchwc' || node.opType === 'FusedConv',
  );
  if (isOptimised) {
    yield 'this file was written by an optimiser of ONNX Runtime: many source names are gone; cut the original instead';
  }
  if (readInt8Facts(cut).sharesScale) yield SHARED_SCALES;
  if (model.graph.parts.length > 1)
    yield `the graph is split over ${model.graph.parts.length} fields; they were read as one`;
  if (cut.unneeded.length > 0) {
    const names = cut.unneeded.map((value) => `"${value.name}"`).join(', ');
    yield `the outputs do not depend on the given inputs ${names}; they were left out`;
  }
}
