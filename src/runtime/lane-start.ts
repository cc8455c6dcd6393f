/** Starts the thread or process of a lane, and gives the two one shape. */
import { fork } from 'node:child_process';
import { isMainThread, Worker } from 'node:worker_threads';
import { packageFile } from '../base/package.js';
import type { ResolvedDevice } from './device.js';
import { guardExit } from './exit-guard.js';
import { LANE_DEFAULTS, type LaneOptions } from './lane-options.js';
import { isShared, ownImages } from '../tensor/image-feed.js';
import { fillsBuffer, makeTensor } from '../tensor/tensor.js';
import { STATE_WORDS, type LaneReply, type LaneRequest } from './protocol.js';

/** The owner's end of a lane. */
export interface LaneChannel {
  /** Id of the process that holds the session. */
  readonly pid: number;
  post(request: LaneRequest, transfer: ArrayBuffer[]): void;
  /** Keeps the owner's process alive while a request is open, and lets it end while none is. */
  hold(isBusy: boolean): void;
}

/** What an owner is told. */
export interface LaneEvents {
  reply(reply: LaneReply): void;
  /** The thread or process is gone; nothing comes after this. */
  gone(reason: string): void;
}

/**
 * Starts a lane. It is a worker thread, or a child process: where that was asked for; for a GPU named by its UUID, which is
 * then the only one that the process sees; and if tapir itself runs inside a worker, from where neither telemetry can be
 * switched off nor the exit of the process be guarded.
 */
export function startLane(events: LaneEvents, device: ResolvedDevice, options: LaneOptions): LaneChannel {
  return isProcess(options, device) ? startProcess(events, device) : startThread(events, options);
}

function isProcess({ isolation }: LaneOptions, { uuid }: Pick<ResolvedDevice, 'uuid'>): boolean {
  return isolation === 'process' || uuid !== undefined || !isMainThread;
}

/** Read by native code before its first session; what the user has set stays. */
const ENVIRONMENT: Readonly<Record<string, string>> = {
  // onnxruntime sends usage data, model names included, unless told otherwise.
  ORT_DISABLE_TELEMETRY: '1',
  // GPUs count as nvidia-smi counts them.
  CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
};

/** A thread that serves a lane, and why it has ended if it has. */
interface LaneThread {
  readonly worker: Worker;
  readonly exitTimeoutMs: number;
  reason: string;
}

/** Started before it was known what it will run. */
let warm: LaneThread | undefined;

/**
 * Starts the thread of the next lane, if it will have one: it loads onnxruntime while its owner still reads the model. It does not
 * keep the process alive.
 */
export function warmLane(
  options: LaneOptions = LANE_DEFAULTS,
  device: Pick<ResolvedDevice, 'uuid'> = {},
): void {
  if (warm || isProcess(options, device)) return;
  const thread = spawnThread(options.exitTimeoutMs);
  thread.worker.unref();
  thread.worker.once('exit', () => {
    if (warm === thread) warm = undefined;
  });
  warm = thread;
}

function takeThread(exitTimeoutMs: number): LaneThread {
  if (warm?.exitTimeoutMs !== exitTimeoutMs) return spawnThread(exitTimeoutMs);
  const thread = warm;
  warm = undefined;
  thread.worker.ref();
  return thread;
}

function spawnThread(exitTimeoutMs: number): LaneThread {
  // A worker would change only its own copy of the environment, so this is done here.
  for (const [name, value] of Object.entries(ENVIRONMENT)) process.env[name] ??= value;
  const state = new Int32Array(new SharedArrayBuffer(STATE_WORDS * Int32Array.BYTES_PER_ELEMENT));
  // Loaders and flags of the caller (a test runner, tsx) are of no use to this file, which is plain JavaScript.
  const worker = new Worker(packageFile('dist/lib/lane-thread.js'), {
    workerData: state,
    execArgv: [],
    // Tensors are outside its heap; with more room the engine would only collect later.
    resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 512 },
  });
  const thread: LaneThread = { worker, exitTimeoutMs, reason: 'its thread ended' };
  worker.on('error', (error: unknown) => {
    thread.reason = error instanceof Error ? error.message : String(error);
  });
  worker.on('exit', guardExit({ state, timeoutMs: exitTimeoutMs }));
  return thread;
}

function startThread(events: LaneEvents, { exitTimeoutMs }: LaneOptions): LaneChannel {
  const thread = takeThread(exitTimeoutMs);
  const { worker } = thread;
  worker.on('message', (reply: LaneReply) => events.reply(reply));
  worker.on('exit', () => events.gone(thread.reason));
  return {
    pid: process.pid,
    post: (request, transfer) => worker.postMessage(request, transfer),
    hold: (isBusy) => (isBusy ? worker.ref() : worker.unref()),
  };
}

/**
 * Starts a lane in a child process.
 *
 * @param onText - Takes what the process writes to standard error; without it, that goes to this process's own.
 */
export function startProcess(
  events: LaneEvents,
  { uuid }: ResolvedDevice,
  onText?: (text: string) => void,
): LaneChannel {
  const visible = uuid === undefined ? {} : { CUDA_VISIBLE_DEVICES: uuid };
  const child = fork(packageFile('dist/lib/lane-process.js'), {
    env: { ...ENVIRONMENT, ...process.env, ...visible },
    execArgv: [],
    serialization: 'advanced',
    stdio: ['inherit', 'inherit', onText ? 'pipe' : 'inherit', 'ipc'],
    // A session of its own: Ctrl-C in a terminal reaches the owner, which decides what becomes of the lane.
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
    // A failure to send means that the process is gone, which is told by its own event.
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

/** Memory cannot be shared with a process. */
function withoutSharing(request: LaneRequest): LaneRequest {
  if (request.type !== 'run') return request;
  return { ...request, feeds: request.feeds.map((feed) => (isShared(feed) ? ownImages(feed) : feed)) };
}

/** What arrives from a process lies in the message's buffer; outputs are to be buffers of their own. */
function ownBuffers(reply: LaneReply): LaneReply {
  if (reply.type !== 'done') return reply;
  const outputs = reply.outputs.map((output) => {
    const { data } = output;
    if (fillsBuffer(data)) return output;
    // A Buffer's slice() would be a view.
    const own = Buffer.isBuffer(data) ? Uint8Array.from(data) : data.slice();
    return { name: output.name, ...makeTensor(output.dtype, output.dims, own) };
  });
  return { ...reply, outputs, spent: [] };
}
