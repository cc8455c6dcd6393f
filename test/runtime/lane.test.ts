/** A lane's owner, with a lane that is played by the test. */
import { describe, expect, it } from 'vitest';
import { packError, TapirError } from '../../src/errors.js';
import { openLane, type Lane } from '../../src/runtime/lane.js';
import type { LaneChannel, LaneEvents } from '../../src/runtime/lane-start.js';
import type { LaneDescription, LaneRequest } from '../../src/runtime/protocol.js';
import { SESSION_DEFAULTS } from '../../src/runtime/session-options.js';
import { tinyResNet } from '../support/fixtures.js';

const device = { type: 'cpu', id: 0, threads: 0 } as const;
const describeLane = async (): Promise<LaneDescription> => ({
  model: new Uint8Array(4),
  externalFolder: undefined,
  device,
  session: SESSION_DEFAULTS,
});
const facts = { inputs: [], outputs: [], device, runtime: '0' };
const feed = { name: 'x', dtype: 'float32', dims: [1], data: new Float32Array(1) } as const;

/** Plays a lane: `answer` is called with each request. */
function play(answer: (request: LaneRequest, events: LaneEvents) => void): {
  start: (events: LaneEvents) => LaneChannel;
  held: boolean[];
} {
  const held: boolean[] = [];
  const start = (events: LaneEvents): LaneChannel => ({
    post: (request) => setImmediate(() => answer(request, events)),
    hold: (isBusy) => void held.push(isBusy),
  });
  return { start, held };
}

describe('openLane', () => {
  it('fails with the lane’s error, and waits for its end', async () => {
    const error = new TapirError('SESSION_FAILED', 'no', { details: { device: 'cpu', reason: 'no' } });
    let isClosed = false;
    const { start } = play((request, events) => {
      if (request.type === 'open') events.reply({ type: 'failed', error: packError(error) });
      else {
        isClosed = true;
        events.gone('closed');
      }
    });
    await expect(openLane(device, describeLane, start)).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: 'no',
    });
    expect(isClosed).toBe(true);
  });

  it('fails if the lane dies while opening', async () => {
    const { start } = play((_request, events) => events.gone('out of memory'));
    await expect(openLane(device, describeLane, start)).rejects.toMatchObject({
      code: 'LANE_DIED',
      details: { device: 'cpu', reason: 'out of memory' },
    });
  });
});

describe('a lane', () => {
  const openWith = async (
    answer: (request: LaneRequest, events: LaneEvents) => void,
  ): Promise<{ lane: Lane; held: boolean[] }> => {
    const { start, held } = play((request, events) => {
      if (request.type === 'open') events.reply({ type: 'opened', facts });
      else answer(request, events);
    });
    return { lane: await openLane(device, describeLane, start), held };
  };

  it('that dies fails its open runs and those after, naming the device', async () => {
    const { lane } = await openWith((_request, events) => events.gone('killed'));
    const died = { code: 'LANE_DIED', message: 'the session on cpu ended unexpectedly: killed' };
    const runs = [lane.run([feed], ['y']), lane.run([feed], ['y'])];
    for (const run of runs) await expect(run).rejects.toMatchObject(died);
    await expect(lane.run([feed], ['y'])).rejects.toMatchObject(died);
    await lane.close();
  });

  it('keeps the process alive while a run or the closing is open, and not otherwise', async () => {
    const { lane, held } = await openWith((request, events) => {
      if (request.type === 'run') events.reply({ type: 'done', id: request.id, outputs: [] });
      if (request.type === 'close') events.gone('closed');
    });
    await Promise.all([lane.run([feed], []), lane.run([feed], [])]);
    expect(held).toEqual([false, true, true, false]);
    const last = lane.run([feed], []);
    await Promise.all([lane.close(), last]);
    expect(held.slice(4)).toEqual([true, true]);
  });

  it('answers each run with its own reply, in any order', async () => {
    const requests: number[] = [];
    const { lane } = await openWith((request, events) => {
      if (request.type !== 'run') return;
      requests.push(request.id);
      if (requests.length < 3) return;
      for (const id of requests.toReversed())
        events.reply({ type: 'done', id, outputs: [{ ...feed, name: String(id) }] });
    });
    const results = await Promise.all([0, 1, 2].map(() => lane.run([feed], ['y'])));
    expect(results.map(([output]) => output?.name)).toEqual(['0', '1', '2']);
  });

  it('leaves a run that was given up to end by itself', async () => {
    const abort = new AbortController();
    let reply: (() => void) | undefined;
    const { lane, held } = await openWith((request, events) => {
      if (request.type === 'run') reply = () => events.reply({ type: 'done', id: request.id, outputs: [] });
    });
    const run = lane.run([feed], ['y'], { signal: abort.signal });
    await new Promise((resolve) => setImmediate(resolve));
    abort.abort(new Error('enough'));
    await expect(run).rejects.toThrow('enough');
    expect(held.at(-1)).toBe(true);
    reply!();
    expect(held.at(-1)).toBe(false);
  });
});

describe('the real lane', () => {
  it('opens and closes again and again, with no thread left', async () => {
    const { createFeatureExtractor } = await import('onnx-tapir');
    for (let i = 0; i < 20; i++) {
      const extractor = await createFeatureExtractor(tinyResNet(), ['fc']);
      await extractor.close();
    }
    expect(
      process.getActiveResourcesInfo().filter((name) => name === 'Worker' || name === 'MessagePort'),
    ).toHaveLength(0);
  });
});
