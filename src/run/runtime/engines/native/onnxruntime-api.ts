/**
 * ONNX Runtime's C API, as far as sessions need it. Its library gives out a table of functions, which later versions only extend, so
 * a place in it is the name of a function. Each call throws an Error with the library's text if it fails. Objects of the library are
 * addresses, and each has one owner, which releases it once.
 */
import { callOnPool, type Address, type Koffi, type NativeFunction } from './koffi.js';

/** The version of the table: libraries from 1.22 on have it. */
const API_VERSION = 22;

const ADDRESS = 'void *';
const TEXT = 'const char *';
const SIZE = 'size_t';
/** Windows has its paths in UTF-16. */
const PATH = process.platform === 'win32' ? 'const char16_t *' : TEXT;

/** What a function gives: nothing but a status, an object or a number through its last parameter, a text or an object itself, or not even a status. */
type Gives = 'status' | 'address' | 'size' | 'int' | 'text' | 'itself' | 'nothing';

/** Place in the table, what the function gives, and its parameters before that. */
type Entry<Kind extends Gives = Gives> = readonly [index: number, gives: Kind, ...parameters: string[]];

/** The functions that are called, and what each gives. */
interface Functions {
  readonly GetErrorMessage: 'text';
  readonly CreateEnv: 'address';
  readonly CreateSessionFromArray: 'address';
  readonly Run: 'status';
  readonly CreateSessionOptions: 'address';
  readonly SetOptimizedModelFilePath: 'status';
  readonly SetSessionExecutionMode: 'status';
  readonly EnableProfiling: 'status';
  readonly EnableMemPattern: 'status';
  readonly DisableMemPattern: 'status';
  readonly EnableCpuMemArena: 'status';
  readonly DisableCpuMemArena: 'status';
  readonly SetSessionLogSeverityLevel: 'status';
  readonly SetSessionGraphOptimizationLevel: 'status';
  readonly SetIntraOpNumThreads: 'status';
  readonly SetInterOpNumThreads: 'status';
  readonly SessionGetInputCount: 'size';
  readonly SessionGetOutputCount: 'size';
  readonly SessionGetInputTypeInfo: 'address';
  readonly SessionGetOutputTypeInfo: 'address';
  readonly SessionGetInputName: 'address';
  readonly SessionGetOutputName: 'address';
  readonly CreateRunOptions: 'address';
  readonly RunOptionsSetTerminate: 'status';
  readonly CreateTensorWithDataAsOrtValue: 'address';
  readonly GetTensorMutableData: 'address';
  readonly CastTypeInfoToTensorInfo: 'address';
  readonly GetOnnxTypeFromTypeInfo: 'int';
  readonly GetTensorElementType: 'int';
  readonly GetDimensionsCount: 'size';
  readonly GetDimensions: 'status';
  readonly GetSymbolicDimensions: 'status';
  readonly GetTensorTypeAndShape: 'address';
  readonly CreateCpuMemoryInfo: 'address';
  readonly AllocatorFree: 'status';
  readonly GetAllocatorWithDefaultOptions: 'address';
  readonly ReleaseEnv: 'nothing';
  readonly ReleaseStatus: 'nothing';
  readonly ReleaseMemoryInfo: 'nothing';
  readonly ReleaseSession: 'nothing';
  readonly ReleaseValue: 'nothing';
  readonly ReleaseRunOptions: 'nothing';
  readonly ReleaseTypeInfo: 'nothing';
  readonly ReleaseTensorTypeAndShapeInfo: 'nothing';
  readonly ReleaseSessionOptions: 'nothing';
  readonly GetAvailableProviders: 'int';
  readonly ReleaseAvailableProviders: 'status';
  readonly AddSessionConfigEntry: 'status';
  readonly SessionOptionsAppendExecutionProvider_CUDA_V2: 'status';
  readonly CreateCUDAProviderOptions: 'address';
  readonly UpdateCUDAProviderOptions: 'status';
  readonly ReleaseCUDAProviderOptions: 'nothing';
  readonly GetKeyValue: 'text';
  readonly RegisterExecutionProviderLibrary: 'status';
  readonly GetEpDevices: 'size';
  readonly SessionOptionsAppendExecutionProvider_V2: 'status';
  readonly EpDevice_EpMetadata: 'itself';
}

