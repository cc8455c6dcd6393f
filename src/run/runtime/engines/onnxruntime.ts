/**
 * The default engine: ONNX Runtime, in the library that onnxruntime-node brings. There are two bindings to it: that of
 * onnxruntime-node, and its C API. Both give the same bits and the same errors.
 */
import { threadId } from 'node:worker_threads';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { checkUnchanged } from '../../../base/file-stamp.js';
import type { BindingName } from '../capabilities/capabilities.js';
import { cudaFailure, prepareCuda } from '../devices/cuda-setup.js';
import {
  explainWebGpu,
  isDeviceFailure,
  refused,
  runFailed,
  unavailable,
} from '../devices/device-failure.js';
import { whyNotOnPlatform } from '../devices/platform-devices.js';
import type { ResolvedDevice } from '../lanes/device.js';
import type { Engine, Session } from '../lanes/engine.js';
import type { LaneDescription } from '../lanes/protocol.js';
import { cudaTexts, type SessionOptions } from '../lanes/session-options.js';
import type { Binding, BoundSession } from './binding.js';

type ActualBinding = Exclude<BindingName, 'auto'>;

const BINDINGS: Readonly<Record<ActualBinding, () => Promise<Binding>>> = {
  node: async () => (await import('./onnxruntime-node.js')).loadBinding(),
  c: async () => (await import('./onnxruntime-c.js')).loadBinding(),
};

/** koffi keeps about 0.15 MB of each thread that has ended. A process that starts more than this takes the other binding in the later ones. */
const MOST_THREADS = 200;

/** What `auto` begins with: the C API if it was run on this system. */
const FIRST: ActualBinding = process.platform === 'linux' && threadId <= MOST_THREADS ? 'c' : 'node';

/** The engine with a binding. */
export function withBinding(binding: BindingName): Engine {
  return {
    // What a device other than the CPU needs is loaded when its session opens.
    loadRuntime: () => loadBinding(binding === 'auto' ? FIRST : binding),
    openSession: (description) => openSession(description, binding),
  };
}

function loadBinding(name: ActualBinding): Promise<Binding> {
  return BINDINGS[name]();
}

/**
 * Opens a session from bytes.
 *
 * @throws {@link TapirError} `DEVICE_UNAVAILABLE` if the device cannot be used, `SESSION_FAILED` if onnxruntime refuses the model,
 * `OPTION_INVALID` if the folder of CUDA libraries does not exist, `DEPENDENCY_MISSING`, `ENGINE_UNSUPPORTED` if the binding cannot
 * run the model.
 */
async function openSession(description: LaneDescription, binding: BindingName): Promise<Session> {
  const { further = [] } = description;
  const first = await openOne(description, binding);
  if (further.length === 0) return first;
  const sessions = [first];
  const release = async (): Promise<void> => {
    for (const session of sessions) await session.release();
  };
  try {
    for (const model of further) sessions.push(await openOne({ ...description, model }, binding));
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
    run: (feeds, fetches, ...rest) => owners.get(fetches[0]!)!.run(feeds, fetches, ...rest),
  };
}

async function openOne(description: LaneDescription, binding: BindingName): Promise<Session> {
  const { device } = description;
  if (device.type !== 'auto') return openOn(description, device, binding);
  try {
    return await openOn(description, { ...device, type: 'cuda' }, binding);
  } catch (error) {
    if (!(error instanceof TapirError) || error.code !== 'DEVICE_UNAVAILABLE') throw error;
    return openOn(description, { ...device, type: 'cpu' }, binding, error.message);
  }
}

async function openOn(
  description: LaneDescription,
  device: ResolvedDevice,
  choice: BindingName,
  fallback?: string,
): Promise<Session> {
  const notHere = whyNotOnPlatform(device.type);
  if (notHere !== undefined) throw unavailable(device, notHere);
  if (device.type === 'cuda') await prepareCuda(device, description.cudaLibraries);
  const { weightsFile } = description;
  let opened: BoundBy;
  try {
    opened = await openBound(description, device, choice);
  } catch (error) {
    if (weightsFile) checkUnchanged(weightsFile);
    throw error instanceof TapirError ? error : await openFailure(device, error);
  }
  const { session, binding } = opened;
  try {
    if (weightsFile) checkUnchanged(weightsFile);
  } catch (error) {
    await session.release();
    throw error;
  }
  return {
    facts: { ...session.facts, device, binding, ...(fallback === undefined ? {} : { fallback }) },
    async run(...run) {
      try {
        return await session.run(...run);
      } catch (error) {
        throw runFailed(device, error);
      }
    },
    release: () => session.release(),
  };
}

interface BoundBy {
  readonly session: BoundSession;
  readonly binding: { readonly name: ActualBinding; readonly why?: string };
}

/**
 * The binding to open with, and the one to fall back to: by default on the CPU the C API if that can be done, else the Node binding.
 *
 * @throws {@link TapirError} `ENGINE_UNSUPPORTED` for options of CUDA, which the Node binding would ignore.
 */
export function chooseBindings(
  choice: BindingName,
  device: Pick<ResolvedDevice, 'type'>,
  session: Pick<SessionOptions, 'cuda'>,
): readonly ActualBinding[] {
  const [option] = device.type === 'cuda' ? Object.keys(cudaTexts(session)) : [];
  if (device.type === 'plugin' && choice === 'node')
    throw new TapirError(
      'ENGINE_UNSUPPORTED',
      'binding "node" cannot be used: onnxruntime-node cannot load plugins; choose binding "c"',
      {
        details: { engine: 'onnxruntime', operators: [], reason: 'onnxruntime-node cannot load plugins' },
      },
    );
  if (option !== undefined && choice === 'node') {
    const reason = `onnxruntime-node ignores ${option} of CUDA`;
    throw new TapirError(
      'ENGINE_UNSUPPORTED',
      `binding "node" cannot be used: ${reason}; choose binding "c", or leave out session.cuda`,
      { details: { engine: 'onnxruntime', operators: [], reason } },
    );
  }
  if (choice !== 'auto') return [choice];
  if (option !== undefined || device.type === 'plugin') return ['c'];
  return device.type === 'cpu' && FIRST === 'c' ? ['c', 'node'] : ['node'];
}

async function openBound(
  description: LaneDescription,
  device: ResolvedDevice,
  choice: BindingName,
): Promise<BoundBy> {
  const [first, other] = chooseBindings(choice, device, description.session);
  const open = async (name: ActualBinding): Promise<BoundSession> =>
    (await loadBinding(name)).open(description, device);
  try {
    return { session: await open(first!), binding: { name: first! } };
  } catch (error) {
    if (other === undefined || !(error instanceof TapirError)) throw error;
    return { session: await open(other), binding: { name: other, why: reasonOf(error) } };
  }
}

async function openFailure(device: ResolvedDevice, error: unknown): Promise<TapirError> {
  if (!isDeviceFailure(device, error)) return refused(device, error);
  return device.type === 'cuda'
    ? cudaFailure(device, error)
    : unavailable(device, explainWebGpu(reasonOf(error)), { cause: error });
}
