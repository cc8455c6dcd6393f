/**
 * Entry of the thread that ends a command whose main thread does not hear signals: Node calls handlers between two steps of JavaScript, so a
 * step that does not end makes a command deaf. The thread lets the system reset a signal to its default when it arrives: a second one then
 * ends the process whatever it does. It sends that second one itself if the main thread does not hear the first.
 */
import { workerData } from 'node:worker_threads';
import { importKoffi } from '../../run/runtime/engines/native/koffi.js';
import { STATE_BUSY, STATE_STOP } from '../../run/runtime/lanes/protocol.js';
import { STATE_HEARD, type SignalThreadData } from './signal-watch.js';

const { layout, signals, state, mostMs } = workerData as SignalThreadData;
/** More than a `struct sigaction` has. */
const ACTION_BYTES = 256;
const POLL_MS = 250;

/** Calls native code, unless the process is about to end: then it would end under it. */
function enter(step: () => void): void {
  Atomics.store(state, STATE_BUSY, 1);
  if (Atomics.load(state, STATE_STOP) === 0) step();
  leave();
}

function leave(): void {
  Atomics.store(state, STATE_BUSY, 0);
  Atomics.notify(state, STATE_BUSY);
}

async function watch(): Promise<void> {
  const sigaction = (await importKoffi()).load(null).func('sigaction', 'int', ['int', 'void *', 'void *']);
  const action = Buffer.alloc(ACTION_BYTES);
  for (const { number } of signals) {
    sigaction(number, null, action);
    action.writeUInt32LE((action.readUInt32LE(layout.flagsAt) | layout.resetHandler) >>> 0, layout.flagsAt);
    sigaction(number, action, null);
  }
  let leftMs = mostMs;
  const timer = setInterval(() => {
    if (Atomics.load(state, STATE_HEARD) === 1) return clearInterval(timer);
    enter(() => {
      const arrived = signals.find(({ number }) => {
        sigaction(number, null, action);
        // The handler comes first; the default is 0.
        return action.readBigUInt64LE(0) === 0n;
      });
      leftMs -= arrived ? POLL_MS : 0;
      if (arrived && leftMs <= 0) process.kill(process.pid, arrived.name);
    });
  }, POLL_MS);
}

void watch().finally(leave);
