/** Lays a rewrite out as the pieces of a file: ranges of the source, and new messages. */
import { TapirError } from '../../../base/errors.js';
import type { MovedWeights } from '../../file/move-weights.js';
import type { Node, Value } from '../graph.js';
import { type Chunk, fieldChunks, type Patch, patchField } from '../../file/wire/chunk.js';
import { layOut } from '../../file/emit.js';
import { replaceElements } from '../../file/wire/replace-elements.js';
import { GRAPH, MODEL, NODE, VALUE_INFO } from '../../file/wire/schema.js';
import {
  writeEntry,
  writeInitializer,
  writeName,
  writeNode,
  writeOpset,
  writeValue,
  writeValueBody,
  type NewNode,
} from '../../file/wire/write-model.js';
import type { ScannedValueInfo } from '../../file/scan/scan-value.js';
import type { Field, WireReader } from '../../file/wire/wire.js';
import { isSortedOrder } from '../execution-order.js';
import { addNamesInside } from '../scopes.js';
import { interiorInputs, keepsInitializer, type Cut } from './prune.js';
import { unusedImports } from './tidy.js';
import { ADDED_OPSET, opsetOf } from '../operator-sets.js';
import { keptNames } from './fresh-names.js';
import {
  editOf,
  keptInputs,
  standingNodes,
  type NodeEdit,
  type RepeatedNode,
  type Rewrite,
  type RewriteOutput,
} from './rewrite.js';

/** Whether outputs are written under their keys (through an Identity node) or under the tensors' own names. */
export type Naming = 'keys' | 'tensors';

/**
 * The bytes of a rewrite, as ranges of the source and new messages.
 *
 * @param reader - Reads the source; used only for nodes that are patched.
 * @param weights - External weights that move to another place.
 * @throws {@link TapirError} `OUTPUT_NAME_TAKEN` if a key is the name of another kept tensor.
 */
export function layOutRewrite(
  rewrite: Rewrite,
  naming: Naming,
  reader: WireReader,
  weights: MovedWeights = new Map(),
): Chunk[] {
  const { cut } = rewrite;
  const { model } = cut.graph;
  const dropped = new Set(droppedFields(rewrite));
  const outputs = writtenOutputs(rewrite, naming);
  const areOriginal = isOriginal(rewrite, outputs);
  if (!areOriginal) dropReplacedInfos(cut, outputs, dropped);
  const renamed = outputs.filter((output) => output.key !== output.tensor);
  if (renamed.length > 0) checkFree(rewrite, renamed);
  const renaming = renamed.flatMap((output) => renamingNodes(rewrite, output));
  const tidied = rewrite.isTidy ? standingNodes(rewrite).map(({ scanned }) => scanned) : [];
  const isSorted = tidied.length === 0 || isSortedOrder(model.graph.nodes, tidied);
  if (rewrite.isTidy) for (const field of unusedImports(cut)) dropped.add(field);
  const replaced = new Map<Field, readonly Chunk[]>();
  for (const [field, patches] of weights) replaced.set(field, patchOwner(reader, field, patches));
  for (const [field, chunks] of editedNodes(rewrite, reader, weights)) replaced.set(field, chunks);
  for (const [tensor, { elemType, data }] of rewrite.retyped)
    if (tensor.field.number === GRAPH.initializer && model.graph.initializers.includes(tensor))
      replaced.set(tensor.field, replaceElements(reader, tensor.field, data, elemType));
  for (const info of [...model.graph.inputs, ...model.graph.valueInfos]) {
    const type = rewrite.restated.get(cut.graph.values.get(info.name)!);
    if (type && !dropped.has(info.field)) {
      const number = model.graph.inputs.includes(info) ? GRAPH.input : GRAPH.valueInfo;
      replaced.set(info.field, writeValue(number, { name: info.name, ...type }));
    }
  }
  if (rewrite.opset !== undefined && rewrite.opset !== model.opsets.get(''))
    for (const [field, domain] of model.imports)
      if (domain === '') replaced.set(field, writeOpset(rewrite.opset));
  const added = [
    ...rewrite.back.flatMap((node): readonly Chunk[] =>
      'repeats' in node ? repeatNode(reader, node, weights) : writeNode(node),
    ),
    ...renaming.flatMap(writeNode),
    ...rewrite.tensors.flatMap((tensor) => writeInitializer(tensor)),
    // Before IR version 4, every initializer is listed as an input as well.
    ...(model.irVersion < 4 ? rewrite.tensors : []).flatMap((tensor) => writeValue(GRAPH.input, tensor)),
    ...rewrite.inputs.flatMap((input) => writeValue(GRAPH.input, input)),
    ...rewrite.stated.flatMap((value) => writeValue(GRAPH.valueInfo, value)),
    ...(areOriginal ? [] : outputs.flatMap((output) => fieldChunks(GRAPH.output, outputBody(output)))),
  ];
  const front: Chunk[] = rewrite.front.flatMap(writeNode);
  for (const { field } of isSorted ? [] : tidied) {
    front.push(...(replaced.get(field) ?? [field]));
    dropped.add(field);
  }
  const hasNewNodes = front.length > 0 || rewrite.back.length > 0 || renaming.length > 0;
  const imports = hasNewNodes && !model.opsets.has('') ? writeOpset(ADDED_OPSET) : [];
  const metadata = Object.entries(rewrite.metadata).flatMap(([key, value]) =>
    writeEntry(MODEL.metadataProps, key, value),
  );
  return layOut(model, { dropped, replaced, front, added, addedToModel: [...imports, ...metadata] });
}

