/** Entry file of a lane in a worker thread. */
import { parentPort, threadId, workerData } from 'node:worker_threads';
import { serveLane } from '../lanes/lane-server.js';
import type { BindingName, DeviceType, EngineName } from '../capabilities/capabilities.js';
import { STATE_BUSY, STATE_STOP, type LaneRequest } from '../lanes/protocol.js';
import { endTurn, takeTurn } from '../lanes/turns.js';
import { loadEngine } from './load-engine.js';

const port = parentPort!;
const { state, engine, binding, turn } = workerData as {
  readonly state: Int32Array;
  readonly engine: EngineName;
  readonly binding: BindingName;
  readonly turn: Int32Array;
};
/** Steps that are in native code. */
let inside = 0;
/** Whether the session waits for its turn among all those of this process. */
let takesTurns = false;

const handle = serveLane(
  {
    send: (reply, transfer) => port.postMessage(reply, transfer),
    async enter(step) {
      if (takesTurns) takeTurn(turn, threadId);
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
  () => loadEngine(engine, binding),
);

function leave(): void {
  inside--;
  if (inside > 0) return;
  endTurn(turn, threadId);
  Atomics.store(state, STATE_BUSY, 0);
  Atomics.notify(state, STATE_BUSY);
}

/** onnxruntime is not safe for several threads on them. */
const TAKE_TURNS: ReadonlySet<DeviceType> = new Set(['webgpu', 'plugin']);

// The process is exiting: runs that can end early do.
const stop = Atomics.waitAsync(state, STATE_STOP, 0);
if (stop.async) void stop.value.then(() => handle({ type: 'cancel' }));

port.on('message', (request: LaneRequest) => {
  if (request.type === 'open') takesTurns = TAKE_TURNS.has(request.description.device.type);
  handle(request);
});
