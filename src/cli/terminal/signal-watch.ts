/** Signals that end a command tidily, and end it even while its main thread computes. */
import { constants } from 'node:os';
import { Worker } from 'node:worker_threads';
import { packageFile } from '../../base/package.js';
import { guardExit } from '../../run/runtime/lanes/exit-guard.js';
import { STATE_BUSY, STATE_WORDS } from '../../run/runtime/lanes/protocol.js';

/** What the thread is started with. */
export interface SignalThreadData {
  readonly layout: ActionLayout;
  readonly signals: readonly { readonly name: NodeJS.Signals; readonly number: number }[];
  /** Those of a guarded lane, then whether the main thread has heard a signal. */
  readonly state: Int32Array;
  /** How long the main thread may be deaf to the first signal. */
  readonly mostMs: number;
}

export const STATE_HEARD: number = STATE_WORDS;

/** Where the flags of a `struct sigaction` lie, and the flag that resets the handler when a signal arrives. */
interface ActionLayout {
  readonly flagsAt: number;
  readonly resetHandler: number;
}

const LAYOUTS: Readonly<Partial<Record<NodeJS.Platform, ActionLayout>>> = {
  linux: { flagsAt: 136, resetHandler: 0x8000_0000 },
  darwin: { flagsAt: 12, resetHandler: 4 },
};

const MOST_DEAF_MS = 10_000;
const MOST_LOADING_MS = 5000;
/**
 * Calls a function on the first of some signals. A second one ends the process at once, and so does the first one after 10 s if it is not
 * heard. That needs Linux or macOS, and koffi; elsewhere both are heard between two steps only.
 */
export function onSignal(names: readonly NodeJS.Signals[], hear: (name: NodeJS.Signals) => void): void {
  const state = new Int32Array(new SharedArrayBuffer((STATE_HEARD + 1) * Int32Array.BYTES_PER_ELEMENT));
  const stop = (name: NodeJS.Signals): void => {
    for (const one of names) process.off(one, stop);
    Atomics.store(state, STATE_HEARD, 1);
    hear(name);
  };
  for (const name of names) process.on(name, stop);
  const layout = LAYOUTS[process.platform];
  if (!layout) return;
  const signals = names.map((name) => ({ name, number: constants.signals[name] }));
  const worker = new Worker(packageFile('dist/lib/signal-thread.cjs'), {
    workerData: { layout, signals, state, mostMs: MOST_DEAF_MS } satisfies SignalThreadData,
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16 },
  });
  // A thread that ends while it loads koffi takes the process along.
  Atomics.store(state, STATE_BUSY, 1);
  const unguard = guardExit({ state, timeoutMs: MOST_LOADING_MS });
  // It ends at once without koffi.
  worker
    .on('error', () => undefined)
    .once('exit', unguard)
    .unref();
}