/** One output entry per name: the same tensor asked for twice under its own name is one output. */
function writtenOutputs({ outputs }: Rewrite, naming: Naming): RewriteOutput[] {
  const written = outputs.map((output) => ({
    ...output,
    key: naming === 'keys' ? output.key : output.tensor,
  }));
  return [...new Map(written.map((output) => [output.key, output])).values()];
}

function isOriginal({ cut }: Rewrite, outputs: readonly RewriteOutput[]): boolean {
  const before = cut.graph.model.graph.outputs;
  return (
    outputs.length === before.length &&
    outputs.every(
      ({ key, tensor, type }, i) => key === tensor && key === before[i]!.name && type === undefined,
    )
  );
}

/** Drops the outputs of the source, and value_info entries of new outputs: their output entries hold the types. */
function dropReplacedInfos(cut: Cut, outputs: readonly RewriteOutput[], dropped: Set<Field>): void {
  const scanned = cut.graph.model.graph;
  const given = new Set(outputs.map((output) => output.key));
  for (const output of scanned.outputs) dropped.add(output.field);
  for (const info of scanned.valueInfos) if (given.has(info.name)) dropped.add(info.field);
}

function* droppedFields(rewrite: Rewrite): Generator<Field> {
  const { cut } = rewrite;
  const { model, nodes, values } = cut.graph;
  const isKept = (name: string): boolean => {
    const value = values.get(name);
    return value !== undefined && cut.values.has(value);
  };
  const standing = new Set(standingNodes(rewrite));
  for (const node of nodes) if (!standing.has(node)) yield node.scanned.field;
  for (const tensor of model.graph.initializers) if (!keepsInitializer(cut, tensor)) yield tensor.field;
  const fed = new Set(keptInputs(rewrite).map((value) => value.name));
  for (const input of model.graph.inputs) {
    const value = values.get(input.name)!;
    if (value.initializer ? !isKept(input.name) : !fed.has(input.name)) yield input.field;
  }
  const inside = new Set<string>();
  for (const node of cut.nodes) addNamesInside(node.scanned, inside);
  const interior = new Set(interiorInputs(cut).map((value) => value.name));
  const seen = new Set<string>();
  for (const info of model.graph.valueInfos) {
    // ONNX Runtime refuses two entries for one value, and one for a value that has an entry as input.
    const isRepeated = seen.has(info.name) || interior.has(info.name);
    seen.add(info.name);
    if (isRepeated || (!isKept(info.name) && !inside.has(info.name))) yield info.field;
  }
  for (const annotation of model.graph.annotations) if (!isKept(annotation.tensor)) yield annotation.field;
  for (const fn of model.functions) if (!cut.functions.has(fn)) yield fn.field;
  if (!keepsTraining(rewrite)) for (const field of trainingFields(cut)) yield field;
}

