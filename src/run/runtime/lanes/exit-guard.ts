/**
 * Delays the exit of the process while a thread is in onnxruntime. Without the delay, onnxruntime's binding throws while Node shuts
 * down, and the whole process aborts: with onnxruntime-node 1.30, 20 of 20 exits during a run did. The guard runs on
 * `process.exit()`, after uncaught errors and at the normal end.
 */
import { writeSync } from 'node:fs';
import { STATE_BUSY, STATE_STOP } from './protocol.js';

/** A lane that must end when this process exits. */
export type Guarded =
  /** A thread: it may not enter onnxruntime any more, and the exit waits until it has left. */
  | { readonly state: Int32Array; readonly timeoutMs: number }
  /** A process: it is killed. */
  | { readonly kill: () => void };

const guarded = new Set<Guarded>();

/** Guards a lane until the returned function is called. */
export function guardExit(lane: Guarded): () => void {
  if (guarded.size === 0) process.on('exit', stopAll);
  guarded.add(lane);
  return () => {
    guarded.delete(lane);
    if (guarded.size === 0) process.off('exit', stopAll);
  };
}

/** Forbids all lanes to enter onnxruntime and waits until every lane has left it. */
function stopAll(): void {
  const started = Date.now();
  for (const lane of guarded) {
    if ('kill' in lane) lane.kill();
    else {
      Atomics.store(lane.state, STATE_STOP, 1);
      Atomics.notify(lane.state, STATE_STOP);
    }
  }
  for (const lane of guarded) if ('state' in lane) waitFor(lane.state, started, lane.timeoutMs);
}

function waitFor(state: Int32Array, started: number, timeoutMs: number): void {
  while (Atomics.load(state, STATE_BUSY) === 1) {
    const leftMs = started + timeoutMs - Date.now();
    if (leftMs <= 0) {
      // Streams and warnings are not flushed in an exit handler, so write to the descriptor.
      writeSync(
        2,
        `onnx-tapir: a run did not end within ${timeoutMs / 1000} s of the exit; not waiting any longer\n`,
      );
      return;
    }
    Atomics.wait(state, STATE_BUSY, 1, leftMs);
  }
}
