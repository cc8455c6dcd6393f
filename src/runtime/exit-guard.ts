/**
 * Keeps the process from exiting while a thread is inside onnxruntime: its binding throws through Node's teardown then
 * and aborts the whole process (ort-node.md §1). Runs on `process.exit()`, uncaught errors and the normal end alike.
 */
import { writeSync } from 'node:fs';
import { STATE_BUSY, STATE_STOP } from './protocol.js';

/** Longest time that an exiting process waits for runs in flight; onnxruntime-node cannot cancel one. */
const EXIT_TIMEOUT_MS = 10_000;

const guarded = new Set<Int32Array>();

/** Guards a thread by its shared state, until the returned function is called. */
export function guardThread(state: Int32Array): () => void {
  if (guarded.size === 0) process.on('exit', stopAll);
  guarded.add(state);
  return () => {
    guarded.delete(state);
    if (guarded.size === 0) process.off('exit', stopAll);
  };
}

/** Forbids every lane to enter onnxruntime and waits until none is inside. */
function stopAll(): void {
  const deadline = Date.now() + EXIT_TIMEOUT_MS;
  for (const state of guarded) Atomics.store(state, STATE_STOP, 1);
  for (const state of guarded) {
    while (Atomics.load(state, STATE_BUSY) === 1) {
      const left = deadline - Date.now();
      if (left <= 0) {
        // Standard error by descriptor: in an exit handler streams and warnings no longer flush.
        writeSync(
          2,
          `onnx-tapir: a run did not end within ${EXIT_TIMEOUT_MS / 1000} s of exiting; giving up on it\n`,
        );
        return;
      }
      Atomics.wait(state, STATE_BUSY, 1, left);
    }
  }
}