/** The fields that hold training_info. */
export function trainingFields(cut: Cut): Field[] {
  return cut.graph.model.fields.filter((field) => field.number === MODEL.trainingInfo);
}

/** Whether training_info stays. It refers to names of the graph, so the whole graph must stay. */
export function keepsTraining({ cut }: Rewrite): boolean {
  return cut.nodes.size === cut.graph.nodes.length;
}

/** A field of graph or model, with patches inside it or replaced by one. */
export function patchOwner(reader: WireReader, field: Field, patches: readonly Patch[]): Chunk[] {
  const whole = patches.find((patch) => patch.field === field);
  return whole ? [...whole.chunks] : patchField(reader, field, patches);
}

/** What is written in the places of nodes that an edit changes, or that hold tensors with other elements. */
function* editedNodes(
  rewrite: Rewrite,
  reader: WireReader,
  weights: MovedWeights,
): Generator<readonly [Field, Chunk[]]> {
  const { cut, edits, retyped } = rewrite;
  const holders = [...cut.nodes].filter(({ scanned }) =>
    scanned.tensors.some(({ tensor }) => retyped.has(tensor)),
  );
  for (const node of new Set([...edits.keys(), ...holders])) {
    const edit = editOf(rewrite, node);
    const { field } = node.scanned;
    const inside = [
      ...namePatches(reader, node, edit),
      ...(weights.get(field) ?? []),
      ...elementPatches(reader, node, retyped),
    ];
    const kept = inside.length > 0 ? patchField(reader, field, inside) : [field];
    const body = edit.instead?.flatMap(writeNode) ?? kept;
    yield [field, [...edit.before.flatMap(writeNode), ...body]];
  }
}

/** A node of the source under other names. */
function repeatNode(
  reader: WireReader,
  { repeats, name, inputs, outputs }: RepeatedNode,
  weights: MovedWeights,
): Chunk[] {
  const patch = { name, inputs: new Map(inputs.entries()), outputs: new Map(outputs.entries()) };
  const { field } = repeats.scanned;
  return patchField(reader, field, [...namePatches(reader, repeats, patch), ...(weights.get(field) ?? [])]);
}

/** The tensors in a node's attributes that get other elements. */
function elementPatches(reader: WireReader, { scanned }: Node, retyped: Rewrite['retyped']): Patch[] {
  return scanned.tensors.flatMap(({ tensor }) => {
    const elements = retyped.get(tensor);
    if (!elements) return [];
    const { field } = tensor;
    return [{ field, chunks: replaceElements(reader, field, elements.data, elements.elemType) }];
  });
}

function namePatches(
  reader: WireReader,
  node: Node,
  { inputs, outputs, name: own }: Omit<NodeEdit, 'before'>,
): Patch[] {
  if (inputs.size === 0 && outputs.size === 0 && own === undefined) return [];
  const patches: Patch[] = [];
  const count = { [NODE.input]: 0, [NODE.output]: 0 };
  let last: Field | undefined;
  reader.readBody(node.scanned.field, (field) => {
    if (field.number === NODE.name && own !== undefined)
      patches.push({ field, chunks: [writeName(NODE.name, own)] });
    if (field.number !== NODE.input && field.number !== NODE.output) return;
    if (field.number === NODE.input) last = field;
    const position = count[field.number]!++;
    const name = (field.number === NODE.input ? inputs : outputs).get(position);
    if (name !== undefined) patches.push({ field, chunks: [writeName(field.number, name)] });
  });
  // A layer without a bias gets one.
  const added = [...inputs].filter(([position]) => position >= count[NODE.input]);
  if (!last || added.length === 0) return patches;
  const { start, end } = last;
  const before = patches.find(({ field }) => field.start === start)?.chunks ?? [{ start, end }];
  const chunks = [...before, ...added.map(([, name]) => writeName(NODE.input, name))];
  return [...patches.filter(({ field }) => field.start !== start), { field: last, chunks }];
}

