/**
 * OpenVINO's C API, as far as sessions need it. Each call throws an {@link OpenVinoError} with the library's text if it fails.
 * Objects of the library are addresses: they must be freed here, and in the reverse order of their creation.
 */

import { callOnPool, type Address, type Koffi, type NativeFunction } from './koffi.js';
import { bindMapFile, type MappedFile } from './map-file.js';

/** A failed call. */
export class OpenVinoError extends Error {
  override readonly name = 'OpenVinoError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The status of a run that was cancelled. */
export const CANCELLED = -13;

const INVALID_PARAMETER = -14;

/** An input or output of a compiled model. Sizes that are open are -1; `dims` is null for an open rank. */
export interface Port {
  readonly name: string;
  readonly elementType: number;
  readonly dims: readonly number[] | null;
}

/** A tensor in the memory of the library. */
export interface NativeTensor {
  readonly elementType: number;
  readonly dims: readonly number[];
  /** Its bytes, without a copy. They are valid until the next run of the request. */
  readonly bytes: ArrayBuffer;
}

/** The functions of a loaded library. */
export interface OpenVino {
  readonly version: string;
  createCore(): Address;
  freeCore(core: Address): void;
  /** A property of the CPU. */
  property(core: Address, name: string): string;
  setProperty(core: Address, name: string, value: string): void;
  readFile(core: Address, path: string): Address;
  readBytes(core: Address, bytes: Uint8Array): Address;
  freeModel(model: Address): void;
  compile(core: Address, model: Address): Address;
  /** See {@link bindMapFile}. */
  mapFile(path: string): MappedFile;
  /** Opens what {@link OpenVino.exportTo} has written. The file must stay mapped as long as the result: it is not copied. */
  importFile(core: Address, file: MappedFile): Address;
  exportTo(compiled: Address, path: string): Promise<void>;
  freeCompiled(compiled: Address): void;
  inputs(compiled: Address): Port[];
  outputs(compiled: Address): Port[];
  hasInput(compiled: Address, name: string): boolean;
  createRequest(compiled: Address): Address;
  freeRequest(request: Address): void;
  /** Makes the run of a request end with the status {@link CANCELLED}. */
  cancel(request: Address): void;
  /** A tensor over memory of the caller, who must keep it in place until the tensor is freed. */
  tensorOver(elementType: number, dims: readonly number[], data: ArrayBufferView): Address;
  freeTensor(tensor: Address): void;
  setTensor(request: Address, name: string, tensor: Address): void;
  infer(request: Address): Promise<void>;
  /** Passes an output of a request to a function, which must copy what it keeps. */
  withOutput<Result>(request: Address, index: number, step: (tensor: NativeTensor) => Result): Result;
}

/** Loads the libraries and binds the functions. */
// oxlint-disable-next-line max-lines-per-function -- a list of functions that share the loaded library
export function bindOpenVino(koffi: Koffi, paths: readonly string[]): OpenVino {
  for (const path of paths.slice(0, -1)) koffi.load(path, { global: true });
  const library = koffi.load(paths.at(-1)!);
  const address = 'void *';
  const outAddress = koffi.out(koffi.pointer(address));
  const outSize = koffi.out(koffi.pointer('size_t'));
  const outInt = koffi.out(koffi.pointer('int'));
  const shape = koffi.struct({ rank: 'int64', dims: address });
  const range = koffi.struct({ min: 'int64', max: 'int64' });
  const partialShape = koffi.struct({ rank: range, dims: address });
  const version = koffi.struct({ build: 'const char *', description: 'const char *' });
  const text = 'const char *';

  const lastError = library.func('ov_get_last_err_msg', text, []);
  const check = (status: unknown): void => {
    if (status !== 0) throw new OpenVinoError(Number(status), shorten(String(lastError())));
  };
  /** A function that returns a status. */
  const call = (
    name: string,
    ...parameters: readonly unknown[]
  ): ((...values: readonly unknown[]) => void) => {
    const native = library.func(name, 'int', parameters);
    return (...values) => check(native(...values));
  };
  /** A function whose last parameter takes the address of its result. */
  const make = (
    name: string,
    ...parameters: readonly unknown[]
  ): ((...values: readonly unknown[]) => Address) => {
    const native = call(name, ...parameters, outAddress);
    return (...values) => {
      const result: [Address] = [null];
      native(...values, result);
      return result[0];
    };
  };
  const free = (name: string): ((object: Address) => void) => {
    const native = library.func(name, 'void', [address]);
    return (object) => void native(object);
  };
  const numberOf = (native: (...values: readonly unknown[]) => void, object: Address): number => {
    const result = [0];
    native(object, result);
    return Number(result[0]);
  };
  const freeText = free('ov_free');
  const takeText = (pointer: Address): string => {
    const taken = koffi.decode(pointer, 'char', -1);
    freeText(pointer);
    return taken;
  };
  /** `count` 64-bit integers at an address. */
  const integers = (pointer: Address, count: number): number[] =>
    count === 0 ? [] : Array.from(new BigInt64Array(koffi.view(pointer, 8 * count)), Number);

  const getVersion = call('ov_get_openvino_version', koffi.out(koffi.pointer(version)));
  const getProperty = make('ov_core_get_property', address, text, text);
  const setProperty = call('ov_core_set_property', address, text, '...');
  const readFile = make('ov_core_read_model', address, text, text);
  const readBytes = make('ov_core_read_model_from_memory_buffer', address, address, 'size_t', address);
  const compile = make('ov_core_compile_model', address, address, text, 'size_t');
  const importModel = make('ov_core_import_model', address, address, 'size_t', text);
  const exportModel = library.func('ov_compiled_model_export_model', 'int', [address, text]);
  const countInputs = call('ov_compiled_model_inputs_size', address, outSize);
  const countOutputs = call('ov_compiled_model_outputs_size', address, outSize);
  const inputPort = make('ov_compiled_model_input_by_index', address, 'size_t');
  const namedInput = make('ov_compiled_model_input_by_name', address, text);
  const outputPort = make('ov_compiled_model_output_by_index', address, 'size_t');
  const portName = make('ov_port_get_any_name', address);
  const portType = call('ov_port_get_element_type', address, outInt);
  const portShape = call('ov_port_get_partial_shape', address, koffi.out(koffi.pointer(partialShape)));
  const freePort = free('ov_output_const_port_free');
  const freePartialShape = library.func('ov_partial_shape_free', 'void', [koffi.pointer(partialShape)]);
  const tensorOver = make('ov_tensor_create_from_host_ptr', 'int', shape, address);
  const emptyTensor = make('ov_tensor_create', 'int', shape);
  const tensorShape = call('ov_tensor_get_shape', address, koffi.out(koffi.pointer(shape)));
  const freeShape = library.func('ov_shape_free', 'int', [koffi.pointer(shape)]);
  const tensorType = call('ov_tensor_get_element_type', address, outInt);
  const tensorBytes = call('ov_tensor_get_byte_size', address, outSize);
  const tensorData = make('ov_tensor_data', address);
  const getOutput = make('ov_infer_request_get_output_tensor_by_index', address, 'size_t');
  const infer = library.func('ov_infer_request_infer', 'int', [address]);
  const freeTensor = free('ov_tensor_free');

  /** `2026.4.1`. The rest of the text is the build. */
  const readVersion = (): string => {
    const found: { build?: string } = {};
    getVersion(found);
    return found.build!.split('-')[0]!;
  };
  const readShape = (tensor: Address): number[] => {
    const found: { rank?: number; dims?: Address } = {};
    try {
      tensorShape(tensor, found);
    } catch (error) {
      // The C API has no shape without axes.
      if (error instanceof OpenVinoError && error.status === INVALID_PARAMETER) return [];
      throw error;
    }
    const dims = integers(found.dims, Number(found.rank));
    freeShape(found);
    return dims;
  };
  const readPort = (port: Address): Port => {
    const found: { rank?: { min: number; max: number }; dims?: Address } = {};
    portShape(port, found);
    const { min, max } = found.rank!;
    // A size is a range from min to max.
    const ranges = min === max ? integers(found.dims, 2 * min) : null;
    freePartialShape(found);
    const dims =
      ranges &&
      Array.from({ length: min }, (_, i) => (ranges[2 * i] === ranges[2 * i + 1] ? ranges[2 * i]! : -1));
    const described = { name: takeText(portName(port)), elementType: numberOf(portType, port), dims };
    freePort(port);
    return described;
  };
  const onPool = async (native: NativeFunction, ...values: readonly unknown[]): Promise<void> =>
    check(await callOnPool(native, values));

  return {
    version: readVersion(),
    createCore: make('ov_core_create'),
    freeCore: free('ov_core_free'),
    property: (core, name) => takeText(getProperty(core, 'CPU', name)),
    setProperty: (core, name, value) => setProperty(core, 'CPU', text, name, text, value),
    readFile: (core, path) => readFile(core, path, null),
    readBytes: (core, bytes) => readBytes(core, bytes, bytes.length, null),
    freeModel: free('ov_model_free'),
    compile: (core, model) => compile(core, model, 'CPU', 0),
    mapFile: bindMapFile(koffi),
    importFile: (core, { address, bytes }) => importModel(core, address, bytes, 'CPU'),
    exportTo: (compiled, path) => onPool(exportModel, compiled, path),
    freeCompiled: free('ov_compiled_model_free'),
    inputs: (compiled) =>
      Array.from({ length: numberOf(countInputs, compiled) }, (_, i) => readPort(inputPort(compiled, i))),
    outputs: (compiled) =>
      Array.from({ length: numberOf(countOutputs, compiled) }, (_, i) => readPort(outputPort(compiled, i))),
    hasInput(compiled, name) {
      try {
        freePort(namedInput(compiled, name));
        return true;
      } catch {
        return false;
      }
    },
    createRequest: make('ov_compiled_model_create_infer_request', address),
    freeRequest: free('ov_infer_request_free'),
    cancel: call('ov_infer_request_cancel', address),
    tensorOver(elementType, dims, data) {
      const over = { rank: dims.length, dims: BigInt64Array.from(dims, BigInt) };
      return data.byteLength === 0 ? emptyTensor(elementType, over) : tensorOver(elementType, over, data);
    },
    freeTensor,
    setTensor: call('ov_infer_request_set_tensor', address, text, address),
    infer: (request) => onPool(infer, request),
    withOutput(request, index, step) {
      const tensor = getOutput(request, index);
      try {
        const dims = readShape(tensor);
        const size = numberOf(tensorBytes, tensor);
        const bytes = size === 0 ? new ArrayBuffer(0) : koffi.view(tensorData(tensor), size);
        return step({ elementType: numberOf(tensorType, tensor), dims, bytes });
      } finally {
        freeTensor(tensor);
      }
    },
  };
}

/** The message without the places in OpenVINO's source. */
function shorten(message: string): string {
  const lines = message.split('\n').map((line) => line.trim());
  const telling = lines.filter(
    (line) => line !== '' && !/^(?:Exception from|Check '.*' failed at) src\//.test(line),
  );
  return telling.join(' ') || message.trim();
}
