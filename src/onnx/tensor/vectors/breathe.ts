/** Long computations that let the event loop run. */
import { setImmediate } from 'node:timers/promises';

/** Lets the event loop run between two parts of a long computation; throws the signal's reason after an abort. */
export type Breathe = () => Promise<void>;

/** Longest time that the event loop waits. */
const EVERY_MS = 40;

/** Creates a {@link Breathe} that lets the event loop run every {@link EVERY_MS}. */
export function createBreathe(signal: AbortSignal | undefined): Breathe {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < EVERY_MS) return;
    await setImmediate();
    signal?.throwIfAborted();
    last = performance.now();
  };
}
