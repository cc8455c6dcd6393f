/** Entry file of a lane in a worker thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveLane } from '../lane-server.js';
import type { EngineName } from '../lane-options.js';
import { STATE_BUSY, STATE_STOP, type LaneRequest } from '../protocol.js';
import { loadEngine } from './load-engine.js';

const port = parentPort!;
const { state, engine } = workerData as { readonly state: Int32Array; readonly engine: EngineName };
/** Steps that are in native code. */
let inside = 0;

const handle = serveLane(
  {
    send: (reply, transfer) => port.postMessage(reply, transfer),
    async enter(step) {
      // Set busy, then read stop. The exit guard sets stop, then reads busy. So at least one of them sees the other.
      inside++;
      Atomics.store(state, STATE_BUSY, 1);
      if (Atomics.load(state, STATE_STOP) === 1) {
        leave();
        return new Promise<never>(() => undefined); // The process is exiting, and this thread ends with it.
      }
      return step().finally(leave);
    },
    // The thread ends when it is idle. In Deno, ports have no close().
    closed: () => port.unref(),
  },
  () => loadEngine(engine),
);

function leave(): void {
  inside--;
  if (inside > 0) return;
  Atomics.store(state, STATE_BUSY, 0);
  Atomics.notify(state, STATE_BUSY);
}

port.on('message', (request: LaneRequest) => handle(request));
