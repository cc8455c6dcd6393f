/** A cut → the edit of the file and the plan that describes it. */
import { TapirError } from '../errors.js';
import type { Value } from '../graph/graph.js';
import { namesInside } from '../graph/scopes.js';
import { fieldChunks, layOut, outputChunks, sizeOf, type Chunk } from '../onnx/emit.js';
import { checkExternalLocations, listExternalTensors, type ExternalTensor } from '../onnx/external-data.js';
import { encodeIdentity, encodeName, GRAPH, MODEL, VALUE_INFO } from '../onnx/schema.js';
import type { Field } from '../onnx/wire.js';
import type { PartList, PrunePlan } from './plan.js';
import { describeNode, type Cut, type CutOutput } from './prune.js';

/** Whether outputs are written under their keys (through an Identity node) or under the tensors' own names. */
export type Naming = 'keys' | 'tensors';

/**
 * The bytes of a cut, as ranges of the source and new messages.
 *
 * @throws {@link TapirError} `OUTPUT_NAME_TAKEN` if a key is the name of another kept tensor.
 */
export function layOutCut(cut: Cut, naming: Naming): Chunk[] {
  const dropped = new Set(droppedFields(cut));
  const outputs =
    naming === 'keys' ? cut.outputs : cut.outputs.map((output) => ({ ...output, key: output.value.name }));
  // One output entry per name: the same tensor asked for twice under its own name is one output.
  const unique = [...new Map(outputs.map((output) => [output.key, output])).values()];
  const scanned = cut.graph.model.graph;
  const isOriginal =
    unique.length === scanned.outputs.length &&
    unique.every((output, i) => output.key === output.value.name && output.key === scanned.outputs[i]!.name);
  if (isOriginal) return layOut(cut.graph.model, { dropped, added: [] });
  for (const output of scanned.outputs) dropped.add(output.field);
  const given = new Set(unique.map((output) => output.key));
  for (const info of scanned.valueInfos) if (given.has(info.name)) dropped.add(info.field);
  const renamed = unique.filter((output) => output.key !== output.value.name);
  if (renamed.length > 0) checkFree(cut, renamed);
  const nodeNames = new Set([...cut.nodes].map((node) => node.name));
  const added = [
    ...renamed.flatMap((output) => identityChunks(nodeNames, output)),
    ...unique.flatMap((output) => outputEntry(output)),
  ];
  return layOut(cut.graph.model, { dropped, added });
}

function* droppedFields(cut: Cut): Generator<Field> {
  const { model, nodes, values } = cut.graph;
  const isKept = (name: string): boolean => {
    const value = values.get(name);
    return value !== undefined && cut.values.has(value);
  };
  for (const node of nodes) if (!cut.nodes.has(node)) yield node.scanned.field;
  for (const item of [...model.graph.initializers, ...model.graph.inputs])
    if (!isKept(item.name)) yield item.field;
  const inside = new Set<string>();
  for (const node of cut.nodes) namesInside(node.scanned, inside);
  for (const info of model.graph.valueInfos)
    if (!isKept(info.name) && !inside.has(info.name)) yield info.field;
  for (const annotation of model.graph.annotations) if (!isKept(annotation.tensor)) yield annotation.field;
  for (const fn of model.functions) if (!cut.functions.has(fn)) yield fn.field;
  if (!keepsTraining(cut)) for (const field of trainingFields(cut)) yield field;
}

function trainingFields(cut: Cut): Field[] {
  return cut.graph.model.fields.filter((field) => field.number === MODEL.trainingInfo);
}

/** training_info binds names of the graph, so it stays only if the graph does. */
function keepsTraining(cut: Cut): boolean {
  return cut.nodes.size === cut.graph.nodes.length;
}

