/** Waiting until nothing is left to do, where threads are played by the test. */
import { setImmediate as nextTurn } from 'node:timers/promises';

const TURNS = 20;

/** So many turns of the event loop as a message and its answer take, however busy the machine: no clock decides. */
export async function untilQuiet(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await nextTurn();
}
