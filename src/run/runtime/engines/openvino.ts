/**
 * OpenVINO on the CPU: sessions through its C API. One compiled model serves all streams of a
 * session, so they share its weights. A lane loads it, never the caller's thread.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { checkUnchanged } from '../../../base/file-stamp.js';
import {
  createData,
  elementCount,
  makeTensor,
  nameTensor,
  type DType,
  type NamedTensor,
} from '../../../onnx/tensor/tensor.js';
import type { SpareBuffer } from '../../../onnx/tensor/tensor-part.js';
import { deviceName, type ResolvedDevice } from '../lanes/device.js';
import { findOpenVino } from '../capabilities/openvino-libraries.js';
import type { Session } from '../lanes/engine.js';
import { addEntry } from '../lanes/prepared-cache.js';
import { PREPARED_WEIGHTS } from '../lanes/prepared-files.js';
import type { LaneDescription, SessionFacts, SessionValue } from '../lanes/protocol.js';
import { importKoffi, type Address, type Koffi } from './native/koffi.js';
import { bindOpenVino, CANCELLED, OpenVinoError, type OpenVino, type Port } from './native/openvino-api.js';
import { ignored, openFailure } from './openvino-failure.js';
import { compileModel, freeModel, type CompiledModel } from './openvino-model.js';

/** OpenVINO's numbers of element types. */
const ELEMENT_TYPES: Readonly<Partial<Record<DType, number>>> = {
  bool: 1,
  float16: 3,
  float32: 4,
  float64: 5,
  int8: 7,
  int16: 8,
  int32: 9,
  int64: 10,
  uint8: 16,
  uint16: 17,
  uint32: 18,
  uint64: 19,
};
const DTYPES = new Map(Object.entries(ELEMENT_TYPES).map(([dtype, number]) => [number, dtype as DType]));

let loaded: Promise<OpenVino> | undefined;

/**
 * Loads OpenVINO, once.
 *
 * @throws {@link TapirError} `DEPENDENCY_MISSING`.
 */
export function loadRuntime(): Promise<OpenVino> {
  loaded ??= importRuntime();
  return loaded;
}

async function importRuntime(): Promise<OpenVino> {
  const { paths } = findOpenVino();
  try {
    return bindOpenVino(await loadKoffi(), paths);
  } catch (error) {
    if (error instanceof TapirError) throw error;
    throw missing(
      'openvino',
      `${paths.at(-1)!}: ${reasonOf(error)}`,
      'run "tapir engines install openvino"',
      error,
    );
  }
}

async function loadKoffi(): Promise<Koffi> {
  try {
    return await importKoffi();
  } catch (error) {
    throw missing('koffi', reasonOf(error), 'install it with "npm install koffi"', error);
  }
}

function missing(name: string, reason: string, remedy: string, cause: unknown): TapirError {
  return new TapirError('DEPENDENCY_MISSING', `OpenVINO cannot be loaded: ${reason}; ${remedy}`, {
    details: { package: name, reason },
    cause,
  });
}

/**
 * Opens a model: bytes, a file, or what an earlier session has compiled.
 *
 * @throws {@link TapirError} `SESSION_FAILED` if OpenVINO refuses the model, `ENGINE_UNSUPPORTED` for operators that it lacks,
 * `PRECISION_UNSUPPORTED`, `DEPENDENCY_MISSING`.
 */
export async function openSession(description: LaneDescription): Promise<Session> {
  const { weightsFile } = description;
  const api = await loadRuntime();
  const core = api.createCore();
  let model: CompiledModel | undefined;
  try {
    checkPrecision(api, core, description);
    configure(api, core, description);
    model = compileModel(api, core, description);
    for (const name of description.inputs ?? []) if (!api.hasInput(model.compiled, name)) throw ignored(name);
    if (weightsFile) checkUnchanged(weightsFile);
    return new OpenVinoSession(api, core, model, description);
  } catch (error) {
    if (model) freeModel(api, model);
    api.freeCore(core);
    if (weightsFile) checkUnchanged(weightsFile);
    throw error instanceof OpenVinoError ? openFailure(description.device, error) : error;
  }
}

/** Without this, the plugin would compute in bfloat16 on CPUs that have it, and results would change with the machine. */
const PRECISION_HINTS = { float32: 'f32', bfloat16: 'bf16' } as const;

function checkPrecision(api: OpenVino, core: Address, { precision = 'float32' }: LaneDescription): void {
  if (precision === 'float32' || api.property(core, 'OPTIMIZATION_CAPABILITIES').split(' ').includes('BF16'))
    return;
  const cpu = api.property(core, 'FULL_DEVICE_NAME');
  const reason = `this CPU (${cpu}) has no bfloat16 instructions`;
  throw new TapirError(
    'PRECISION_UNSUPPORTED',
    `precision "${precision}" is not possible here: ${reason}; choose precision "float32"`,
    { details: { precision, engine: 'openvino', reason } },
  );
}

function configure(
  api: OpenVino,
  core: Address,
  { device, streams = 1, precision = 'float32' }: LaneDescription,
): void {
  const threads = device.threads === 0 ? availableParallelism() : device.threads * streams;
  const properties: Readonly<Record<string, string>> = {
    INFERENCE_PRECISION_HINT: PRECISION_HINTS[precision],
    INFERENCE_NUM_THREADS: String(threads),
    NUM_STREAMS: String(streams),
    // Sessions beside each other, and decoding threads, would be pinned to the same cores.
    ENABLE_CPU_PINNING: 'NO',
  };
  for (const [name, value] of Object.entries(properties)) api.setProperty(core, name, value);
}

