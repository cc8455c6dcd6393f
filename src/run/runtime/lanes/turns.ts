/**
 * Turns of threads in native code that only one may be in. Sessions of onnxruntime's WebGPU provider share one device in a process. Two
 * threads that open or run them at the same time crash it (microsoft/onnxruntime#32561, onnxruntime 1.30).
 */

/** Who has the turn: the id of a thread, which is never 0. */
const NOBODY = 0;

/** A turn for the threads of this process. */
export function createTurn(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
}

/** Blocks this thread until it has the turn. */
export function takeTurn(turn: Int32Array, threadId: number): void {
  for (;;) {
    const holder = Atomics.compareExchange(turn, 0, NOBODY, threadId);
    if (holder === NOBODY) return;
    Atomics.wait(turn, 0, holder);
  }
}

/** Ends the turn of a thread, if it has it: its owner calls this too when the thread has ended. */
export function endTurn(turn: Int32Array, threadId: number): void {
  if (Atomics.compareExchange(turn, 0, threadId, NOBODY) === threadId) Atomics.notify(turn, 0, 1);
}
