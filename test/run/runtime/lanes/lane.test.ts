/** The owner's end of a lane, with a simulated lane. */
import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../../src/base/errors.js';
import { packError } from '../../../../src/base/packed-error.js';
import { openLane, type Lane } from '../../../../src/run/runtime/lanes/lane.js';
import type { LaneChannel, LaneEvents } from '../../../../src/run/runtime/lanes/lane-start.js';
import type { LaneDescription, LaneRequest } from '../../../../src/run/runtime/lanes/protocol.js';
import { describeLane, done, place, playLanes } from '../../../support/fake-lane.js';
import { tinyResNet } from '../../../support/fixtures.js';

const feed = { name: 'x', dtype: 'float32', dims: [1], data: new Float32Array(1) } as const;

/** Simulates a lane, opening included. */
function play(
  answer: (request: LaneRequest, events: LaneEvents) => void,
): (events: LaneEvents) => LaneChannel {
  return (events) => ({
    pid: process.pid,
    post: (request) => setImmediate(() => answer(request, events)),
    hold: () => undefined,
  });
}

describe('openLane', () => {
  it('fails with the lane’s error, and waits for its end', async () => {
    const error = new TapirError('SESSION_FAILED', 'no', { details: { device: 'cpu', reason: 'no' } });
    let isClosed = false;
    const start = play((request, events) => {
      if (request.type === 'open') events.reply({ type: 'failed', error: packError(error) });
      else {
        isClosed = true;
        events.gone('closed');
      }
    });
    await expect(openLane(place, describeLane, start)).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: 'no',
    });
    expect(isClosed).toBe(true);
  });

  it('describes a prepared model that does not open once more, with the failure', async () => {
    const error = new TapirError('SESSION_FAILED', 'gone', { details: { device: 'cpu', reason: 'gone' } });
    const failures: unknown[] = [];
    const describe = async (failure?: unknown): Promise<LaneDescription> => {
      failures.push(failure);
      return { ...(await describeLane()), isPrepared: failures.length < 3 };
    };
    const start = play((request, events) => {
      if (request.type === 'open') events.reply({ type: 'failed', error: packError(error) });
      else events.gone('closed');
    });
    await expect(openLane(place, describe, start)).rejects.toMatchObject({ message: 'gone' });
    const again = expect.objectContaining({ code: 'SESSION_FAILED' });
    expect(failures).toEqual([undefined, again, again]);
  });

  it('fails if the lane dies while opening', async () => {
    const start = play((_request, events) => events.gone('out of memory'));
    await expect(openLane(place, describeLane, start)).rejects.toMatchObject({
      code: 'LANE_DIED',
      details: { device: 'cpu', reason: 'out of memory' },
    });
  });
});

describe('a lane', () => {
  const openWith = async (
    answer: (request: LaneRequest, events: LaneEvents) => void,
  ): Promise<{ lane: Lane; held: boolean[] }> => {
    const { start, held } = playLanes(answer);
    return { lane: await openLane(place, describeLane, start), held };
  };

  it('that dies fails its open runs and those after, naming the device', async () => {
    const { lane } = await openWith((_request, events) => events.gone('killed'));
    const died = { code: 'LANE_DIED', message: 'the session on cpu ended unexpectedly: killed' };
    const runs = [lane.run([feed], ['y']), lane.run([feed], ['y'])];
    for (const run of runs) await expect(run).rejects.toMatchObject(died);
    await expect(lane.run([feed], ['y'])).rejects.toMatchObject(died);
    expect(lane.isGone).toBe(true);
    await lane.close();
  });

  it('keeps the process alive while a run or the closing is open, and not otherwise', async () => {
    const { lane, held } = await openWith((request, events) => {
      if (request.type === 'run') events.reply(done(request.id));
      if (request.type === 'close') events.gone('closed');
    });
    await Promise.all([lane.run([feed], []), lane.run([feed], [])]);
    expect(held).toEqual([false, true, true, false]);
    const last = lane.run([feed], []);
    await Promise.all([lane.close(), last]);
    expect(held.slice(4)).toEqual([true, true]);
  });

  it('fails a run whose buffers cannot be moved, and does not wait for it', async () => {
    const { start, held } = playLanes((_request, events) => events.gone('closed'));
    const lane = await openLane(place, describeLane, (events, device) => {
      const channel = start(events, device);
      const post: typeof channel.post = (request) => {
        if (request.type === 'run') throw new Error('cannot be transferred');
        channel.post(request, []);
      };
      return { ...channel, post };
    });
    await expect(lane.run([feed], [])).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      details: { input: 'x', actual: 'cannot be transferred' },
    });
    expect(held.at(-1)).toBe(false);
    await lane.close();
  });

  it('answers each run with its own reply, in any order', async () => {
    const requests: number[] = [];
    const { lane } = await openWith((request, events) => {
      if (request.type !== 'run') return;
      requests.push(request.id);
      if (requests.length < 3) return;
      for (const id of requests.toReversed()) events.reply(done(id, [{ ...feed, name: String(id) }]));
    });
    const results = await Promise.all([0, 1, 2].map(() => lane.run([feed], ['y'])));
    expect(results.map(({ outputs: [output] }) => output?.name)).toEqual(['0', '1', '2']);
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
