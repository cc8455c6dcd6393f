/** The index of a GraphProto and its nodes, bodies of control flow included. */
import {
  scanEntry,
  scanSparseTensor,
  scanTensor,
  scanValueInfo,
  type ScannedTensor,
  type ScannedValueInfo,
} from './scan-value.js';
import { ANNOTATION, ATTRIBUTE, GRAPH, NODE, NODE_METADATA, normalDomain } from './schema.js';
import type { Field, WireReader } from './wire.js';

/** A graph held by an attribute: the body of an If, Loop, Scan or SequenceMap. */
export interface ScannedBody {
  readonly attribute: string;
  readonly graph: ScannedGraph;
}

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
  readonly bodies: readonly ScannedBody[];
  /** The tensors that attributes hold, by attribute (the `value` of a Constant). */
  readonly tensors: readonly { readonly attribute: string; readonly tensor: ScannedTensor }[];
  /** The order of axes of a Transpose. */
  readonly perm: readonly number[] | undefined;
  /** Entries of `metadata_props` named in `NODE_METADATA`. */
  readonly metadata: ReadonlyMap<string, string>;
}

export interface ScannedGraph {
  /** The fields that hold this graph: one, unless a writer split it. */
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

/** Indexes the graph in the given fields, merged. */
export function scanGraph(reader: WireReader, graphFields: readonly Field[]): ScannedGraph {
  const nodes: ScannedNode[] = [];
  const initializers: ScannedTensor[] = [];
  const inputs: ScannedValueInfo[] = [];
  const outputs: ScannedValueInfo[] = [];
  const valueInfos: ScannedValueInfo[] = [];
  const annotations: ScannedAnnotation[] = [];
  let name = '';
  const onField = (field: Field): void => {
    if (field.number === GRAPH.node) nodes.push(scanNode(reader, field));
    else if (field.number === GRAPH.initializer) initializers.push(scanTensor(reader, field));
    else if (field.number === GRAPH.sparseInitializer) initializers.push(scanSparseTensor(reader, field));
    else if (field.number === GRAPH.input) inputs.push(scanValueInfo(reader, field));
    else if (field.number === GRAPH.output) outputs.push(scanValueInfo(reader, field));
    else if (field.number === GRAPH.valueInfo) valueInfos.push(scanValueInfo(reader, field));
    else if (field.number === GRAPH.quantizationAnnotation) annotations.push(scanAnnotation(reader, field));
    else if (field.number === GRAPH.name) name = reader.readText(field);
  };
  const parts = graphFields.map((field) => {
    const fields: Field[] = [];
    reader.readBody(field, (inner) => {
      fields.push(inner);
      onField(inner);
    });
    return { field, fields };
  });
  return { parts, name, nodes, initializers, inputs, outputs, valueInfos, annotations };
}

export function scanNode(reader: WireReader, field: Field): ScannedNode {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const bodies: ScannedBody[] = [];
  const tensors: { attribute: string; tensor: ScannedTensor }[] = [];
  let metadata: Map<string, string> | undefined;
  let perm: number[] | undefined;
  let name = '';
  let opType = '';
  let domain = '';
  let overload = '';
  reader.readBody(field, (inner) => {
    if (inner.number === NODE.input) inputs.push(reader.readText(inner));
    else if (inner.number === NODE.output) outputs.push(reader.readText(inner));
    else if (inner.number === NODE.name) name = reader.readText(inner);
    else if (inner.number === NODE.opType) opType = reader.readText(inner);
    else if (inner.number === NODE.domain) domain = normalDomain(reader.readText(inner));
    else if (inner.number === NODE.overload) overload = reader.readText(inner);
    else if (inner.number === NODE.attribute) perm = scanAttribute(reader, inner, bodies, tensors) ?? perm;
    else if (inner.number === NODE.metadataProps) {
      const entry = scanEntry(reader, inner);
      if (NODE_METADATA.has(entry.key)) (metadata ??= new Map()).set(entry.key, entry.value);
    }
  });
  return {
    field,
    name,
    opType,
    domain,
    overload,
    inputs,
    outputs,
    bodies,
    tensors,
    perm,
    metadata: metadata ?? NO_METADATA,
  };
}

/** Collects the bodies and tensors of an attribute. */
function scanAttribute(
  reader: WireReader,
  field: Field,
  bodies: ScannedBody[],
  tensors: { attribute: string; tensor: ScannedTensor }[],
): number[] | undefined {
  let attribute = '';
  let isSingleSeen = false;
  // Read in place, so that nesting is counted; the name of the attribute may follow what it holds.
  const graphs: ScannedGraph[] = [];
  const held: ScannedTensor[] = [];
  const integers: Field[] = [];
  reader.readBody(field, (inner) => {
    if (inner.number === ATTRIBUTE.name) attribute = reader.readText(inner);
    else if (inner.number === ATTRIBUTE.graph) {
      if (isSingleSeen) throw reader.malformed(inner.start, 'an attribute holds its graph in several pieces');
      isSingleSeen = true;
      graphs.push(scanGraph(reader, [inner]));
    } else if (inner.number === ATTRIBUTE.graphs) graphs.push(scanGraph(reader, [inner]));
    else if (inner.number === ATTRIBUTE.tensor || inner.number === ATTRIBUTE.tensors) {
      held.push(scanTensor(reader, inner));
    } else if (inner.number === ATTRIBUTE.sparseTensor || inner.number === ATTRIBUTE.sparseTensors) {
      held.push(scanSparseTensor(reader, inner));
    } else if (inner.number === ATTRIBUTE.ints) integers.push(inner);
  });
  for (const graph of graphs) bodies.push({ attribute, graph });
  for (const tensor of held) tensors.push({ attribute, tensor });
  if (attribute !== 'perm') return undefined;
  const perm: number[] = [];
  for (const list of integers) reader.readInts(list, perm);
  return perm;
}

function scanAnnotation(reader: WireReader, field: Field): ScannedAnnotation {
  const parameters: string[] = [];
  let tensor = '';
  reader.readBody(field, (inner) => {
    if (inner.number === ANNOTATION.tensorName) tensor = reader.readText(inner);
    else if (inner.number === ANNOTATION.parameters) parameters.push(scanEntry(reader, inner).value);
  });
  return { field, tensor, parameters };
}