const TABLE: { readonly [Name in keyof Functions]: Entry<Functions[Name]> } = {
  GetErrorMessage: [2, 'text', ADDRESS],
  CreateEnv: [3, 'address', 'int', TEXT],
  CreateSessionFromArray: [8, 'address', ADDRESS, ADDRESS, SIZE, ADDRESS],
  Run: [9, 'status', ADDRESS, ADDRESS, ADDRESS, ADDRESS, SIZE, ADDRESS, SIZE, ADDRESS],
  CreateSessionOptions: [10, 'address'],
  SetOptimizedModelFilePath: [11, 'status', ADDRESS, PATH],
  SetSessionExecutionMode: [13, 'status', ADDRESS, 'int'],
  EnableProfiling: [14, 'status', ADDRESS, PATH],
  EnableMemPattern: [16, 'status', ADDRESS],
  DisableMemPattern: [17, 'status', ADDRESS],
  EnableCpuMemArena: [18, 'status', ADDRESS],
  DisableCpuMemArena: [19, 'status', ADDRESS],
  SetSessionLogSeverityLevel: [22, 'status', ADDRESS, 'int'],
  SetSessionGraphOptimizationLevel: [23, 'status', ADDRESS, 'int'],
  SetIntraOpNumThreads: [24, 'status', ADDRESS, 'int'],
  SetInterOpNumThreads: [25, 'status', ADDRESS, 'int'],
  SessionGetInputCount: [30, 'size', ADDRESS],
  SessionGetOutputCount: [31, 'size', ADDRESS],
  SessionGetInputTypeInfo: [33, 'address', ADDRESS, SIZE],
  SessionGetOutputTypeInfo: [34, 'address', ADDRESS, SIZE],
  SessionGetInputName: [36, 'address', ADDRESS, SIZE, ADDRESS],
  SessionGetOutputName: [37, 'address', ADDRESS, SIZE, ADDRESS],
  CreateRunOptions: [39, 'address'],
  RunOptionsSetTerminate: [46, 'status', ADDRESS],
  CreateTensorWithDataAsOrtValue: [49, 'address', ADDRESS, ADDRESS, SIZE, ADDRESS, SIZE, 'int'],
  GetTensorMutableData: [51, 'address', ADDRESS],
  CastTypeInfoToTensorInfo: [55, 'address', ADDRESS],
  GetOnnxTypeFromTypeInfo: [56, 'int', ADDRESS],
  GetTensorElementType: [60, 'int', ADDRESS],
  GetDimensionsCount: [61, 'size', ADDRESS],
  GetDimensions: [62, 'status', ADDRESS, ADDRESS, SIZE],
  GetSymbolicDimensions: [63, 'status', ADDRESS, ADDRESS, SIZE],
  GetTensorTypeAndShape: [65, 'address', ADDRESS],
  CreateCpuMemoryInfo: [69, 'address', 'int', 'int'],
  AllocatorFree: [76, 'status', ADDRESS, ADDRESS],
  GetAllocatorWithDefaultOptions: [78, 'address'],
  ReleaseEnv: [92, 'nothing', ADDRESS],
  ReleaseStatus: [93, 'nothing', ADDRESS],
  ReleaseMemoryInfo: [94, 'nothing', ADDRESS],
  ReleaseSession: [95, 'nothing', ADDRESS],
  ReleaseValue: [96, 'nothing', ADDRESS],
  ReleaseRunOptions: [97, 'nothing', ADDRESS],
  ReleaseTypeInfo: [98, 'nothing', ADDRESS],
  ReleaseTensorTypeAndShapeInfo: [99, 'nothing', ADDRESS],
  ReleaseSessionOptions: [100, 'nothing', ADDRESS],
  GetAvailableProviders: [125, 'int', ADDRESS],
  ReleaseAvailableProviders: [126, 'status', ADDRESS, 'int'],
  AddSessionConfigEntry: [130, 'status', ADDRESS, TEXT, TEXT],
  SessionOptionsAppendExecutionProvider_CUDA_V2: [204, 'status', ADDRESS, ADDRESS],
  CreateCUDAProviderOptions: [205, 'address'],
  UpdateCUDAProviderOptions: [206, 'status', ADDRESS, ADDRESS, ADDRESS, SIZE],
  ReleaseCUDAProviderOptions: [208, 'nothing', ADDRESS],
  GetKeyValue: [297, 'text', ADDRESS, TEXT],
  RegisterExecutionProviderLibrary: [301, 'status', ADDRESS, TEXT, PATH],
  GetEpDevices: [303, 'size', ADDRESS, ADDRESS],
  SessionOptionsAppendExecutionProvider_V2: [
    304,
    'status',
    ADDRESS,
    ADDRESS,
    ADDRESS,
    SIZE,
    ADDRESS,
    ADDRESS,
    SIZE,
  ],
  EpDevice_EpMetadata: [314, 'itself', ADDRESS],
};

