/** The index of tensors and of the types of values. */
import {
  DIMENSION,
  ELEMENT_TYPE,
  ENTRY,
  OPTIONAL,
  SHAPE,
  SPARSE_TENSOR,
  TENSOR,
  TENSOR_TYPE,
  TYPE,
  VALUE_INFO,
  type Dim,
} from '../wire/schema.js';
import { MAX_RANK, type Field, type WireReader } from '../wire/wire.js';

/** The declared type of a value. */
export type ValueType =
  | { readonly kind: 'tensor'; readonly elemType: number; readonly dims: readonly Dim[] | undefined }
  | { readonly kind: 'sequence' | 'map' | 'optional' | 'sparse tensor' | 'opaque' };

/** A ValueInfoProto: the declared name and type of a value. */
export interface ScannedValueInfo {
  readonly field: Field;
  readonly name: string;
  /** The field that holds the TypeProto, for copying. */
  readonly typeField: Field | undefined;
  readonly type: ValueType | undefined;
}

/** A TensorProto without its payload. */
export interface ScannedTensor {
  readonly field: Field;
  readonly name: string;
  readonly elemType: number;
  readonly dims: readonly number[];
  /** Entries of `external_data`, if the values lie in another file. */
  readonly external: ReadonlyMap<string, string> | undefined;
  /** The values and indices of a sparse tensor. */
  readonly parts?: readonly ScannedTensor[];
  /** The element of a tensor of one, as bits without a sign, if it has 8 or 16 bits: so zero points are read. */
  readonly bits?: number;
}

const EXTERNAL = 1;

export function scanTensor(reader: WireReader, field: Field): ScannedTensor {
  const dims: number[] = [];
  let external: Map<string, string> | undefined;
  let isExternal = false;
  let name = '';
  let elemType = 0;
  let data: Field | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === TENSOR.name) name = reader.readName(inner);
    else if (inner.number === TENSOR.rawData || inner.number === TENSOR.int32Data) data = inner;
    else if (inner.number === TENSOR.dataType) elemType = reader.readInt(inner);
    else if (inner.number === TENSOR.dims) readDims(reader, inner, dims);
    else if (inner.number === TENSOR.dataLocation) isExternal = reader.readInt(inner) === EXTERNAL;
    else if (inner.number === TENSOR.externalData) {
      reader.countPart();
      const { key, value } = scanEntry(reader, inner);
      (external ??= new Map()).set(key, value);
    }
  });
  return {
    field,
    name,
    elemType,
    dims: dims.slice(),
    external: isExternal ? (external ?? new Map()) : undefined,
    ...scanBits(reader, data, elemType, dims),
  };
}

const BITS: ReadonlyMap<number, number> = new Map([
  [ELEMENT_TYPE.int8, 8],
  [ELEMENT_TYPE.uint8, 8],
  [ELEMENT_TYPE.int16, 16],
  [ELEMENT_TYPE.uint16, 16],
]);

function scanBits(
  reader: WireReader,
  data: Field | undefined,
  elemType: number,
  dims: readonly number[],
): Pick<ScannedTensor, 'bits'> {
  const width = BITS.get(elemType);
  if (!data || width === undefined || dims.some((size) => size !== 1)) return {};
  if (data.number === TENSOR.int32Data) {
    const elements: number[] = [];
    return reader.readInts(data, elements, 1) && elements.length === 1
      ? { bits: elements[0]! & (2 ** width - 1) }
      : {};
  }
  if (data.end - data.bodyStart !== width / 8) return {};
  const [low = 0, high = 0] = reader.readBytes(data);
  return { bits: low + 256 * high };
}

/** Adds sizes; damaged and hostile files have millions of them. */
function readDims(reader: WireReader, field: Field, into: number[]): void {
  if (!reader.readInts(field, into, MAX_RANK)) throw tooManyAxes(reader, field);
}

