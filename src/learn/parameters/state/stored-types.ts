/** Element types as files of weights store them, under the names that safetensors and torch give them. */
import type { DType } from '../../../onnx/tensor/tensor.js';

/**
 * The element type of a stored tensor: one of a {@link Tensor}, or one that no `Tensor` has. bfloat16 is read as float32, which
 * holds each of its values. The others are listed; only their bytes can be read.
 */
export type StoredType =
  | Exclude<DType, 'string'>
  | 'bfloat16'
  | 'complex64'
  | 'float8_e4m3fn'
  | 'float8_e4m3fnuz'
  | 'float8_e5m2'
  | 'float8_e5m2fnuz'
  | 'float8_e8m0fnu'
  | 'float6_e2m3fn'
  | 'float6_e3m2fn'
  | 'float4_e2m1fn';

interface StoredTypeInfo {
  /** What safetensors calls it. */
  readonly safetensors: string;
  readonly bits: number;
  /** The class of torch's storages; undefined if torch.save writes this type without such a class. */
  readonly storage?: string;
  /** The element type of the tensor that reading gives; undefined if there is no such type. */
  readonly tensor?: DType;
}

export const STORED_TYPES: Readonly<Record<StoredType, StoredTypeInfo>> = {
  float64: { safetensors: 'F64', bits: 64, storage: 'DoubleStorage', tensor: 'float64' },
  float32: { safetensors: 'F32', bits: 32, storage: 'FloatStorage', tensor: 'float32' },
  float16: { safetensors: 'F16', bits: 16, storage: 'HalfStorage', tensor: 'float16' },
  bfloat16: { safetensors: 'BF16', bits: 16, storage: 'BFloat16Storage', tensor: 'float32' },
  int64: { safetensors: 'I64', bits: 64, storage: 'LongStorage', tensor: 'int64' },
  int32: { safetensors: 'I32', bits: 32, storage: 'IntStorage', tensor: 'int32' },
  int16: { safetensors: 'I16', bits: 16, storage: 'ShortStorage', tensor: 'int16' },
  int8: { safetensors: 'I8', bits: 8, storage: 'CharStorage', tensor: 'int8' },
  uint64: { safetensors: 'U64', bits: 64, tensor: 'uint64' },
  uint32: { safetensors: 'U32', bits: 32, tensor: 'uint32' },
  uint16: { safetensors: 'U16', bits: 16, tensor: 'uint16' },
  uint8: { safetensors: 'U8', bits: 8, storage: 'ByteStorage', tensor: 'uint8' },
  bool: { safetensors: 'BOOL', bits: 8, storage: 'BoolStorage', tensor: 'bool' },
  complex64: { safetensors: 'C64', bits: 64, storage: 'ComplexFloatStorage' },
  float8_e4m3fn: { safetensors: 'F8_E4M3', bits: 8 },
  float8_e4m3fnuz: { safetensors: 'F8_E4M3FNUZ', bits: 8 },
  float8_e5m2: { safetensors: 'F8_E5M2', bits: 8 },
  float8_e5m2fnuz: { safetensors: 'F8_E5M2FNUZ', bits: 8 },
  float8_e8m0fnu: { safetensors: 'F8_E8M0', bits: 8 },
  float6_e2m3fn: { safetensors: 'F6_E2M3', bits: 6 },
  float6_e3m2fn: { safetensors: 'F6_E3M2', bits: 6 },
  float4_e2m1fn: { safetensors: 'F4', bits: 4 },
};

function typesBy(field: 'safetensors' | 'storage'): ReadonlyMap<string, StoredType> {
  const pairs = Object.entries(STORED_TYPES) as [StoredType, StoredTypeInfo][];
  return new Map(pairs.flatMap(([type, info]) => (info[field] === undefined ? [] : [[info[field], type]])));
}

/** Stored types by their names in safetensors files. */
export const SAFETENSORS_TYPES: ReadonlyMap<string, StoredType> = typesBy('safetensors');

/** Stored types by the names of torch's storage classes. */
export const STORAGE_TYPES: ReadonlyMap<string, StoredType> = typesBy('storage');

/** Stored types by the names that torch gives its dtypes. torch has no elements of fewer than 8 bits under these names. */
export const TORCH_TYPES: ReadonlyMap<string, StoredType> = new Map(
  (Object.keys(STORED_TYPES) as StoredType[])
    .filter((type) => STORED_TYPES[type].bits % 8 === 0)
    .map((type) => [type, type] as const),
);

/** Bytes of this many elements. Not an integer if elements of fewer than 8 bits do not fill whole bytes. */
export function storedBytes(dtype: StoredType, elements: number): number {
  return (elements * STORED_TYPES[dtype].bits) / 8;
}
