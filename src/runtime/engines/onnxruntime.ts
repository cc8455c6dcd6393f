/**
 * The default engine: sessions of onnxruntime. This is the only import of onnxruntime-node. A lane loads it, never the caller's
 * thread.
 */
import { TapirError, reasonOf } from '../../base/errors.js';
import { checkUnchanged } from '../../base/file-stamp.js';
import { cudaFailure, prepareCuda } from '../devices/cuda-setup.js';
import { offerInstalledProvider } from '../devices/installed-cuda.js';
import type { ResolvedDevice } from '../lanes/device.js';
import {
  explainWebGpu,
  isDeviceFailure,
  refused,
  runFailed,
  unavailable,
} from '../devices/device-failure.js';
import { savingOptions } from '../lanes/prepared-files.js';
import type { Session } from '../lanes/engine.js';
import type { LaneDescription, SessionValue } from '../lanes/protocol.js';
import { isDType, makeTensor, nameTensor, type TensorData, type NamedTensor } from '../../tensor/tensor.js';

/** The members of onnxruntime-node that are used here. Its own types need the DOM library. */
interface Ort {
  readonly InferenceSession: {
    create(model: Uint8Array, options: Record<string, unknown>): Promise<OrtSession>;
  };
  readonly Tensor: new (type: string, data: TensorData, dims: readonly number[]) => OrtTensor;
  listSupportedBackends?(): readonly { readonly name: string }[];
  readonly env: { readonly versions: { readonly node?: string; readonly common: string } };
}
interface OrtTensor {
  readonly type: string;
  readonly data: TensorData;
  readonly dims: readonly number[];
}
interface OrtMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type?: string;
  readonly shape?: readonly (number | string)[];
}
interface OrtSession {
  readonly inputMetadata: readonly OrtMetadata[];
  readonly outputMetadata: readonly OrtMetadata[];
  run(feeds: Record<string, OrtTensor>, fetches: readonly string[]): Promise<Record<string, OrtTensor>>;
  release(): Promise<void>;
}

let loaded: Promise<Ort> | undefined;

/**
 * Loads onnxruntime-node, once.
 *
 * @throws {@link TapirError} `DEPENDENCY_MISSING`.
 */
export function loadRuntime(): Promise<Ort> {
  loaded ??= importRuntime();
  return loaded;
}

async function importRuntime(): Promise<Ort> {
  // onnxruntime-node takes float16 as bits in a Uint16Array. If Node has Float16Array, it converts them to one, which its binding
  // reads as empty (microsoft/onnxruntime#32323). Hiding the class is safe: this thread or process runs nothing but the session.
  Reflect.deleteProperty(globalThis, 'Float16Array');
  // Its library is loaded once in a process, so this comes before any session, also one on the CPU. A session on CUDA reports what
  // is in the way.
  offerInstalledProvider();
  try {
    return (await import('onnxruntime-node')) as unknown as Ort;
  } catch (error) {
    throw new TapirError(
      'DEPENDENCY_MISSING',
      `onnxruntime-node cannot be loaded: ${reasonOf(error)}; install it with "ONNXRUNTIME_NODE_INSTALL=skip npm install onnxruntime-node"`,
      { details: { package: 'onnxruntime-node', reason: reasonOf(error) }, cause: error },
    );
  }
}

/**
 * Opens a session from bytes.
 *
 * @throws {@link TapirError} `DEVICE_UNAVAILABLE` if the device cannot be used, `SESSION_FAILED` if onnxruntime refuses the model,
 * `OPTION_INVALID` if the folder of CUDA libraries does not exist, `DEPENDENCY_MISSING`.
 */
export async function openSession(description: LaneDescription): Promise<Session> {
  const { further = [] } = description;
  const first = await openOne(description);
  if (further.length === 0) return first;
  const sessions = [first];
  const release = async (): Promise<void> => {
    for (const session of sessions) await session.release();
  };
  try {
    for (const model of further) sessions.push(await openOne({ ...description, model }));
  } catch (error) {
    await release();
    throw error;
  }
  return { ...joinSessions(sessions), release };
}

/** Sessions as one: a run goes to the one that has its outputs. */
function joinSessions(sessions: readonly Session[]): Pick<Session, 'facts' | 'run'> {
  const owners = new Map(
    sessions.flatMap((one) => one.facts.outputs.map(({ name }) => [name, one] as const)),
  );
  return {
    facts: {
      ...sessions[0]!.facts,
      inputs: sessions.flatMap(({ facts }) => facts.inputs),
      outputs: sessions.flatMap(({ facts }) => facts.outputs),
    },
    run: (feeds, fetches, signal) => owners.get(fetches[0]!)!.run(feeds, fetches, signal),
  };
}