function checkFree(cut: Cut, renamed: readonly CutOutput[]): void {
  const taken = new Set([...cut.values].map((value) => value.name));
  for (const node of cut.nodes) namesInside(node.scanned, taken);
  for (const { key } of renamed) {
    if (!taken.has(key)) continue;
    throw new TapirError(
      'OUTPUT_NAME_TAKEN',
      `the output cannot be written as "${key}": another tensor of the kept graph has that name; choose another key, or keepTensorNames`,
      { details: { key } },
    );
  }
}

function identityChunks(taken: ReadonlySet<string>, { key, value }: CutOutput): Chunk[] {
  let name = `tapir/Identity/${key}`;
  while (taken.has(name)) name += '_';
  return fieldChunks(GRAPH.node, [encodeIdentity(name, value.name, key)]);
}

/** What the file states about a value goes over as it is; otherwise a name alone, and ONNX Runtime infers the rest. */
function outputEntry({ key, value }: CutOutput): Chunk[] {
  const info = hasUsableType(value) ? value.info : undefined;
  if (info && key === value.name) return outputChunks([{ start: info.field.bodyStart, end: info.field.end }]);
  const type = info?.typeField ? [{ start: info.typeField.start, end: info.typeField.end }] : [];
  return outputChunks([encodeName(VALUE_INFO.name, key), ...type]);
}

function hasUsableType({ info }: Value): boolean {
  return info?.type !== undefined && (info.type.kind !== 'tensor' || info.type.elemType !== 0);
}

/** The external tensors that stay. */
export function externalTensors(cut: Cut): ExternalTensor[] {
  const initializers = [...cut.values].flatMap((value) => value.initializer ?? []);
  const inFunctions = [...cut.functions].flatMap((fn) => fn.nodes);
  return listExternalTensors([...[...cut.nodes].map((node) => node.scanned), ...inFunctions], initializers);
}

/** Describes a cut. `chunks` are the ones that will be written. */
export function planOf(cut: Cut, chunks: readonly Chunk[]): PrunePlan {
  const { graph } = cut;
  const { model } = graph;
  const keptFiles = checkExternalLocations(externalTensors(cut));
  const allFiles = new Set(
    listExternalTensors(model.graph.nodes, model.graph.initializers).map((external) => external.location),
  );
  const part = (isKept: boolean): PartList => ({
    nodes: graph.nodes.filter((node) => cut.nodes.has(node) === isKept).map(describeNode),
    initializers: model.graph.initializers
      .map((tensor) => tensor.name)
      .filter((name) => cut.values.has(graph.values.get(name)!) === isKept),
    inputs: graph.inputs.filter((value) => cut.values.has(value) === isKept).map((value) => value.name),
    functions: model.functions.filter((fn) => cut.functions.has(fn) === isKept).map((fn) => fn.name),
    externalFiles: isKept ? keptFiles : [...allFiles].filter((file) => !keptFiles.includes(file)),
    bytes: isKept ? sizeOf(chunks) : model.sizeBytes - copiedBytes(chunks),
  });
  return {
    kept: part(true),
    dropped: part(false),
    resolved: cut.outputs.map(({ request, key, value, why }) => ({
      request,
      key,
      tensor: value.name,
      node: value.producer ? describeNode(value.producer) : null,
      why,
    })),
    notes: [...notesOf(cut)],
  };
}

function copiedBytes(chunks: readonly Chunk[]): number {
  return sizeOf(chunks.filter((chunk) => !(chunk instanceof Uint8Array)));
}

function* notesOf(cut: Cut): Generator<string> {
  const { model } = cut.graph;
  if (!keepsTraining(cut) && trainingFields(cut).length > 0)
    yield 'training_info was dropped: it refers to dropped parts';
  const optimised = cut.graph.nodes.some(
    (node) => node.domain === 'com.microsoft.nchwc' || node.opType === 'FusedConv',
  );
  if (optimised) {
    yield 'this file was written by an optimiser of ONNX Runtime: many source names are gone; cut the original instead';
  }
  if (model.graph.parts.length > 1)
    yield `the graph is split over ${model.graph.parts.length} fields; they were read as one`;
}
