/** Starts the thread or process of a lane. Both have the same interface for the owner. */
import { fork } from 'node:child_process';
import { isMainThread, Worker } from 'node:worker_threads';
import { packageFile } from '../../../base/package.js';
import { isShared, ownImages } from '../../../onnx/tensor/image-feed.js';
import { fillsBuffer, makeTensor, nameTensor } from '../../../onnx/tensor/tensor.js';
import type { ResolvedDevice } from './device.js';
import { guardExit } from './exit-guard.js';
import { borrowEnvironment, LANE_ENVIRONMENT } from './host-environment.js';
import type { BindingName, EngineName } from '../capabilities/capabilities.js';
import { LANE_DEFAULTS, type LaneOptions } from './lane-options.js';
import {
  BINDING_VARIABLE,
  ENGINE_VARIABLE,
  STATE_WORDS,
  type LaneReply,
  type LaneRequest,
} from './protocol.js';
import { createTurn, endTurn } from './turns.js';

/** The owner's end of a lane. */
export interface LaneChannel {
  /** Id of the process that holds the session. */
  readonly pid: number;
  post(request: LaneRequest, transfer: ArrayBuffer[]): void;
  /** Whether the lane keeps the owner's process alive: it does while a request is open. */
  hold(isBusy: boolean): void;
}

/** What a lane reports to its owner. */
export interface LaneEvents {
  reply(reply: LaneReply): void;
  /** The thread or process has ended. No reply follows. */
  gone(reason: string): void;
}

/**
 * Starts a lane. It is a child process in three cases. The options ask for one. A GPU is named by its UUID, so the process may see only
 * this GPU. Or tapir itself runs inside a worker, which can neither switch off telemetry nor delay the exit of the process. Otherwise it is
 * a worker thread.
 */
export function startLane(events: LaneEvents, device: ResolvedDevice, options: LaneOptions): LaneChannel {
  return isProcess(options, device) ? startProcess(events, device, options) : startThread(events, options);
}

function isProcess({ isolation }: LaneOptions, { uuid }: Pick<ResolvedDevice, 'uuid'>): boolean {
  return isolation === 'process' || uuid !== undefined || !isMainThread;
}

/** A thread that serves a lane, and the reason of its end. */
interface LaneThread {
  readonly worker: Worker;
  readonly engine: EngineName;
  readonly binding: BindingName;
  readonly exitTimeoutMs: number;
  reason: string;
}

/** For sessions on WebGPU. */
const turn = createTurn();

/** A thread that was started before its model was known. */
let warm: LaneThread | undefined;

/**
 * Starts the thread of the next lane, if that lane will be a thread. It loads its engine while its owner still reads the model. It
 * does not keep the process alive.
 */
export function warmLane(
  options: LaneOptions = LANE_DEFAULTS,
  device: Pick<ResolvedDevice, 'uuid'> = {},
): void {
  if (warm || isProcess(options, device)) return;
  const thread = spawnThread(options);
  thread.worker.unref();
  thread.worker.once('exit', () => {
    if (warm === thread) warm = undefined;
  });
  warm = thread;
}

function takeThread(options: LaneOptions): LaneThread {
  const { engine, binding, exitTimeoutMs } = options;
  const fits = warm?.exitTimeoutMs === exitTimeoutMs && warm.engine === engine && warm.binding === binding;
  if (!warm || !fits) return spawnThread(options);
  const thread = warm;
  warm = undefined;
  thread.worker.ref();
  return thread;
}

function spawnThread({ engine, binding, exitTimeoutMs }: LaneOptions): LaneThread {
  const state = new Int32Array(new SharedArrayBuffer(STATE_WORDS * Int32Array.BYTES_PER_ELEMENT));
  const worker = new Worker(packageFile('dist/lib/lane-thread.cjs'), {
    workerData: { state, engine, binding, turn },
    // The file is plain JavaScript, so it needs no loaders or flags of the caller (a test runner, tsx).
    execArgv: [],
    // Tensors are outside the heap. A larger heap would only delay garbage collection.
    resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 512 },
  });
  const thread: LaneThread = { worker, engine, binding, exitTimeoutMs, reason: 'its thread ended' };
  worker.on('error', (error: unknown) => {
    thread.reason = error instanceof Error ? error.message : String(error);
  });
  worker.on('exit', guardExit({ state, timeoutMs: exitTimeoutMs }));
  const { threadId } = worker;
  worker.on('exit', () => endTurn(turn, threadId));
  return thread;
}