function tooManyAxes(reader: WireReader, field: Field): Error {
  return reader.malformed(field.start, `a tensor has more than ${MAX_RANK} axes`);
}

/** A SparseTensorProto; its name is that of its `values`. */
export function scanSparseTensor(reader: WireReader, field: Field): ScannedTensor {
  const dims: number[] = [];
  let values: ScannedTensor | undefined;
  let indices: ScannedTensor | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === SPARSE_TENSOR.values) values = scanTensor(reader, inner);
    else if (inner.number === SPARSE_TENSOR.indices) indices = scanTensor(reader, inner);
    else if (inner.number === SPARSE_TENSOR.dims) readDims(reader, inner, dims);
  });
  return {
    field,
    name: values?.name ?? '',
    elemType: values?.elemType ?? 0,
    dims,
    external: undefined,
    parts: [values, indices].filter((part) => part !== undefined),
  };
}

export function scanValueInfo(reader: WireReader, field: Field): ScannedValueInfo {
  let name = '';
  let typeField: Field | undefined;
  let type: ValueType | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === VALUE_INFO.name) name = reader.readName(inner);
    else if (inner.number === VALUE_INFO.type) {
      typeField = inner;
      type = scanType(reader, inner) ?? type;
    }
  });
  return { field, name, typeField, type };
}

function scanType(reader: WireReader, field: Field): ValueType | undefined {
  let type: ValueType | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === TYPE.tensor) type = scanTensorType(reader, inner);
    else if (inner.number === TYPE.sequence) type = { kind: 'sequence' };
    else if (inner.number === TYPE.map) type = { kind: 'map' };
    else if (inner.number === TYPE.optional) type = scanOptional(reader, inner);
    else if (inner.number === TYPE.sparseTensor) type = { kind: 'sparse tensor' };
    else if (inner.number === TYPE.opaque) type = { kind: 'opaque' };
  });
  return type;
}

/** An optional tensor counts as a tensor, because onnxruntime returns it as one. */
function scanOptional(reader: WireReader, field: Field): ValueType {
  let type: ValueType | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === OPTIONAL.elemType) type = scanType(reader, inner);
  });
  return type?.kind === 'tensor' ? type : { kind: 'optional' };
}

function scanTensorType(reader: WireReader, field: Field): ValueType {
  let elemType = 0;
  let dims: Dim[] | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === TENSOR_TYPE.elemType) elemType = reader.readInt(inner);
    else if (inner.number === TENSOR_TYPE.shape) {
      const sizes: Dim[] = (dims ??= []);
      reader.readBody(inner, (dim) => {
        if (dim.number !== SHAPE.dim) return;
        if (sizes.length === MAX_RANK) throw tooManyAxes(reader, dim);
        sizes.push(scanDim(reader, dim));
      });
    }
  });
  return { kind: 'tensor', elemType, dims };
}

function scanDim(reader: WireReader, field: Field): Dim {
  let dim: Dim = null;
  reader.readBody(field, (inner) => {
    // Some writers put -1 for an open size.
    if (inner.number === DIMENSION.value) dim = reader.readInt(inner) < 0 ? null : reader.readInt(inner);
    else if (inner.number === DIMENSION.param) dim = reader.readName(inner) || null;
  });
  return dim;
}

/** The key of a StringStringEntryProto. The value may be of any length, and is not decoded. */
export function scanKey(reader: WireReader, field: Field): string {
  let key = '';
  reader.readBody(field, (inner) => {
    if (inner.number === ENTRY.key) key = reader.readName(inner);
  });
  return key;
}

/** Reads a StringStringEntryProto. */
export function scanEntry(reader: WireReader, field: Field): { key: string; value: string } {
  let key = '';
  let value = '';
  reader.readBody(field, (inner) => {
    if (inner.number === ENTRY.key) key = reader.readName(inner);
    else if (inner.number === ENTRY.value) value = reader.readName(inner);
  });
  return { key, value };
}
