/** The index of the main graph and its nodes. */
import { scanAttribute } from './scan-attribute.js';
import { BodyScanner, type BodyPlace, type ScannedBodies } from './scan-body.js';
import {
  scanEntry,
  scanKey,
  scanSparseTensor,
  scanTensor,
  scanValueInfo,
  type ScannedTensor,
  type ScannedValueInfo,
} from './scan-value.js';
import { ANNOTATION, GRAPH, NODE, NODE_METADATA, normalDomain, TORCH_CALL } from '../wire/schema.js';
import type { Field, WireReader } from '../wire/wire.js';

export interface ScannedNode {
  readonly field: Field;
  readonly name: string;
  readonly opType: string;
  /** Domain of the operator; "" is the default domain. */
  readonly domain: string;
  readonly overload: string;
  /** Tensor names; "" stands for an absent optional input. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** What its bodies contain, if it is an If, Loop, Scan or SequenceMap. */
  readonly bodies: ScannedBodies | undefined;
  /** The tensors that attributes hold, by attribute (the `value` of a Constant). */
  readonly tensors: readonly { readonly attribute: string; readonly tensor: ScannedTensor }[];
  /** The order of axes of a Transpose. */
  readonly perm: readonly number[] | undefined;
  /** The integers that say how a layer's weight lies: `transB` of a Gemm, `group` of a convolution. */
  readonly layout: ReadonlyMap<string, number>;
  /** Entries of `metadata_props` named in `NODE_METADATA`. */
  readonly metadata: ReadonlyMap<string, string>;
  /**
   * The parameters and buffers that the node's torch call reads, as dynamo's exporter spells them: `layer1_0_conv1_weight`. Undefined
   * if the file does not state the call.
   */
  readonly torchParameters: readonly string[] | undefined;
  /** Those of them that are buffers. */
  readonly torchBuffers: readonly string[];
}

export interface ScannedGraph {
  /**
   * The fields that hold this graph: one, unless a writer split it. Each lists its fields in file order, except those that
   * the index does not know, which are always copied.
   */
  readonly parts: readonly { readonly field: Field; readonly fields: readonly Field[] }[];
  readonly name: string;
  readonly nodes: readonly ScannedNode[];
  /** Dense and sparse initializers. */
  readonly initializers: readonly ScannedTensor[];
  readonly inputs: readonly ScannedValueInfo[];
  readonly outputs: readonly ScannedValueInfo[];
  readonly valueInfos: readonly ScannedValueInfo[];
  readonly annotations: readonly ScannedAnnotation[];
}

/** A TensorAnnotation: which tensors hold the scale and zero point of a quantised tensor. */
export interface ScannedAnnotation {
  readonly field: Field;
  readonly tensor: string;
  readonly parameters: readonly string[];
}

const NO_METADATA: ReadonlyMap<string, string> = new Map();
const NO_TENSORS: ScannedNode['tensors'] = [];
const NO_NAMES: readonly string[] = [];
const NO_LAYOUT: ReadonlyMap<string, number> = new Map();
const LAYOUT_ATTRIBUTES = new Set(['transB', 'group', 'to', 'channels_last']);

/** Indexes the graph in the given fields, merged. */
export function scanGraph(reader: WireReader, graphFields: readonly Field[]): ScannedGraph {
  const nodes: ScannedNode[] = [];
  const initializers: ScannedTensor[] = [];
  const inputs: ScannedValueInfo[] = [];
  const outputs: ScannedValueInfo[] = [];
  const valueInfos: ScannedValueInfo[] = [];
  const annotations: ScannedAnnotation[] = [];
  let name = '';
  /** @returns Whether the index knows the field. */
  const onField = (field: Field): boolean => {
    if (field.number === GRAPH.node) nodes.push(scanNode(reader, field));
    else if (field.number === GRAPH.initializer) initializers.push(scanTensor(reader, field));
    else if (field.number === GRAPH.sparseInitializer) initializers.push(scanSparseTensor(reader, field));
    else if (field.number === GRAPH.input) inputs.push(scanValueInfo(reader, field));
    else if (field.number === GRAPH.output) outputs.push(scanValueInfo(reader, field));
    else if (field.number === GRAPH.valueInfo) valueInfos.push(scanValueInfo(reader, field));
    else if (field.number === GRAPH.quantizationAnnotation) annotations.push(scanAnnotation(reader, field));
    else {
      if (field.number === GRAPH.name) name = reader.readName(field);
      return false;
    }
    return true;
  };
  const parts = graphFields.map((field) => {
    const fields: Field[] = [];
    reader.readBody(field, (inner) => {
      if (!onField(inner)) return;
      fields.push(inner);
      reader.countPart();
    });
    return { field, fields };
  });
  return { parts, name, nodes, initializers, inputs, outputs, valueInfos, annotations };
}