function startThread(events: LaneEvents, options: LaneOptions): LaneChannel {
  const thread = takeThread(options);
  const { worker } = thread;
  let giveBack: ReturnType<typeof borrowEnvironment> | undefined;
  worker.on('message', (reply: LaneReply) => {
    if (reply.type === 'opened') giveBack?.(reply.facts.device);
    else if (reply.type === 'failed' && reply.id === undefined) giveBack?.();
    events.reply(reply);
  });
  worker.on('exit', () => {
    giveBack?.();
    events.gone(thread.reason);
  });
  return {
    pid: process.pid,
    post(request, transfer) {
      if (request.type === 'open') giveBack = borrowEnvironment(request.description.device);
      worker.postMessage(request, transfer);
    },
    hold: (isBusy) => (isBusy ? worker.ref() : worker.unref()),
  };
}

/**
 * Starts a lane in a child process.
 *
 * @param onText - Receives what the process writes to standard error. Without it, the text goes to the standard error of this
 * process.
 */
export function startProcess(
  events: LaneEvents,
  { uuid }: ResolvedDevice,
  { engine, binding }: Pick<LaneOptions, 'engine' | 'binding'>,
  onText?: (text: string) => void,
): LaneChannel {
  const visible = uuid === undefined ? {} : { CUDA_VISIBLE_DEVICES: uuid };
  const child = fork(packageFile('dist/lib/lane-process.js'), {
    env: {
      ...LANE_ENVIRONMENT,
      ...process.env,
      ...visible,
      [ENGINE_VARIABLE]: engine,
      [BINDING_VARIABLE]: binding,
    },
    execArgv: [],
    serialization: 'advanced',
    stdio: ['inherit', 'inherit', onText ? 'pipe' : 'inherit', 'ipc'],
    // In a separate process session, so that Ctrl-C in a terminal reaches only the owner, which then ends the lane.
    detached: true,
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => onText?.(text));
  const unguard = guardExit({ kill: () => child.kill('SIGKILL') });
  let reason = '';
  child.on('message', (reply) => events.reply(ownBuffers(reply as LaneReply)));
  child.on('error', (error) => {
    reason = error.message;
  });
  child.on('close', (code, signal) => {
    unguard();
    events.gone(reason || `its process ended (${signal ?? `code ${code}`})`);
  });
  return {
    pid: child.pid ?? 0,
    // Sending fails only if the process has ended, which the event "close" reports.
    post: (request) => child.send(withoutSharing(request), () => undefined),
    hold: (isBusy) => {
      if (isBusy) {
        child.ref();
        child.channel?.ref();
      } else {
        child.unref();
        child.channel?.unref();
      }
    },
  };
}

/** Copies shared images, and keeps buffers for outputs back: memory cannot be shared with a process. */
function withoutSharing(request: LaneRequest): LaneRequest {
  if (request.type !== 'run') return request;
  const feeds = request.feeds.map((feed) => (isShared(feed) ? ownImages(feed) : feed));
  return { ...request, feeds, room: [] };
}

/** Copies outputs out of the message's buffer, so that each has its own. */
function ownBuffers(reply: LaneReply): LaneReply {
  if (reply.type !== 'done') return reply;
  const outputs = reply.outputs.map((output) => {
    const { name, dtype, dims, data } = output;
    if (fillsBuffer(data)) return output;
    // The slice() of a Buffer would be a view.
    const own = Buffer.isBuffer(data) ? Uint8Array.from(data) : data.slice();
    return nameTensor(name, makeTensor(dtype, dims, own));
  });
  return { ...reply, outputs, spent: [] };
}
