/**
 * Replacing the values of parameters: a new model that is the old one except for the tensors that changed. Where the exporter merged
 * equal tensors and their values differ now, the merged tensor is split.
 */
import { FreshNames } from '../../../onnx/graph/rewrite/fresh-names.js';
import { addNamesInside } from '../../../onnx/graph/scopes.js';
import type { Graph, Node, Value } from '../../../onnx/graph/graph.js';
import { isIdentity, type Site } from '../../../onnx/graph/parameters/site.js';
import { type Chunk, type Patch, patchField } from '../../../onnx/file/wire/chunk.js';
import { layOut } from '../../../onnx/file/emit.js';
import { replaceElements } from '../../../onnx/file/wire/replace-elements.js';
import { GRAPH, NODE } from '../../../onnx/file/wire/schema.js';
import { WireReader, type Field } from '../../../onnx/file/wire/wire.js';
import {
  writeInitializer,
  writeName,
  writeTensor,
  writeValue,
  type NewTensor,
} from '../../../onnx/file/wire/write-model.js';
import type { ModelState } from './model-state.js';
import { readInitializerBytes } from './read-initializer.js';

/** New elements for a tensor at a place in the graph. */
export interface SiteEdit {
  readonly site: Site;
  /** The name of the parameter, for a tensor that must be split. */
  readonly name: string;
  /** Elements in the dtype and layout of the file's tensor. */
  readonly bytes: Uint8Array;
  /** Sizes in the layout of the file, if they change. Then nothing else may read the tensor. */
  readonly dims?: readonly number[];
  /** Edits with the same owner share a tensor that nothing else reads, whatever its elements are. */
  readonly owner?: string;
}

/** A tensor for an input that a node does not have yet: a bias that the exporter dropped because it was zero. */
export interface NewInput {
  readonly node: Node;
  readonly slot: number;
  readonly name: string;
  readonly elemType: number;
  readonly dims: readonly number[];
  readonly bytes: Uint8Array;
}

/** What changes: fields of the graph by what they become, and new fields. */
class Changes {
  readonly replaced = new Map<Field, readonly Chunk[]>();
  readonly added: Uint8Array[] = [];
  /** Names that inputs of nodes get, by slot. */
  readonly inputs = new Map<Node, Map<number, string>>();
  readonly #names: FreshNames;
  readonly #listsInitializers: boolean;

  constructor({ values, nodes, model }: Graph) {
    const taken = new Set(values.keys());
    for (const node of nodes) addNamesInside(node.scanned, taken);
    this.#names = new FreshNames(taken);
    // Before IR version 4, every initializer is listed as an input as well.
    this.#listsInitializers = model.irVersion < 4;
  }

  /** Adds an initializer, and returns its name. */
  add(wanted: string, elemType: number, dims: readonly number[], data: Uint8Array): string {
    const name = this.#names.take(wanted);
    this.#write({ name, elemType, dims, data });
    return name;
  }

  /** Adds an initializer in place of the node that made a value of its name. */
  write(node: Field, tensor: NewTensor): void {
    this.replaced.set(node, []);
    this.#write(tensor);
  }

  #write(tensor: NewTensor): void {
    this.added.push(...writeInitializer(tensor));
    if (this.#listsInitializers) this.added.push(...writeValue(GRAPH.input, tensor));
  }

  setInput(node: Node, slot: number, name: string): void {
    const names = this.inputs.get(node) ?? new Map<number, string>();
    this.inputs.set(node, names.set(slot, name));
  }
}

