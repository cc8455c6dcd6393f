/** The part of ONNX's schema that onnx-tapir uses: field numbers by message, and element types. */

/** A size of a tensor: a number, a symbolic name, or null where the file leaves it open. */
export type Dim = number | string | null;

export const MODEL = {
  irVersion: 1,
  producerName: 2,
  producerVersion: 3,
  graph: 7,
  opsetImport: 8,
  metadataProps: 14,
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
  floatData: 4,
  int32Data: 5,
  int64Data: 7,
  name: 8,
  rawData: 9,
  doubleData: 10,
  uint64Data: 11,
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

/** The node metadata that the index keeps; the rest (stack traces) stays in the file. */
export const NODE_METADATA: ReadonlySet<string> = new Set([
  'pkg.torch.onnx.name_scopes',
  'pkg.torch.onnx.class_hierarchy',
  'pkg.onnxscript.rewriter.rule_name',
]);

/** Where dynamo's exporter keeps the torch call that a node comes from. */
export const TORCH_CALL = 'pkg.torch.onnx.fx_node';

/** ONNX's element types (TensorProto.DataType) in onnxruntime's spelling, with their numbers. */
export const ELEMENT_TYPE = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
  complex64: 14,
  complex128: 15,
  bfloat16: 16,
  float8e4m3fn: 17,
  float8e4m3fnuz: 18,
  float8e5m2: 19,
  float8e5m2fnuz: 20,
  uint4: 21,
  int4: 22,
  float4e2m1: 23,
  float8e8m0: 24,
} as const;

const NUMBERS: ReadonlyMap<string, number> = new Map(Object.entries(ELEMENT_TYPE));
const NAMES: ReadonlyMap<number, string> = new Map([...NUMBERS].map(([name, number]) => [number, name]));

/** The name of an element type's number, or undefined if ONNX has no such type. */
export function elementTypeName(number: number): string | undefined {
  return NAMES.get(number);
}

/** The number of an element type's name, or undefined if ONNX has no type of that name. */
export function elementTypeNumber(name: string): number | undefined {
  return NUMBERS.get(name);
}

/** Bits per element, by element type; strings have no fixed size. */
export const ELEMENT_BITS: ReadonlyMap<number, number> = new Map([
  [1, 32], [2, 8], [3, 8], [4, 16], [5, 16], [6, 32], [7, 64], [9, 8], [10, 16], [11, 64], [12, 32], [13, 64], [14, 64],
  [15, 128], [16, 16], [17, 8], [18, 8], [19, 8], [20, 8], [21, 4], [22, 4], [23, 4], [24, 8], [25, 2], [26, 2],
]); // prettier-ignore

const FLOAT_TYPES: ReadonlySet<number> = new Set([
  ELEMENT_TYPE.float32,
  ELEMENT_TYPE.float16,
  ELEMENT_TYPE.float64,
  ELEMENT_TYPE.bfloat16,
]);

/** Whether an element type is a floating-point number of at least two bytes. */
export function isFloatType(elemType: number): boolean {
  return FLOAT_TYPES.has(elemType);
}