/** After this time, a run that goes on is cancelled once more. */
const CANCEL_AGAIN_MS = 10;

class OpenVinoSession implements Session {
  readonly facts: SessionFacts;
  readonly finish?: () => Promise<void>;
  readonly #api: OpenVino;
  readonly #core: Address;
  readonly #model: CompiledModel;
  readonly #device: ResolvedDevice;
  /** Names of the outputs, in the order of the model. OpenVINO merges the names of outputs with the same value. */
  readonly #outputs: readonly string[];
  /** Requests that are not running. Each runs one batch at a time. */
  readonly #free: Address[];
  /** Feeds of runs: native code reads their memory, which the garbage collector does not know. */
  readonly #held = new Set<readonly NamedTensor[]>();

  constructor(api: OpenVino, core: Address, model: CompiledModel, description: LaneDescription) {
    const { device, streams = 1, outputs, keepCompiled } = description;
    this.#api = api;
    this.#core = core;
    this.#model = model;
    this.#device = device;
    const { compiled } = model;
    this.#free = Array.from({ length: streams }, () => api.createRequest(compiled));
    const ports = api.outputs(compiled);
    this.#outputs = outputs ?? ports.map(({ name }) => name);
    this.facts = {
      inputs: api.inputs(compiled).map(describe),
      outputs: ports.map((port, i) => describe({ ...port, name: this.#outputs[i]! })),
      device,
      runtime: api.version,
      streams,
    };
    if (keepCompiled) this.finish = () => this.#keep(keepCompiled);
  }

  async run(
    feeds: readonly NamedTensor[],
    fetches: readonly string[],
    signal?: AbortSignal,
    room?: SpareBuffer,
  ): Promise<NamedTensor[]> {
    const api = this.#api;
    const request = this.#free.pop()!;
    const tensors: Address[] = [];
    this.#held.add(feeds);
    let again: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      // A run that still waits for a thread does not hear it.
      again ??= setInterval(cancel, CANCEL_AGAIN_MS);
      try {
        api.cancel(request);
      } catch {
        // The run has just ended.
      }
    };
    try {
      for (const { name, dtype, dims, data } of feeds) {
        checkRange(name, data);
        const tensor = api.tensorOver(numberOf(name, dtype), dims, data as ArrayBufferView);
        tensors.push(tensor);
        api.setTensor(request, name, tensor);
      }
      signal?.addEventListener('abort', cancel, { once: true });
      await api.infer(request);
      return fetches.map((name) => this.#fetch(request, name, room));
    } catch (error) {
      throw runFailure(this.#device, error);
    } finally {
      signal?.removeEventListener('abort', cancel);
      clearInterval(again);
      for (const tensor of tensors) api.freeTensor(tensor);
      this.#free.push(request);
      this.#held.delete(feeds);
    }
  }

  /** Copies an output: the library writes the next run to the same place. */
  #fetch(request: Address, name: string, room: SpareBuffer | undefined): NamedTensor {
    return this.#api.withOutput(request, this.#outputs.indexOf(name), ({ elementType, dims, bytes }) => {
      const dtype = DTYPES.get(elementType);
      if (dtype === undefined)
        throw new Error(`output "${name}" has an element type without a JavaScript array`);
      const copy = room?.(bytes.byteLength);
      if (copy) new Uint8Array(copy).set(new Uint8Array(bytes));
      const data = createData(dtype, elementCount(dims), copy ?? bytes.slice(0));
      return nameTensor(name, makeTensor(dtype, dims, data));
    });
  }

  async #keep({ cache, key }: NonNullable<LaneDescription['keepCompiled']>): Promise<void> {
    try {
      await addEntry(cache, key, async (folder) => {
        await this.#api.exportTo(this.#model.compiled, join(folder, PREPARED_WEIGHTS));
        return undefined;
      });
    } catch {
      // A cache that cannot be written makes the next start slower, and this session works.
    }
  }

  async release(): Promise<void> {
    for (const request of this.#free.splice(0)) this.#api.freeRequest(request);
    freeModel(this.#api, this.#model);
    this.#api.freeCore(this.#core);
  }
}

function describe({ name, elementType, dims }: Port): SessionValue {
  const dtype = DTYPES.get(elementType) ?? null;
  return { name, isTensor: true, dtype, dims: (dims ?? []).map((size) => (size < 0 ? '' : size)) };
}

function numberOf(name: string, dtype: DType): number {
  const number = ELEMENT_TYPES[dtype];
  if (number === undefined) throw new Error(`input "${name}" is ${dtype}, which OpenVINO cannot take here`);
  return number;
}

/** Refuses integers that the library would cut off: it computes all of them in 32 bits. */
function checkRange(name: string, data: NamedTensor['data']): void {
  if (!(data instanceof BigInt64Array || data instanceof BigUint64Array || data instanceof Uint32Array))
    return;
  const large = data.find((value) => value > 2 ** 31 - 1 || value < -(2 ** 31));
  if (large === undefined) return;
  throw new Error(
    `input "${name}" holds ${large}, and OpenVINO computes integers in 32 bits; use engine "onnxruntime"`,
  );
}

function runFailure(device: ResolvedDevice, error: unknown): TapirError<'RUN_FAILED'> {
  const isCancelled = error instanceof OpenVinoError && error.status === CANCELLED;
  const reason = isCancelled ? 'the run was cancelled' : reasonOf(error);
  return new TapirError('RUN_FAILED', `the model failed on ${deviceName(device)}: ${reason}`, {
    details: { device: deviceName(device), reason },
    cause: error,
  });
}
