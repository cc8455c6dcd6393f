/** Room for signals within long computations. */
import { setImmediate } from 'node:timers/promises';

/** Lets signals and other work in between two parts of a long computation; throws the reason if it was stopped. */
export type Breathe = () => Promise<void>;

/** Longest time without a look at what else is to be done. */
const EVERY_MS = 40;

/** Makes a {@link Breathe} that lets the event loop run now and then. */
export function createBreathe(signal: AbortSignal | undefined): Breathe {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < EVERY_MS) return;
    await setImmediate();
    signal?.throwIfAborted();
    last = performance.now();
  };
}
