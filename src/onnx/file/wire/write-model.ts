/**
 * New ONNX messages, as protobuf fields ready to be placed in their parent message. A user's own messages never pass
 * through here: they are copied byte for byte. This is the only import of onnx-proto, whose schema is from ONNX 1.10 and
 * would drop newer fields.
 */
import { packageRequire } from '../../../base/package.js';
import type { onnx } from 'onnx-proto';
import { fieldChunks, sizeOf, type Chunk } from './chunk.js';
import { ENTRY, GRAPH, MODEL, NODE, TENSOR, VALUE_INFO, type Dim } from './schema.js';
import { encodeFieldHead, encodeText } from './wire.js';

/** A body of a node such as If: it reads values of the graph around it, and gives one. */
export interface NewBody {
  readonly nodes: readonly NewNode[];
  readonly output: string;
}

/** The value of an attribute: integers as plain numbers, a float or a body in an object. */
export type NewAttribute =
  number | string | readonly number[] | { readonly float: number } | { readonly body: NewBody };

/** A node of the default domain. */
export interface NewNode {
  readonly name: string;
  readonly opType: string;
  /** Tensor names; "" stands for an absent optional input. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, NewAttribute>>;
}

/** A tensor with its values. */
export interface NewTensor<Data extends Chunk = Uint8Array> {
  readonly name: string;
  readonly elemType: number;
  readonly dims: readonly number[];
  /** Elements in row-major order, little-endian. */
  readonly data: Data;
}

/** A tensor whose values lie in a file. */
export interface NewExternalTensor extends Omit<NewTensor, 'data'> {
  readonly external: {
    /** Relative to the folder of the model, with `/`. */
    readonly location: string;
    readonly offset: number;
    /** In bytes. */
    readonly length: number;
  };
}

/** The type of a tensor. */
export interface TensorType {
  /** ONNX's number of the element type. */
  readonly elemType: number;
  /** Sizes; null leaves the rank open. */
  readonly dims: readonly Dim[] | null;
}

/** A graph input or output. */
export interface NewValue extends TensorType {
  readonly name: string;
}

/** A whole model that uses operators of the default domain only. */
export interface NewModel<Data extends Chunk = Uint8Array> {
  readonly irVersion: number;
  readonly opset: number;
  readonly producer?: string;
  readonly description?: string;
  /** The name of the graph. */
  readonly name: string;
  readonly nodes: readonly NewNode[];
  readonly tensors: readonly (NewTensor<Data> | NewExternalTensor)[];
  readonly inputs: readonly NewValue[];
  readonly outputs: readonly NewValue[];
}

/** The bytes of a field in pieces, so that weights are copied once. */
type Bytes = readonly Uint8Array[];

/** AttributeProto.AttributeType. */
const ATTRIBUTE_TYPE = { float: 1, int: 2, text: 3, graph: 5, ints: 7 } as const;

let loaded: typeof onnx | undefined;

/** onnx-proto, loaded on first use: reading a model does not need it. */
function proto(): typeof onnx {
  // The package is CommonJS; its types name the same export.
  loaded ??= (packageRequire('onnx-proto') as { onnx: typeof onnx }).onnx;
  return loaded;
}

/** A string field. A name keeps the bytes it had in its source, even if they are not UTF-8. */
export function writeName(fieldNumber: number, name: string): Uint8Array {
  const bytes = encodeText(name);
  return Buffer.concat([encodeFieldHead(fieldNumber, bytes.byteLength), bytes]);
}

/** A node of a graph. */
export function writeNode(node: NewNode): Bytes {
  const attribute = attributesOf(node);
  return fieldChunks(GRAPH.node, [
    ...node.inputs.map((name) => writeName(NODE.input, name)),
    ...node.outputs.map((name) => writeName(NODE.output, name)),
    writeName(NODE.name, node.name),
    proto().NodeProto.encode({ opType: node.opType, attribute }).finish(),
  ]);
}

function attributesOf(node: NewNode): onnx.IAttributeProto[] {
  return Object.entries(node.attributes ?? {}).map(([name, value]) =>
    Object.assign(attributeValue(value), { name }),
  );
}

function attributeValue(value: NewAttribute): onnx.IAttributeProto {
  if (typeof value === 'number') return { type: ATTRIBUTE_TYPE.int, i: value };
  if (typeof value === 'string') return { type: ATTRIBUTE_TYPE.text, s: encodeText(value) };
  if ('float' in value) return { type: ATTRIBUTE_TYPE.float, f: value.float };
  if ('body' in value) return { type: ATTRIBUTE_TYPE.graph, g: bodyOf(value.body) };
  return { type: ATTRIBUTE_TYPE.ints, ints: [...value] };
}

/** Only for added nodes, whose names are texts. */
function bodyOf({ nodes, output }: NewBody): onnx.IGraphProto {
  const node = nodes.map((one) => ({
    name: one.name,
    opType: one.opType,
    input: [...one.inputs],
    output: [...one.outputs],
    attribute: attributesOf(one),
  }));
  return { name: output, node, output: [{ name: output }] };
}

/** An initializer of a graph. */
export function writeInitializer<Data extends Chunk>(
  tensor: NewTensor<Data> | NewExternalTensor,
): (Data | Uint8Array)[] {
  return 'external' in tensor ? writeExternal(tensor) : writeTensor(GRAPH.initializer, tensor);
}

function writeExternal({ name, elemType, dims, external }: NewExternalTensor): Uint8Array[] {
  const externalData = Object.entries(external).map(([key, value]) => ({ key, value: String(value) }));
  return fieldChunks(GRAPH.initializer, [
    proto()
      .TensorProto.encode({ dims: [...dims], dataType: elemType, externalData, dataLocation: 1 })
      .finish(),
    writeName(TENSOR.name, name),
  ]);
}

/** A tensor as a field of any message, by its number there. */
export function writeTensor<Data extends Chunk>(
  fieldNumber: number,
  { name, elemType, dims, data }: NewTensor<Data>,
): (Data | Uint8Array)[] {
  return fieldChunks<Data | Uint8Array>(fieldNumber, [
    proto()
      .TensorProto.encode({ dims: [...dims], dataType: elemType })
      .finish(),
    writeName(TENSOR.name, name),
    ...fieldChunks(TENSOR.rawData, [data]),
  ]);
}

/** The body of a ValueInfoProto: a name and the type of a tensor. */
export function writeValueBody({ name, elemType, dims }: NewValue): Bytes {
  const dim = dims?.map((size) =>
    typeof size === 'number' ? { dimValue: size } : size === null ? {} : { dimParam: size },
  );
  const tensorType = { elemType, ...(dim === undefined ? {} : { shape: { dim } }) };
  return [
    writeName(VALUE_INFO.name, name),
    ...fieldChunks(VALUE_INFO.type, [proto().TypeProto.encode({ tensorType }).finish()]),
  ];
}

/** A graph input, output or value_info, by its field number. */
export function writeValue(fieldNumber: number, value: NewValue): Bytes {
  return fieldChunks(fieldNumber, writeValueBody(value));
}

/** A model's import of a version of the default operator set. */
export function writeOpset(version: number): Bytes {
  return fieldChunks(MODEL.opsetImport, [
    proto().OperatorSetIdProto.encode({ domain: '', version }).finish(),
  ]);
}

/** An entry of a list of key-value pairs. */
export function writeEntry(fieldNumber: number, key: string, value: string): Bytes {
  return fieldChunks(fieldNumber, [writeName(ENTRY.key, key), writeName(ENTRY.value, value)]);
}

/** Writes a whole model in pieces. Each tensor's values are one piece. The pieces keep the order of the tensors. */
export function writeModelPieces<Data extends Chunk>(model: NewModel<Data>): (Data | Uint8Array)[] {
  const { irVersion, opset, producer, description, name, nodes, tensors, inputs, outputs } = model;
  const head = {
    irVersion,
    ...(producer === undefined ? {} : { producerName: producer }),
    ...(description === undefined ? {} : { docString: description }),
  };
  const graph = [
    ...nodes.flatMap(writeNode),
    writeName(GRAPH.name, name),
    ...tensors.flatMap((tensor) => writeInitializer(tensor)),
    ...inputs.flatMap((value) => writeValue(GRAPH.input, value)),
    ...outputs.flatMap((value) => writeValue(GRAPH.output, value)),
  ];
  return [
    proto().ModelProto.encode(head).finish(),
    ...fieldChunks<Data | Uint8Array>(MODEL.graph, graph),
    ...writeOpset(opset),
  ];
}

/** The bytes of a whole model. */
export function writeModel(model: NewModel): Uint8Array<ArrayBuffer> {
  const pieces = writeModelPieces(model);
  // Not Buffer.concat: a small buffer would be a view of Node's shared pool.
  const bytes = new Uint8Array(sizeOf(pieces));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}
