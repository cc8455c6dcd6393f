/**
 * What onnx-tapir needs to know of ONNX's schema: field numbers for reading, element types, and the encoding of
 * the few messages that it creates. The only import of onnx-proto, which is used for nothing else: its schema
 * is from ONNX 1.10 and would drop newer fields of a user's messages.
 */
import { createRequire } from 'node:module';
import type { onnx } from 'onnx-proto';
import { encodeFieldHead, encodeText } from './wire.js';

/** A size: a number, a symbolic name, or null where the file leaves it open. */
export type Dim = number | string | null;

export const MODEL = {
  irVersion: 1,
  producerName: 2,
  producerVersion: 3,
  graph: 7,
  opsetImport: 8,
  trainingInfo: 20,
  functions: 25,
} as const;
export const GRAPH = {
  node: 1,
  name: 2,
  initializer: 5,
  input: 11,
  output: 12,
  valueInfo: 13,
  quantizationAnnotation: 14,
  sparseInitializer: 15,
} as const;
export const NODE = {
  input: 1,
  output: 2,
  name: 3,
  opType: 4,
  attribute: 5,
  domain: 7,
  overload: 8,
  metadataProps: 9,
} as const;
export const ATTRIBUTE = {
  name: 1,
  float: 2,
  int: 3,
  text: 4,
  tensor: 5,
  graph: 6,
  floats: 7,
  ints: 8,
  tensors: 10,
  graphs: 11,
  sparseTensor: 22,
  sparseTensors: 23,
} as const;
export const TENSOR = {
  dims: 1,
  dataType: 2,
  int32Data: 5,
  int64Data: 7,
  name: 8,
  rawData: 9,
  docString: 12,
  externalData: 13,
  dataLocation: 14,
  metadataProps: 16,
} as const;
export const SPARSE_TENSOR = { values: 1, indices: 2, dims: 3 } as const;
export const VALUE_INFO = { name: 1, type: 2 } as const;
export const TYPE = { tensor: 1, sequence: 4, map: 5, opaque: 7, sparseTensor: 8, optional: 9 } as const;
export const TENSOR_TYPE = { elemType: 1, shape: 2 } as const;
export const OPTIONAL = { elemType: 1 } as const;
export const SHAPE = { dim: 1 } as const;
export const DIMENSION = { value: 1, param: 2 } as const;
export const FUNCTION = { name: 1, node: 7, domain: 10, overload: 13 } as const;
export const OPSET = { domain: 1, version: 2 } as const;
/** StringStringEntryProto: metadata, external data, quantisation parameters. */
export const ENTRY = { key: 1, value: 2 } as const;
export const ANNOTATION = { tensorName: 1, parameters: 2 } as const;

/** `ai.onnx` is another spelling of the default domain "". */
export function normalDomain(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain;
}

/** Node metadata worth keeping in the index; the rest (stack traces) stays in the file. */
export const NODE_METADATA: ReadonlySet<string> = new Set([
  'pkg.torch.onnx.name_scopes',
  'pkg.torch.onnx.class_hierarchy',
  'pkg.onnxscript.rewriter.rule_name',
]);

/** Names of TensorProto.DataType by number, in onnxruntime's spelling. */
const ELEMENT_TYPES: readonly (string | undefined)[] = [
  undefined,
  'float32',
  'uint8',
  'int8',
  'uint16',
  'int16',
  'int32',
  'int64',
  'string',
  'bool',
  'float16',
  'float64',
  'uint32',
  'uint64',
  'complex64',
  'complex128',
  'bfloat16',
  'float8e4m3fn',
  'float8e4m3fnuz',
  'float8e5m2',
  'float8e5m2fnuz',
  'uint4',
  'int4',
  'float4e2m1',
  'float8e8m0',
];

/** The name of an element type number, or undefined if ONNX has none. */
export function elementTypeName(number: number): string | undefined {
  return ELEMENT_TYPES[number];
}

let loaded: typeof onnx | undefined;
/** Loaded when something is to be encoded: reading a model does not pay for it. */
function proto(): typeof onnx {
  // The package is CommonJS; its types name the same export.
  loaded ??= (createRequire(import.meta.url)('onnx-proto') as { onnx: typeof onnx }).onnx;
  return loaded;
}

/** Element types that rewrites write, by ONNX's number. */
export const ELEMENT_TYPE = {
  float32: 1,
  uint8: 2,
  int64: 7,
  float16: 10,
  float64: 11,
  bfloat16: 16,
} as const;

/** The number of an element type's name, or undefined if ONNX has none of that name. */
export function elementTypeNumber(name: string): number | undefined {
  const number = ELEMENT_TYPES.indexOf(name);
  return number < 0 ? undefined : number;
}

/** A node that a rewrite adds, of the default domain; "" among the inputs stands for an absent optional one. */
export interface NewNode {
  readonly name: string;
  readonly opType: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, number | readonly number[]>>;
}

/** A tensor that a rewrite adds: little-endian elements. */
export interface NewTensor {
  readonly name: string;
  readonly elemType: number;
  readonly dims: readonly number[];
  readonly data: Uint8Array;
}

const ATTRIBUTE_INT = 2;
const ATTRIBUTE_INTS = 7;

/** A NodeProto. */
export function encodeNode(node: NewNode): Uint8Array {
  const attribute = Object.entries(node.attributes ?? {}).map(([name, value]) =>
    typeof value === 'number'
      ? { name, type: ATTRIBUTE_INT, i: value }
      : { name, type: ATTRIBUTE_INTS, ints: [...value] },
  );
  return Buffer.concat([
    ...node.inputs.map((name) => encodeName(NODE.input, name)),
    ...node.outputs.map((name) => encodeName(NODE.output, name)),
    encodeName(NODE.name, node.name),
    proto().NodeProto.encode({ opType: node.opType, attribute }).finish(),
  ]);
}

/** A TensorProto with its elements inside. */
export function encodeTensor({ name, elemType, dims, data }: NewTensor): Uint8Array {
  const head = proto()
    .TensorProto.encode({ dims: [...dims], dataType: elemType, rawData: data })
    .finish();
  return Buffer.concat([head, encodeName(TENSOR.name, name)]);
}

/** A TypeProto of a tensor; dims null leave the rank open. */
export function encodeTensorType(elemType: number, dims: readonly Dim[] | null): Uint8Array {
  const dim = dims?.map((size) =>
    typeof size === 'number' ? { dimValue: size } : size === null ? {} : { dimParam: size },
  );
  const tensorType = { elemType, ...(dim === undefined ? {} : { shape: { dim } }) };
  return proto().TypeProto.encode({ tensorType }).finish();
}

/** An OperatorSetIdProto of the default domain. */
export function encodeOpset(version: number): Uint8Array {
  return proto().OperatorSetIdProto.encode({ domain: '', version }).finish();
}

/** An entry of `external_data`. */
export function encodeEntry(key: string, value: string): Uint8Array {
  return Buffer.concat([encodeName(ENTRY.key, key), encodeName(ENTRY.value, value)]);
}

/** A string field that holds a user's name byte for byte, also where it is not UTF-8. */
export function encodeName(fieldNumber: number, name: string): Uint8Array {
  const bytes = encodeText(name);
  return Buffer.concat([encodeFieldHead(fieldNumber, bytes.byteLength), bytes]);
}
