/** Simulated lanes. */
import type { ResolvedDevice } from '../../src/run/runtime/lanes/device.js';
import { LANE_DEFAULTS } from '../../src/run/runtime/lanes/lane-options.js';
import type { LaneChannel, LaneEvents } from '../../src/run/runtime/lanes/lane-start.js';
import type { LaneDescription, LaneReply, LaneRequest } from '../../src/run/runtime/lanes/protocol.js';
import type { NamedTensor } from '../../src/onnx/tensor/tensor.js';
import { SESSION_DEFAULTS } from '../../src/run/runtime/lanes/session-options.js';

export const cpu: ResolvedDevice = { type: 'cpu', id: 0, threads: 0 };
export const place = { device: cpu, lane: LANE_DEFAULTS } as const;

export const describeLane = async (): Promise<LaneDescription> => ({
  model: new Uint8Array(4),
  externalFolder: undefined,
  device: cpu,
  session: SESSION_DEFAULTS,
});

/** The reply to a run. */
export function done(id: number, outputs: readonly NamedTensor[] = []): LaneReply {
  return { type: 'done', id, outputs, spent: [], feedMs: 0, runMs: 1 };
}

/** Simulates lanes: `answer` is called with each request except `open`, and with the number of the lane. */
export function playLanes(
  answer: (request: LaneRequest, events: LaneEvents, lane: number) => void,
  facts: { readonly device?: ResolvedDevice } = {},
): {
  start: (events: LaneEvents, device: ResolvedDevice) => LaneChannel;
  held: boolean[];
  started: () => number;
} {
  const held: boolean[] = [];
  let lanes = 0;
  const start = (events: LaneEvents, device: ResolvedDevice): LaneChannel => {
    const lane = lanes++;
    const opened = { inputs: [], outputs: [], device: facts.device ?? device, runtime: '0' };
    return {
      pid: process.pid,
      post: (request) =>
        setImmediate(() => {
          if (request.type === 'open') events.reply({ type: 'opened', facts: opened });
          else answer(request, events, lane);
        }),
      hold: (isBusy) => void held.push(isBusy),
    };
  };
  return { start, held, started: () => lanes };
}
