/** ONNX Runtime through onnxruntime-node. This is its only import. A lane loads it, never the caller's thread. */
import { reasonOf, TapirError } from '../../../base/errors.js';
import {
  isDType,
  makeTensor,
  nameTensor,
  type NamedTensor,
  type TensorData,
} from '../../../onnx/tensor/tensor.js';
import { offerInstalledProvider } from '../devices/installed-cuda.js';
import type { ResolvedDevice } from '../lanes/device.js';
import { savingOptions } from '../lanes/prepared-files.js';
import type { LaneDescription, SessionValue } from '../lanes/protocol.js';
import type { Binding, BoundSession } from './binding.js';
import { configEntries } from './session-entries.js';

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
export async function loadBinding(): Promise<Binding> {
  loaded ??= importRuntime();
  const ort = await loaded;
  return { open: (description, device) => openSession(ort, description, device) };
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

async function openSession(
  ort: Ort,
  description: LaneDescription,
  device: ResolvedDevice,
): Promise<BoundSession> {
  const session = await ort.InferenceSession.create(description.model, ortOptions(description, device));
  return {
    facts: {
      inputs: session.inputMetadata.map(describe),
      outputs: session.outputMetadata.map(describe),
      runtime: ort.env.versions.node ?? ort.env.versions.common,
      providers: ort.listSupportedBackends?.().map(({ name }) => name) ?? [],
    },
    run: (feeds, fetches) => runSession(ort, session, feeds, fetches),
    release: () => session.release(),
  };
}

/** The options of a session, as onnxruntime-node takes them. */
export function ortOptions(description: LaneDescription, device: ResolvedDevice): Record<string, unknown> {
  const { session, hostNodes, saveTo, profileTo } = description;
  const { interOpNumThreads, extra: _, cuda: __, ...rest } = session;
  return {
    ...rest,
    ...(saveTo === undefined ? {} : { optimizedModelFilePath: savingOptions(saveTo).optimizedModelFilePath }),
    ...(profileTo === undefined ? {} : { enableProfiling: true, profileFilePrefix: profileTo }),
    // 0 means the default, but the binding would take it as a number of threads.
    ...(interOpNumThreads === 0 ? {} : { interOpNumThreads }),
    // DirectML runs without memory patterns only.
    ...(device.type === 'dml' ? { enableMemPattern: false } : {}),
    ...(device.threads === 0 ? {} : { intraOpNumThreads: device.threads }),
    executionProviders: [providerOptions(device, hostNodes)],
    extra: configEntries(description),
  };
}

function providerOptions({ type, id }: ResolvedDevice, hostNodes: LaneDescription['hostNodes']): unknown {
  if (type === 'cuda' || type === 'dml') return { name: type, deviceId: id };
  return type === 'webgpu' && hostNodes?.length
    ? { name: type, forceCpuNodeNames: hostNodes }
    : { name: type };
}

function describe(value: OrtMetadata): SessionValue {
  return { name: value.name, isTensor: value.isTensor, dtype: value.type ?? null, dims: value.shape ?? [] };
}

async function runSession(
  ort: Ort,
  session: OrtSession,
  feeds: readonly NamedTensor[],
  fetches: readonly string[],
): Promise<NamedTensor[]> {
  const inputs = Object.fromEntries(
    feeds.map((feed) => [feed.name, new ort.Tensor(feed.dtype, feed.data, feed.dims)]),
  );
  const results = await session.run(inputs, fetches);
  return fetches.map((name) => {
    const { type, dims, data } = results[name]!;
    if (!isDType(type)) throw new Error(`output "${name}" has dtype ${type}, which has no JavaScript array`);
    return nameTensor(name, makeTensor(type, [...dims], data));
  });
}