interface Results {
  readonly status: void;
  readonly address: Address;
  readonly size: number;
  readonly int: number;
  readonly text: string;
  readonly itself: Address;
  readonly nothing: void;
}

type Calls = {
  readonly [Name in keyof Functions]: (...values: readonly unknown[]) => Results[Functions[Name]];
};

/** The functions of a loaded library. */
export interface OrtApi extends Calls {
  /** Of the library. */
  readonly version: string;
  /** `Run` on a thread of libuv's pool. */
  runOnPool(...values: readonly unknown[]): Promise<void>;
  addressOf(array: ArrayBufferView): bigint;
  /** A text that ends in a zero byte. */
  textAt(address: Address): string;
  /** Memory of the library, without a copy. */
  view(address: Address, bytes: number): ArrayBuffer;
}

/**
 * Room for the stack of a call. koffi brings the stack: 128 KiB by default for calls on the pool. One panel of a product of matrices
 * takes 64 KiB of it. The memory is taken as it is touched.
 */
const STACK_BYTES = 4 * 1024 ** 2;

/**
 * Finds the functions of a library.
 *
 * @param path - The library. It must be in memory to stay: koffi unloads one that only functions of its table are left of.
 * @throws Error if the library cannot be loaded, or does not have them.
 */
export function bindOrt(koffi: Koffi, path: string): OrtApi {
  koffi.config({ ...koffi.config(), sync_stack_size: STACK_BYTES, async_stack_size: STACK_BYTES });
  const base = addresses(koffi, koffi.load(path).func('OrtGetApiBase', ADDRESS, [])(), 2);
  const version = String(koffi.decode(base[1]!, koffi.proto(TEXT, []))());
  const table = koffi.decode(base[0]!, koffi.proto(ADDRESS, ['uint32']))(API_VERSION);
  if (!table) throw new Error(`onnxruntime ${version} has no version ${API_VERSION} of its C API`);
  const entries = Object.entries(TABLE) as readonly (readonly [string, Entry])[];
  const places = addresses(koffi, table, 1 + Math.max(...entries.map(([, [index]]) => index)));
  const missing = entries.find(([, [index]]) => !places[index]);
  if (missing) throw new Error(`the C API of onnxruntime ${version} has no function ${missing[0]}`);

  const nativeOf = ([index, gives, ...parameters]: Entry): NativeFunction => {
    const result = gives === 'nothing' ? 'void' : gives === 'text' ? TEXT : ADDRESS;
    const through = { address: ADDRESS, size: SIZE, int: 'int' }[gives as string];
    const last = through === undefined ? [] : [koffi.out(koffi.pointer(through))];
    return koffi.decode(places[index]!, koffi.proto(result, [...parameters, ...last]));
  };
  const messageOf = nativeOf(TABLE.GetErrorMessage);
  const releaseStatus = nativeOf(TABLE.ReleaseStatus);
  const check = (status: unknown): void => {
    if (!status) return;
    const message = String(messageOf(status));
    releaseStatus(status);
    throw new Error(message);
  };
  const callOf = (entry: Entry): ((...values: readonly unknown[]) => unknown) => {
    const native = nativeOf(entry);
    const gives = entry[1];
    if (gives === 'nothing' || gives === 'text' || gives === 'itself') return native;
    if (gives === 'status') return (...values) => check(native(...values));
    return (...values) => {
      const result: [unknown] = [gives === 'address' ? null : 0];
      check(native(...values, result));
      return gives === 'address' ? result[0] : Number(result[0]);
    };
  };
  const run = nativeOf(TABLE.Run);
  return {
    ...(Object.fromEntries(entries.map(([name, entry]) => [name, callOf(entry)])) as unknown as Calls),
    version,
    runOnPool: async (...values) => check(await callOnPool(run, values)),
    addressOf: (array) => koffi.address(array),
    textAt: (address) => koffi.decode(address, 'char', -1),
    view: (address, bytes) => koffi.view(address, bytes),
  };
}

function addresses(koffi: Koffi, at: Address, count: number): BigUint64Array {
  return new BigUint64Array(koffi.view(at, count * BigUint64Array.BYTES_PER_ELEMENT));
}