function checkFree({ cut }: Rewrite, renamed: readonly RewriteOutput[]): void {
  const taken = keptNames(cut);
  for (const { key } of renamed) {
    if (!taken.has(key)) continue;
    throw new TapirError(
      'OUTPUT_NAME_TAKEN',
      `the output cannot be written as "${key}": another tensor of the kept graph has that name; choose another key, or keepTensorNames`,
      { details: { key } },
    );
  }
}

/**
 * The nodes that give an output its key as name: an Identity. For a tensor that a Pad reads, it is a Reshape to the same shape. onnxruntime
 * fuses that Pad with the node after it, and forgets that this node reads the tensor now. It would take the Identity for the only reader,
 * and rename the tensor to the key (docs/decisions/022-output-names.md).
 */
function renamingNodes({ cut }: Rewrite, { key, tensor, value }: RewriteOutput): NewNode[] {
  const taken = keptNames(cut);
  for (const node of cut.nodes) taken.add(node.name);
  const nameOf = (what: string): string => {
    let name = `tapir/${what}/${key}`;
    while (taken.has(name)) name += '_';
    return name;
  };
  const isPadded = tensor === value.name && isReadByPad(cut, value) && opsetOf(cut.graph) >= RESHAPE_OPSET;
  if (!isPadded) return [{ name: nameOf('Identity'), opType: 'Identity', inputs: [tensor], outputs: [key] }];
  const shape = nameOf('shape');
  return [
    { name: nameOf('Shape'), opType: 'Shape', inputs: [tensor], outputs: [shape] },
    { name: nameOf('Reshape'), opType: 'Reshape', inputs: [tensor, shape], outputs: [key] },
  ];
}

/** Since this operator set, Reshape reads its shape from an input. */
const RESHAPE_OPSET = 5;
/** Nodes that onnxruntime may remove: readers of their output then read their input. */
const REMOVABLE: ReadonlySet<string> = new Set(['Identity', 'Dropout', 'Cast']);

function isReadByPad(cut: Cut, value: Value): boolean {
  let source = value;
  while (source.producer && REMOVABLE.has(source.producer.opType) && source.producer.inputs[0])
    [source] = source.producer.inputs as [Value];
  const open = [source];
  for (let at = open.pop(); at; at = open.pop()) {
    for (const node of at.uses) {
      if (!cut.nodes.has(node)) continue;
      if (node.opType === 'Pad') return true;
      if (REMOVABLE.has(node.opType) && node.outputs[0]) open.push(node.outputs[0]);
    }
  }
  return false;
}

/** Copies the file's statement about a value. Without one, the entry is only a name, and ONNX Runtime infers the type. */
function outputBody({ key, tensor, value, type }: RewriteOutput): Chunk[] {
  if (type) return [...writeValueBody({ name: key, ...type })];
  const info: ScannedValueInfo | undefined =
    tensor === value.name && hasUsableType(value) ? value.info : undefined;
  if (info && key === value.name) return [{ start: info.field.bodyStart, end: info.field.end }];
  const stated = info?.typeField ? [{ start: info.typeField.start, end: info.typeField.end }] : [];
  return [writeName(VALUE_INFO.name, key), ...stated];
}

function hasUsableType({ info }: Value): boolean {
  return info?.type !== undefined && (info.type.kind !== 'tensor' || info.type.elemType !== 0);
}
