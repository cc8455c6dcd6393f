/** Values of ONNX Runtime's C API: their types and sizes. */
import { TapirError } from '../../../base/errors.js';
import type { DType } from '../../../onnx/tensor/tensor.js';
import type { SessionFacts, SessionValue } from '../lanes/protocol.js';
import type { Address } from './native/koffi.js';
import type { OrtApi } from './native/onnxruntime-api.js';

/** The library's numbers of element types. It has strings, but not in memory that can be shared. */
export const NUMBER_OF: Readonly<Partial<Record<DType, number>>> = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
};

/** The element types of these numbers. */
export const DTYPE_OF: ReadonlyMap<number, DType> = new Map(
  Object.entries(NUMBER_OF).map(([dtype, number]) => [number, dtype as DType]),
);

const TENSOR = 1;

/**
 * What a session says of itself.
 *
 * @throws {@link TapirError} `ENGINE_UNSUPPORTED` if it has inputs or outputs that are not tensors of numbers.
 */
export function readFacts(
  api: OrtApi,
  session: Address,
): Pick<SessionFacts, 'inputs' | 'outputs' | 'providers'> {
  const allocator = api.GetAllocatorWithDefaultOptions();
  const list = (
    count: number,
    nameAt: (session: Address, i: number, allocator: Address) => Address,
    typeAt: (session: Address, i: number) => Address,
  ): SessionValue[] =>
    Array.from({ length: count }, (_, i) => {
      const text = nameAt(session, i, allocator);
      const name = api.textAt(text);
      api.AllocatorFree(allocator, text);
      const type = typeAt(session, i);
      try {
        return describe(api, name, type);
      } finally {
        api.ReleaseTypeInfo(type);
      }
    });
  return {
    inputs: list(api.SessionGetInputCount(session), api.SessionGetInputName, api.SessionGetInputTypeInfo),
    outputs: list(api.SessionGetOutputCount(session), api.SessionGetOutputName, api.SessionGetOutputTypeInfo),
    providers: listProviders(api),
  };
}

function describe(api: OrtApi, name: string, type: Address): SessionValue {
  if (api.GetOnnxTypeFromTypeInfo(type) !== TENSOR) throw unsupported(`"${name}" is not a tensor of numbers`);
  // It belongs to the type.
  const info = api.CastTypeInfoToTensorInfo(type);
  const dtype = DTYPE_OF.get(api.GetTensorElementType(info));
  if (dtype === undefined) throw unsupported(`"${name}" is not a tensor of numbers`);
  const { sizes, symbols } = readShape(api, info);
  return { name, isTensor: true, dtype, dims: sizes.map((size, i) => (size < 0 ? symbols[i]! : size)) };
}

/** `ENGINE_UNSUPPORTED`. */
export function unsupported(reason: string): TapirError<'ENGINE_UNSUPPORTED'> {
  return new TapirError(
    'ENGINE_UNSUPPORTED',
    `binding "c" cannot be used: ${reason}; choose binding "node"`,
    {
      details: { engine: 'onnxruntime', operators: [], reason },
    },
  );
}

/** The sizes of a tensor, or of a type, whose open sizes are -1 and may have a symbol. */
export function readShape(
  api: OrtApi,
  info: Address,
): { readonly sizes: number[]; readonly symbols: string[] } {
  const rank = api.GetDimensionsCount(info);
  if (rank === 0) return { sizes: [], symbols: [] };
  const sizes = new BigInt64Array(rank);
  api.GetDimensions(info, sizes, rank);
  const symbols = new BigUint64Array(rank);
  if (sizes.some((size) => size < 0)) api.GetSymbolicDimensions(info, symbols, rank);
  return {
    sizes: Array.from(sizes, Number),
    symbols: Array.from(symbols, (at) => (at ? api.textAt(at) : '')),
  };
}

/** The providers that the library was compiled with, by the names that onnxruntime-node has for them. */
function listProviders(api: OrtApi): string[] {
  const list = new BigUint64Array(1);
  const count = api.GetAvailableProviders(list);
  const names = new BigUint64Array(api.view(list[0]!, count * BigUint64Array.BYTES_PER_ELEMENT));
  const providers = Array.from(names, (at) => api.textAt(at).replace('ExecutionProvider', '').toLowerCase());
  api.ReleaseAvailableProviders(list[0]!, count);
  // The library lists them by priority, the CPU last.
  return providers.toReversed();
}
