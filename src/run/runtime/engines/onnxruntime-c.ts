/**
 * ONNX Runtime through its C API: outputs are written where they stay, runs leave this thread free and can be ended, and runs beside
 * each other share one session. It calls the library that onnxruntime-node brings (docs/decisions/048-c-binding.md).
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf, TapirError } from '../../../base/errors.js';
import {
  createData,
  elementBytes,
  elementCount,
  makeTensor,
  nameTensor,
  type DType,
  type NamedTensor,
  type TensorData,
} from '../../../onnx/tensor/tensor.js';
import type { SpareBuffer } from '../../../onnx/tensor/tensor-part.js';
import type { DeviceType } from '../capabilities/capabilities.js';
import { offerInstalledProvider } from '../devices/installed-cuda.js';
import { loadLibrary } from '../devices/shared-library.js';
import { bindingFolder } from '../runtime-package.js';
import { deviceName, type ResolvedDevice } from '../lanes/device.js';
import type { LaneDescription } from '../lanes/protocol.js';
import type { Binding, BoundSession } from './binding.js';
import { Handles } from './native/handles.js';
import { importKoffi, type Address } from './native/koffi.js';
import { bindOrt, type OrtApi } from './native/onnxruntime-api.js';
import { setOptions } from './onnxruntime-c-options.js';
import { DTYPE_OF, NUMBER_OF, readFacts, readShape, unsupported } from './onnxruntime-c-values.js';

let loaded: Promise<OrtApi> | undefined;

/**
 * Loads the binding, once.
 *
 * @throws {@link TapirError} `DEPENDENCY_MISSING` if koffi or the library is not there, or not as expected.
 */
export async function loadBinding(): Promise<Binding> {
  loaded ??= loadApi();
  const api = await loaded;
  return { open: async (description, device) => openSession(api, description, device) };
}

async function loadApi(): Promise<OrtApi> {
  // As for the Node binding: the provider for CUDA is found from where the library was loaded first.
  offerInstalledProvider();
  try {
    const koffi = await importKoffi();
    const path = findLibrary();
    const reason = loadLibrary(path);
    if (reason !== undefined) throw new Error(reason);
    return bindOrt(koffi, path);
  } catch (error) {
    const reason = reasonOf(error);
    throw new TapirError(
      'DEPENDENCY_MISSING',
      `binding "c" cannot be loaded: ${reason}; install koffi with "npm install koffi", or choose binding "node"`,
      { details: { package: 'koffi', reason }, cause: error },
    );
  }
}

function findLibrary(): string {
  const folder = bindingFolder() ?? '';
  const name = readdirSync(folder).find((file) =>
    /^(?:libonnxruntime\.so\.1|libonnxruntime\.1\.dylib|onnxruntime\.dll)$/.test(file),
  );
  if (name === undefined) throw new Error(`${folder} has no library of onnxruntime`);
  return join(folder, name);
}

function openSession(api: OrtApi, description: LaneDescription, device: ResolvedDevice): BoundSession {
  if (!RUNS_ON.has(device.type))
    throw unsupported(`it runs on cpu, cuda and plugins, not on ${deviceName(device)}`);
  const handles = new Handles();
  try {
    // Environments of a process are one inside, which counts its users: the Node binding may have another.
    const env = handles.own(api.CreateEnv(WARNINGS, 'onnx-tapir'), api.ReleaseEnv);
    const memory = handles.own(
      api.CreateCpuMemoryInfo(ARENA_ALLOCATOR, DEFAULT_MEMORY),
      api.ReleaseMemoryInfo,
    );
    const options = new Handles();
    let session: Address;
    try {
      const made = options.own(api.CreateSessionOptions(), api.ReleaseSessionOptions);
      setOptions(api, env, made, description, device);
      session = api.CreateSessionFromArray(env, description.model, description.model.length, made);
    } finally {
      options.release();
    }
    handles.own(session, api.ReleaseSession);
    return new CSession(api, handles, { session, memory }, description.streams ?? 1);
  } catch (error) {
    handles.release();
    throw error;
  }
}

