/** Waiting until nothing is left to do, with simulated threads. */
import { setImmediate as nextTurn } from 'node:timers/promises';

const TURNS = 20;

/** Waits for more turns of the event loop than a message and its answer take. It does not depend on the speed of the machine. */
export async function untilQuiet(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await nextTurn();
}
