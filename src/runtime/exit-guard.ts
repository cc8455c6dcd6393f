/**
 * Keeps the process from exiting while a thread is inside onnxruntime: its binding throws through Node's teardown then
 * and aborts the whole process (ort-node.md §1). Runs on `process.exit()`, uncaught errors and the normal end alike.
 */
import { writeSync } from 'node:fs';
import { STATE_BUSY, STATE_STOP } from './protocol.js';

/** What is ended at the exit of this process. */
export type Guarded =
  /** A thread: kept out of onnxruntime, and waited for. */
  | { readonly state: Int32Array; readonly timeoutMs: number }
  /** A process: killed. */
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

/** Forbids every lane to enter onnxruntime and waits until none is inside. */
function stopAll(): void {
  const started = Date.now();
  for (const lane of guarded) {
    if ('kill' in lane) lane.kill();
    else Atomics.store(lane.state, STATE_STOP, 1);
  }
  for (const lane of guarded) if ('state' in lane) waitFor(lane.state, started, lane.timeoutMs);
}

function waitFor(state: Int32Array, started: number, timeoutMs: number): void {
  while (Atomics.load(state, STATE_BUSY) === 1) {
    const leftMs = started + timeoutMs - Date.now();
    if (leftMs <= 0) {
      // Standard error by descriptor: in an exit handler streams and warnings no longer flush.
      writeSync(
        2,
        `onnx-tapir: a run did not end within ${timeoutMs / 1000} s of exiting; giving up on it\n`,
      );
      return;
    }
    Atomics.wait(state, STATE_BUSY, 1, leftMs);
  }
}