function scanNode(reader: WireReader, field: Field): ScannedNode {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const places: { -readonly [Key in keyof BodyPlace]: BodyPlace[Key] }[] = [];
  let bodies: BodyScanner | undefined;
  let tensors: { attribute: string; tensor: ScannedTensor }[] | undefined;
  let metadata: Map<string, string> | undefined;
  let torchParameters: readonly string[] | undefined;
  let torchBuffers = NO_NAMES;
  let perm: readonly number[] | undefined;
  let layout: Map<string, number> | undefined;
  let name = '';
  let opType = '';
  let domain = '';
  let overload = '';
  reader.readBody(field, (inner) => {
    if (inner.number === NODE.input) inputs.push(reader.readName(inner));
    else if (inner.number === NODE.output) outputs.push(reader.readName(inner));
    else if (inner.number === NODE.name) name = reader.readName(inner);
    else if (inner.number === NODE.opType) opType = reader.readName(inner);
    else if (inner.number === NODE.domain) domain = normalDomain(reader.readName(inner));
    else if (inner.number === NODE.overload) overload = reader.readName(inner);
    else if (inner.number === NODE.attribute) {
      // Filled below, because the names may come after the bodies.
      const place = { attribute: '', opType: '', node: '', parent: undefined };
      let isUsed = false;
      const attribute = scanAttribute(reader, inner, (graph) => {
        isUsed = (bodies ??= new BodyScanner(reader)).addBody(graph, place) || isUsed;
      });
      place.attribute = attribute.name;
      if (isUsed) places.push(place);
      for (const tensor of attribute.tensors) {
        reader.countPart();
        (tensors ??= []).push({ attribute: attribute.name, tensor });
      }
      if (attribute.name === 'perm') perm = attribute.integers;
      if (attribute.integer !== undefined && LAYOUT_ATTRIBUTES.has(attribute.name))
        (layout ??= new Map()).set(attribute.name, attribute.integer);
    } else if (inner.number === NODE.metadataProps) {
      const [key, value] = scanMetadata(reader, inner) ?? [];
      if (key === TORCH_CALL) {
        torchParameters = parametersOf(value!);
        torchBuffers = buffersOf(value!);
      } else if (key !== undefined) (metadata ??= new Map()).set(key, value!);
    }
  });
  for (const place of places) Object.assign(place, { opType, node: name || (outputs[0] ?? '') });
  return {
    field,
    name,
    opType,
    domain,
    overload,
    inputs: trimmed(inputs),
    outputs: trimmed(outputs),
    bodies: bodies?.result,
    tensors: tensors ?? NO_TENSORS,
    perm,
    layout: layout ?? NO_LAYOUT,
    metadata: metadata ?? NO_METADATA,
    torchParameters,
    torchBuffers,
  };
}

/** Without the room that an array keeps for growing, which takes more memory than the names of a small node. */
function trimmed(names: readonly string[]): readonly string[] {
  return names.length === 0 ? NO_NAMES : names.slice();
}

/** An entry that the index keeps. The values of others (stack traces) are long and never decoded. */
function scanMetadata(reader: WireReader, field: Field): [key: string, value: string] | undefined {
  const key = scanKey(reader, field);
  const isKept = key === TORCH_CALL || NODE_METADATA.has(key);
  return isKept ? [key, scanEntry(reader, field).value] : undefined;
}

/** dynamo's exporter calls the placeholders of parameters `p_…`, and those of buffers `b_…`. */
function parametersOf(call: string): readonly string[] | undefined {
  const names = call.match(/(?<=%[pb]_)\w+/g);
  if (names) return [...new Set(names)];
  // Decomposed, a linear layer multiplies with what a node before it transposed.
  return /aten\.mm\b/.test(call) ? undefined : NO_NAMES;
}

/** The names of buffers alone. */
function buffersOf(call: string): readonly string[] {
  if (!call.includes('%b_')) return NO_NAMES;
  const parameters = new Set(call.match(/(?<=%p_)\w+/g));
  return [...new Set(call.match(/(?<=%b_)\w+/g))].filter((name) => !parameters.has(name));
}

/** An entry of a node's metadata that the index does not keep. */
export function readNodeMetadata(reader: WireReader, node: Field, key: string): string | undefined {
  let value: string | undefined;
  reader.readBody(node, (field) => {
    if (field.number !== NODE.metadataProps) return;
    const entry = scanEntry(reader, field);
    if (entry.key === key) value = entry.value;
  });
  return value;
}

function scanAnnotation(reader: WireReader, field: Field): ScannedAnnotation {
  const parameters: string[] = [];
  let tensor = '';
  reader.readBody(field, (inner) => {
    if (inner.number === ANNOTATION.tensorName) tensor = reader.readName(inner);
    else if (inner.number === ANNOTATION.parameters) {
      reader.countPart();
      parameters.push(scanEntry(reader, inner).value);
    }
  });
  return { field, tensor, parameters };
}