const RUNS_ON: ReadonlySet<DeviceType> = new Set(['cpu', 'cuda', 'plugin']);
/** Numbers of the C API. */
const WARNINGS = 2;
const ARENA_ALLOCATOR = 1;
const DEFAULT_MEMORY = 0;

/** As many combinations of input sizes have their output sizes kept. */
const MOST_PLANS = 64;

/** What an output was, so that the next run with inputs of the same sizes writes it into memory that is there already. */
type Plan = readonly Pick<NamedTensor, 'dtype' | 'dims'>[];

class CSession implements BoundSession {
  readonly facts: BoundSession['facts'];
  readonly #api: OrtApi;
  readonly #handles: Handles;
  readonly #session: Address;
  /** Describes memory of this process. */
  readonly #memory: Address;
  /** Names as texts that end in a zero byte. */
  readonly #texts: ReadonlyMap<string, Uint8Array>;
  /** Outputs by fetches and sizes of inputs. */
  readonly #plans = new Map<string, Plan>();
  /** Whether sizes of outputs follow from those of inputs, as far as runs have shown. */
  #isPlannable: boolean;
  /** Memory that native code reads or writes, which the garbage collector does not know. */
  readonly #held = new Set<unknown>();

  constructor(
    api: OrtApi,
    handles: Handles,
    { session, memory }: { readonly session: Address; readonly memory: Address },
    streams: number,
  ) {
    this.#api = api;
    this.#handles = handles;
    this.#session = session;
    this.#memory = memory;
    this.facts = { ...readFacts(api, session), runtime: api.version, streams };
    const { inputs, outputs } = this.facts;
    this.#texts = new Map([...inputs, ...outputs].map(({ name }) => [name, Buffer.from(`${name}\0`)]));
    // An input that is an output as well would be given back in place of our memory.
    this.#isPlannable = !outputs.some(({ name }) => inputs.some((input) => input.name === name));
  }

  async run(
    feeds: readonly NamedTensor[],
    fetches: readonly string[],
    signal?: AbortSignal,
    room?: SpareBuffer,
  ): Promise<NamedTensor[]> {
    const { inputs, outputs } = this.facts;
    const absent = inputs.find(({ name }) => !feeds.some((feed) => feed.name === name));
    if (absent) throw new Error(`input '${absent.name}' is missing in 'feeds'.`);
    const unknown = fetches.find((name) => !outputs.some((output) => output.name === name));
    if (unknown !== undefined) throw new RangeError(`'fetches' contains invalid output name: ${unknown}.`);
    const known = feeds.filter(({ name }) => inputs.some((input) => input.name === name));
    for (const feed of known) checkFeed(feed);
    const key = JSON.stringify([fetches, known.map(({ name, dims }) => [name, dims])]);
    const plan = this.#isPlannable ? this.#plans.get(key) : undefined;
    if (plan) {
      try {
        return await this.#runOnce(known, fetches, signal, { outputs: plan, room });
      } catch (error) {
        if (signal?.aborted) throw error;
        // Sizes that depend on values do not fit; any other failure repeats itself.
      }
    }
    const results = await this.#runOnce(known, fetches, signal);
    if (plan) this.#isPlannable = false;
    else this.#keepPlan(key, results);
    return results;
  }