async function openOne(description: LaneDescription): Promise<Session> {
  const ort = await loadRuntime();
  const { device } = description;
  if (device.type !== 'auto') return openOn(ort, description, device);
  try {
    return await openOn(ort, description, { ...device, type: 'cuda' });
  } catch (error) {
    if (!(error instanceof TapirError) || error.code !== 'DEVICE_UNAVAILABLE') throw error;
    return openOn(ort, description, { ...device, type: 'cpu' }, error.message);
  }
}

async function openOn(
  ort: Ort,
  description: LaneDescription,
  device: ResolvedDevice,
  fallback?: string,
): Promise<Session> {
  if (device.type === 'cuda') await prepareCuda(device, description.cudaLibraries);
  let session: OrtSession;
  try {
    session = await ort.InferenceSession.create(description.model, ortOptions(description, device));
  } catch (error) {
    if (description.weightsFile) checkUnchanged(description.weightsFile);
    throw await openFailure(device, error);
  }
  try {
    if (description.weightsFile) checkUnchanged(description.weightsFile);
  } catch (error) {
    await session.release();
    throw error;
  }
  return {
    facts: {
      inputs: session.inputMetadata.map(describe),
      outputs: session.outputMetadata.map(describe),
      device,
      ...(fallback === undefined ? {} : { fallback }),
      runtime: ort.env.versions.node ?? ort.env.versions.common,
      providers: ort.listSupportedBackends?.().map(({ name }) => name) ?? [],
    },
    run: (feeds, fetches) => runSession(ort, session, device, feeds, fetches),
    release: () => session.release(),
  };
}

function ortOptions(
  { session, externalFolder, hostNodes, saveTo, profileTo }: LaneDescription,
  device: ResolvedDevice,
): Record<string, unknown> {
  const { interOpNumThreads, extra, ...rest } = session;
  const folder =
    externalFolder === undefined ? {} : { model_external_initializers_file_folder_path: externalFolder };
  const { entries: saving = {}, ...saveOptions } = saveTo === undefined ? {} : savingOptions(saveTo);
  const entries = {
    ...extra,
    session: { ...(extra['session'] as Record<string, unknown> | undefined), ...folder, ...saving },
  };
  return {
    ...rest,
    ...saveOptions,
    ...(profileTo === undefined ? {} : { enableProfiling: true, profileFilePrefix: profileTo }),
    // 0 means the default, but the binding would take it as a number of threads.
    ...(interOpNumThreads === 0 ? {} : { interOpNumThreads }),
    ...(device.threads === 0 ? {} : { intraOpNumThreads: device.threads }),
    executionProviders: [providerOptions(device, hostNodes)],
    extra: entries,
  };
}

function providerOptions({ type, id }: ResolvedDevice, hostNodes: LaneDescription['hostNodes']): unknown {
  if (type === 'cuda') return { name: type, deviceId: id };
  return type === 'webgpu' && hostNodes?.length
    ? { name: type, forceCpuNodeNames: hostNodes }
    : { name: type };
}

async function openFailure(device: ResolvedDevice, error: unknown): Promise<TapirError> {
  if (!isDeviceFailure(device, error)) return refused(device, error);
  return device.type === 'cuda'
    ? cudaFailure(device, error)
    : unavailable(device, explainWebGpu(reasonOf(error)), { cause: error });
}

function describe(value: OrtMetadata): SessionValue {
  return { name: value.name, isTensor: value.isTensor, dtype: value.type ?? null, dims: value.shape ?? [] };
}

async function runSession(
  ort: Ort,
  session: OrtSession,
  device: ResolvedDevice,
  feeds: readonly NamedTensor[],
  fetches: readonly string[],
): Promise<NamedTensor[]> {
  try {
    const inputs = Object.fromEntries(
      feeds.map((feed) => [feed.name, new ort.Tensor(feed.dtype, feed.data, feed.dims)]),
    );
    const results = await session.run(inputs, fetches);
    return fetches.map((name) => {
      const { type, dims, data } = results[name]!;
      if (!isDType(type))
        throw new Error(`output "${name}" has dtype ${type}, which has no JavaScript array`);
      return nameTensor(name, makeTensor(type, [...dims], data));
    });
  } catch (error) {
    throw runFailed(device, error);
  }
}