/** Replaces tensors, and restates other fields of the graph. Returns the pieces of the new model, or undefined if nothing changes. */
export async function replaceTensors(
  model: ModelState,
  edits: readonly SiteEdit[],
  newInputs: readonly NewInput[] = [],
  restated: ReadonlyMap<Field, readonly Chunk[]> = new Map(),
): Promise<Chunk[] | undefined> {
  const { graph, withSource } = model;
  const changes = new Changes(graph);
  const byInitializer = new Map<Value, SiteEdit[]>();
  for (const edit of edits) {
    const { initializer } = edit.site;
    byInitializer.set(initializer, [...(byInitializer.get(initializer) ?? []), edit]);
  }
  const inPlace = new Map<Value, Uint8Array>();
  const resizedTensors = new Map<Value, NewTensor>();
  for (const [value, ofValue] of byInitializer) {
    const tensor = value.initializer!;
    const resized = ofValue.find(({ dims }) => dims !== undefined);
    if (resized) {
      const { name, elemType } = tensor;
      resizedTensors.set(value, { name, elemType, dims: resized.dims!, data: resized.bytes });
      continue;
    }
    const now = await readInitializerBytes(model, tensor);
    const groups = groupEqual(ofValue);
    const isWhole = ofValue.length === countReads(graph, value);
    const isOwned = ofValue.some(({ owner }) => owner !== undefined);
    const same = isOwned ? undefined : groups.find(([{ bytes }]) => Buffer.compare(bytes, now) === 0);
    const namesake = groups.find(([{ name }]) => name === value.name);
    const keeps = same ?? (isWhole ? (namesake ?? groups[0]) : undefined);
    for (const group of groups) {
      const { name, bytes } = group[0];
      if (group === keeps) {
        if (Buffer.compare(bytes, now) !== 0) inPlace.set(value, bytes);
        continue;
      }
      const copy = group.map(({ site }) => site.node).find((node) => isCopyNamed(graph, node, name));
      if (copy)
        changes.write(copy.scanned.field, {
          name,
          elemType: tensor.elemType,
          dims: tensor.dims,
          data: bytes,
        });
      const added = copy ? name : changes.add(name, tensor.elemType, tensor.dims, bytes);
      for (const { site } of group) if (site.node !== copy) changes.setInput(site.node, site.slot, added);
    }
  }
  for (const { node, slot, name, elemType, dims, bytes } of newInputs)
    changes.setInput(node, slot, changes.add(name, elemType, dims, bytes));
  for (const [field, pieces] of restated) changes.replaced.set(field, pieces);
  if (inPlace.size + resizedTensors.size + changes.replaced.size + changes.added.length === 0)
    return undefined;
  return withSource((source) => {
    const reader = new WireReader(source);
    const replace = ({ initializer, producer }: Value, chunks: Chunk[]): void => {
      const { field } = initializer!;
      // The tensor of a Constant lies inside its node.
      const owner = producer?.scanned.field;
      if (owner) changes.replaced.set(owner, patchField(reader, owner, [{ field, chunks }]));
      else changes.replaced.set(field, chunks);
    };
    for (const [value, bytes] of inPlace)
      replace(value, replaceElements(reader, value.initializer!.field, bytes));
    for (const [value, tensor] of resizedTensors)
      replace(value, writeTensor(value.initializer!.field.number, tensor));
    for (const [node, names] of changes.inputs)
      changes.replaced.set(node.scanned.field, withInputs(reader, node.scanned.field, names));
    return layOut(graph.model, { dropped: new Set(), replaced: changes.replaced, added: changes.added });
  });
}

/** Whether a node copies a merged tensor for a parameter, under its name: TorchScript writes an Identity, `b.weight → g.weight`. */
function isCopyNamed({ isOutput }: Graph, node: Node, name: string): boolean {
  const [copy] = node.outputs;
  return isIdentity(node) && copy?.name === name && !isOutput(copy);
}

/** Edits with the same owner and the same bytes go together. */
function groupEqual(edits: readonly SiteEdit[]): [SiteEdit, ...SiteEdit[]][] {
  const groups: [SiteEdit, ...SiteEdit[]][] = [];
  for (const edit of edits) {
    const group = groups.find(
      ([{ owner, bytes }]) =>
        owner === edit.owner && (bytes === edit.bytes || Buffer.compare(bytes, edit.bytes) === 0),
    );
    if (group) group.push(edit);
    else groups.push([edit]);
  }
  return groups;
}

/** How often a value is read: at inputs of nodes, inside bodies, as an output. */
export function countReads({ isOutput }: Graph, value: Value): number {
  const reads = value.uses.map(({ inputs }) => inputs.filter((input) => input === value).length || 1);
  return reads.reduce((sum, count) => sum + count, isOutput(value) ? 1 : 0);
}

/** A node with other names at some of its inputs. A slot after the last one is added. */
function withInputs(reader: WireReader, field: Field, names: ReadonlyMap<number, string>): Chunk[] {
  const patches: Patch[] = [];
  const inputs: Field[] = [];
  reader.readBody(field, (inner) => {
    if (inner.number === NODE.input) inputs.push(inner);
  });
  for (const [slot, input] of inputs.entries()) {
    const name = names.get(slot);
    const own: Chunk[] = name === undefined ? [input] : [writeName(NODE.input, name)];
    const isLast = slot === inputs.length - 1;
    const more = isLast
      ? [...names].filter(([at]) => at > slot).map(([, added]) => writeName(NODE.input, added))
      : [];
    if (name !== undefined || more.length > 0) patches.push({ field: input, chunks: [...own, ...more] });
  }
  return patchField(reader, field, patches);
}