  #keepPlan(key: string, results: readonly NamedTensor[]): void {
    const [oldest] = this.#plans.keys();
    if (oldest !== undefined && this.#plans.size >= MOST_PLANS) this.#plans.delete(oldest);
    this.#plans.set(
      key,
      results.map(({ dtype, dims }) => ({ dtype, dims })),
    );
  }

  /** Runs into memory of the planned sizes; without a plan, into memory of the library, which is copied. */
  async #runOnce(
    feeds: readonly NamedTensor[],
    fetches: readonly string[],
    signal: AbortSignal | undefined,
    plan?: { readonly outputs: Plan; readonly room: SpareBuffer | undefined },
  ): Promise<NamedTensor[]> {
    const api = this.#api;
    const handles = new Handles();
    const planned = plan?.outputs.map(({ dtype, dims }, i) =>
      nameTensor(fetches[i]!, makeTensor(dtype, dims, makeRoom(dtype, elementCount(dims), plan.room))),
    );
    const given = BigUint64Array.from(feeds, (feed) => this.#valueOver(feed, handles));
    const taken = new BigUint64Array(fetches.length);
    planned?.forEach((output, i) => (taken[i] = this.#valueOver(output, handles)));
    const names = [feeds.map(({ name }) => name), fetches].map((list) =>
      BigUint64Array.from(list, (name) => api.addressOf(this.#texts.get(name)!)),
    );
    const held = [feeds, planned, given, taken, names];
    this.#held.add(held);
    let cancel: (() => void) | undefined;
    try {
      const options = handles.own(api.CreateRunOptions(), api.ReleaseRunOptions);
      cancel = () => api.RunOptionsSetTerminate(options);
      signal?.addEventListener('abort', cancel, { once: true });
      await api.runOnPool(
        this.#session,
        options,
        api.addressOf(names[0]!),
        api.addressOf(given),
        given.length,
        api.addressOf(names[1]!),
        taken.length,
        api.addressOf(taken),
      );
      return planned ?? fetches.map((name, i) => this.#copy(name, taken[i]!));
    } finally {
      if (cancel) signal?.removeEventListener('abort', cancel);
      if (!planned) for (const value of taken) if (value) api.ReleaseValue(value);
      handles.release();
      this.#held.delete(held);
    }
  }

  /** A value over the memory of a tensor, which must stay in place until the value is released. */
  #valueOver({ dtype, dims, data }: NamedTensor, handles: Handles): bigint {
    const view = data as ArrayBufferView;
    const at = this.#api.addressOf(view.byteLength === 0 ? EMPTY : view);
    const sizes = BigInt64Array.from(dims, BigInt);
    const value = this.#api.CreateTensorWithDataAsOrtValue(
      this.#memory,
      at,
      view.byteLength,
      sizes,
      dims.length,
      NUMBER_OF[dtype]!,
    );
    return handles.own(value, this.#api.ReleaseValue) as bigint;
  }

  #copy(name: string, value: Address): NamedTensor {
    const api = this.#api;
    const info = api.GetTensorTypeAndShape(value);
    try {
      const number = api.GetTensorElementType(info);
      const dtype = DTYPE_OF.get(number);
      if (dtype === undefined)
        throw new Error(`output "${name}" has dtype ${number}, which has no JavaScript array`);
      const { sizes } = readShape(api, info);
      const count = elementCount(sizes);
      const bytes = count * elementBytes(dtype);
      const memory =
        bytes === 0 ? new ArrayBuffer(0) : api.view(api.GetTensorMutableData(value), bytes).slice(0);
      return nameTensor(name, makeTensor(dtype, sizes, createData(dtype, count, memory)));
    } finally {
      api.ReleaseTensorTypeAndShapeInfo(info);
    }
  }

  async release(): Promise<void> {
    this.#handles.release();
  }
}

/** Refuses what no value can be made of, before any is. */
function checkFeed({ name, dtype, dims, data }: NamedTensor): void {
  if (NUMBER_OF[dtype] === undefined)
    throw new Error(`input "${name}" is ${dtype}, which binding "c" cannot take`);
  const [count, { byteLength }] = [elementCount(dims), data as ArrayBufferView];
  if (byteLength !== count * elementBytes(dtype))
    throw new Error(
      `Tensor's size(${count}) does not match data length(${byteLength / elementBytes(dtype)}).`,
    );
}

/** Elements that are written before anything reads them: zeros first would cost as much as a copy. */
function makeRoom(dtype: DType, length: number, room: SpareBuffer | undefined): TensorData {
  const bytes = length * elementBytes(dtype);
  const buffer = room?.(bytes) ?? (Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer);
  return createData(dtype, length, buffer);
}

/** An address for tensors without elements. */
const EMPTY = new Uint8Array(8);
