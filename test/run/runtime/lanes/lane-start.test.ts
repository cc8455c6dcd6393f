/** Real lanes: in a thread, in a process, and in a thread that was started before its model was known. */
import { afterEach, describe, expect, it } from 'vitest';
import type { ResolvedDevice } from '../../../../src/run/runtime/lanes/device.js';
import { openLane, type Lane } from '../../../../src/run/runtime/lanes/lane.js';
import { LANE_DEFAULTS } from '../../../../src/run/runtime/lanes/lane-options.js';
import { startLane, warmLane } from '../../../../src/run/runtime/lanes/lane-start.js';
import type { LaneDescription } from '../../../../src/run/runtime/lanes/protocol.js';
import type { SharedImages } from '../../../../src/onnx/tensor/image-feed.js';
import type { NamedTensor } from '../../../../src/onnx/tensor/tensor.js';
import { cpu, describeLane } from '../../../support/fake-lane.js';
import { runScript } from '../../../support/run.js';
import { negModel } from '../../../support/tiny-models.js';

const open = (isolation: 'thread' | 'process', device: ResolvedDevice = cpu): Promise<Lane> =>
  openLane({ device, lane: { ...LANE_DEFAULTS, isolation } }, async (): Promise<LaneDescription> => ({
    ...(await describeLane()),
    model: negModel(),
  }));
const feed = (value: number): NamedTensor => ({
  name: 'x',
  dtype: 'float32',
  dims: [1, 1, 1, 1],
  data: Float32Array.of(value),
});
const shared = (): SharedImages => ({
  name: 'x',
  dtype: 'float32',
  dims: [1, 1, 1, 1],
  channels: 1,
  isLast: false,
  holds: 'bytes',
  images: [],
  values: new Float32Array(768),
});
const threads = (): number =>
  process.getActiveResourcesInfo().filter((name) => name === 'MessagePort').length;

describe.each(['thread', 'process'] as const)('a lane in a %s', (isolation) => {
  it('opens a session, runs it and ends', async () => {
    const lane = await open(isolation);
    expect(lane.pid === process.pid).toBe(isolation === 'thread');
    expect(lane.facts).toMatchObject({ device: cpu, inputs: [{ name: 'x', dtype: 'float32' }] });
    const { outputs, spent } = await lane.run([feed(42)], ['y']);
    expect(outputs).toEqual([
      { name: 'y', dtype: 'float32', dims: [1, 1, 1, 1], data: Float32Array.of(-42) },
    ]);
    // Each output has its own buffer, so that its owner can move it.
    expect((outputs[0]!.data as Float32Array).buffer.byteLength).toBe(4);
    // Through a pipe, feeds are copied.
    expect(spent.map(({ byteLength }) => byteLength)).toEqual(isolation === 'thread' ? [4] : []);
    await lane.close();
    expect(lane.isGone).toBe(true);
  });

  it('takes shared images', async () => {
    const lane = await open(isolation);
    expect((await lane.run([shared()], ['y'])).outputs[0]).toMatchObject({ dims: [1, 1, 1, 1] });
    await lane.close();
  });
});

describe('startLane', () => {
  it('starts a process for a GPU that is named by its UUID', async () => {
    const device: ResolvedDevice = { type: 'cuda', id: 0, uuid: 'GPU-1', threads: 0 };
    let end!: (reason: string) => void;
    const gone = new Promise<string>((resolve) => (end = resolve));
    const channel = startLane({ reply: () => undefined, gone: end }, device, LANE_DEFAULTS);
    expect(channel.pid).not.toBe(process.pid);
    channel.post({ type: 'close' }, []);
    expect(await gone).toBe('its process ended (code 0)');
  });
});

describe('warmLane', () => {
  const before = threads();
  afterEach(() => expect(threads()).toBe(before));

  it('starts the thread that the next lane takes', async () => {
    warmLane();
    warmLane();
    const lane = await open('thread');
    expect((await lane.run([feed(1)], ['y'])).outputs[0]!.data).toEqual(Float32Array.of(-1));
    await lane.close();
  });

  it('starts nothing for a lane that will be a process', () => {
    warmLane({ ...LANE_DEFAULTS, isolation: 'process' });
    warmLane(LANE_DEFAULTS, { uuid: 'GPU-1' });
    expect(threads()).toBe(before);
  });

  it('does not keep the process alive', async () => {
    const ended = await runScript(`
      const { warmLane } = await import('./build/modules/run/runtime/lanes/lane-start.js');
      warmLane();
      console.log('end');`);
    expect(ended).toMatchObject({ code: 0, stdout: 'end\n' });
  });
});
