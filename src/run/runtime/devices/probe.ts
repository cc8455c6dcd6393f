/** Tries a device: opens a session on it and runs it, in a child process, which may crash or hang without harm. */
import { isTapirError, reasonOf } from '../../../base/errors.js';
import type { ResolvedDevice } from '../lanes/device.js';
import { openLane, type Lane, type LanePlace } from '../lanes/lane.js';
import { LANE_DEFAULTS, type LaneOptions } from '../lanes/lane-options.js';
import { startProcess, type LaneChannel, type LaneEvents } from '../lanes/lane-start.js';
import type { LaneDescription, SessionFacts } from '../lanes/protocol.js';
import { readSessionOptions } from '../lanes/session-options.js';

/** The result of trying a device. */
export interface ProbeResult {
  readonly isWorking: boolean;
  /** Why it does not work, and what to do; `null` if it works. */
  readonly reason: string | null;
  /** What fails although the device works, such as convolutions without cuDNN; `null` if nothing does. */
  readonly weakness: string | null;
  /** Shared libraries that cannot be loaded, if that is the reason. */
  readonly missingLibraries: readonly string[];
  /** Version of onnxruntime in use; `null` if no session could be opened. */
  readonly runtime: string | null;
  /** How it is called; `null` if no session could be opened, or if there is one way. */
  readonly binding: SessionFacts['binding'] | null;
  /** Providers that onnxruntime was compiled with, usable or not. */
  readonly providers: readonly string[];
  /** Time from the start of the process to the result. */
  readonly milliseconds: number;
  /** The last lines that onnxruntime wrote to standard error. */
  readonly log: readonly string[];
}

/** Options of {@link probeDevice}. */
export interface ProbeOptions {
  readonly timeoutMs: number;
  readonly cudaLibraries: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** The engine to try, and how it computes; onnxruntime in float32 if left out. */
  readonly on?: EngineChoice | undefined;
}

/** An engine and a precision. */
export type EngineChoice = Pick<LaneOptions, 'engine' | 'precision'>;

/**
 * Two ModelProtos of IR version 8 and opset 13. Each has a graph `g` with one node that computes y = -x for float32 tensors
 * [1, 1, 1, 1]. Neg proves that the device computes, which a copy with Identity would not. Conv, with weight -1, also needs cuDNN on
 * CUDA.
 */
const NEG =
  '08083a4a0a0b0a017812017922034e65671201675a1b0a017812160a14080112100a0208010a0208010a0208010a020801621b0a017912160a14080112100a0208010a0208010a0208010a0208014202100d';
const CONV =
  '08083a610a0f0a01780a01771201792204436f6e761201672a110a040101010110014201774a04000080bf5a1b0a017812160a14080112100a0208010a0208010a0208010a020801621b0a017912160a14080112100a0208010a0208010a0208010a0208014202100d';
const VALUE = 42.5;
const LOG_LINES = 5;

/** Opens and runs a tiny session on a device. A device that fails is a result; its process is killed when the time is up. */
export async function probeDevice(device: ResolvedDevice, options: ProbeOptions): Promise<ProbeResult> {
  const started = performance.now();
  const { timeoutMs, signal } = options;
  const lane: LaneOptions = { ...LANE_DEFAULTS, ...options.on, isolation: 'process' };
  let log = '';
  let channel: LaneChannel | undefined;
  const start = (events: LaneEvents): LaneChannel => {
    channel = startProcess(events, device, lane, (text) => {
      log = (log + text).slice(-4096);
    });
    return channel;
  };
  const limit = createLimit(timeoutMs, signal, () => channel);
  const tryModel = (model: string): Promise<SessionFacts> =>
    Promise.race([openAndRun({ device, lane }, model, options.cudaLibraries, start), limit.passed]);
  let facts: SessionFacts | undefined;
  let failure: unknown;
  let weakness: string | null = null;
  try {
    facts = await tryModel(NEG);
    weakness = await tryModel(CONV).then(() => null, whyNot);
  } catch (error) {
    failure = limit.reason() ?? error;
  }
  limit.end();
  return {
    isWorking: failure === undefined,
    reason: failure === undefined ? null : whyNot(failure),
    weakness: weakness === null ? null : `convolutions do not run: ${limit.reason() ?? weakness}`,
    missingLibraries: isTapirError(failure, 'DEVICE_UNAVAILABLE')
      ? (failure.details.missingLibraries ?? [])
      : [],
    runtime: facts?.runtime ?? null,
    binding: facts?.binding ?? null,
    providers: facts?.providers ?? [],
    milliseconds: Math.round(performance.now() - started),
    log: log
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .slice(-LOG_LINES),
  };
}

interface Limit {
  /** Rejects if the time is up and the killed process has still not ended. */
  readonly passed: Promise<never>;
  /** Why the process was killed; undefined if it was not. */
  reason(): string | undefined;
  end(): void;
}

/** Longest wait for a killed process to end: one that hangs in the driver may take much longer. */
const KILL_MS = 2000;

function createLimit(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  channel: () => LaneChannel | undefined,
): Limit {
  let reason: string | undefined;
  let timer: NodeJS.Timeout;
  let stop!: (why: string) => void;
  const passed = new Promise<never>((_resolve, reject) => {
    stop = (why) => {
      reason ??= why;
      clearTimeout(timer);
      timer = setTimeout(() => {
        channel()?.hold(false);
        reject(new Error(why));
      }, KILL_MS);
      kill(channel()?.pid ?? 0);
    };
  });
  timer = setTimeout(() => stop(`no answer within ${timeoutMs / 1000} s`), timeoutMs);
  const onAbort = (): void => stop('the probe was stopped');
  signal?.addEventListener('abort', onAbort, { once: true });
  return {
    passed,
    reason: () => reason,
    end() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    },
  };
}

function kill(pid: number): void {
  try {
    if (pid > 0) process.kill(pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}

async function openAndRun(
  { device, lane: options }: LanePlace,
  model: string,
  cudaLibraries: string | undefined,
  start: (events: LaneEvents) => LaneChannel,
): Promise<SessionFacts> {
  // Without this entry, nodes that the device's provider does not support would silently run on the CPU.
  const extra = device.type === 'cpu' ? {} : { session: { disable_cpu_ep_fallback: '1' } };
  // Errors are logged as well: the log may say more than the error.
  const session = readSessionOptions({ graphOptimizationLevel: 'disabled', logSeverityLevel: 3, extra });
  const describe = async (): Promise<LaneDescription> => ({
    model: Uint8Array.from(Buffer.from(model, 'hex')),
    externalFolder: undefined,
    device,
    session,
    cudaLibraries,
    precision: options.precision,
  });
  const lane = await openLane({ device, lane: options }, describe, start);
  try {
    await checkRun(lane);
    return lane.facts;
  } finally {
    await lane.close();
  }
}

async function checkRun(lane: Lane): Promise<void> {
  const feed = { name: 'x', dtype: 'float32', dims: [1, 1, 1, 1], data: Float32Array.of(VALUE) } as const;
  const { outputs } = await lane.run([feed], ['y']);
  const value = outputs[0]?.data[0];
  if (value !== -VALUE) throw new Error(`it computes wrong results: -(${VALUE}) was ${String(value)}`);
}

/** The reason alone, without the message around it, which repeats the device. */
function whyNot(error: unknown): string {
  const details: unknown = isTapirError(error) ? error.details : undefined;
  const hasReason = details !== null && typeof details === 'object' && 'reason' in details;
  return hasReason ? String(details.reason) : reasonOf(error);
}
