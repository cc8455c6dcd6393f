/** Many calls that wait for one signal, with one listener on it: at eleven listeners, Node warns of a leak. */

interface Waiting {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

const waitingOf = new WeakMap<AbortSignal, Waiting>();

/**
 * Calls a function once when a signal fires.
 *
 * @returns Takes the call back.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const { calls, listener } = waitingOf.get(signal) ?? listenTo(signal);
  calls.add(call);
  return () => {
    calls.delete(call);
    if (calls.size > 0 || waitingOf.get(signal)?.calls !== calls) return;
    waitingOf.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}

function listenTo(signal: AbortSignal): Waiting {
  const calls = new Set<() => void>();
  const listener = (): void => {
    waitingOf.delete(signal);
    for (const call of calls) call();
  };
  const waiting = { calls, listener };
  waitingOf.set(signal, waiting);
  signal.addEventListener('abort', listener, { once: true });
  return waiting;
}
