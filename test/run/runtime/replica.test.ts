/** A device's queue in front of its sessions, with simulated lanes. */
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { madeFeeds } from '../../../src/onnx/tensor/image-feed.js';
import type { LaneEvents } from '../../../src/run/runtime/lanes/lane-start.js';
import type { LaneRequest } from '../../../src/run/runtime/lanes/protocol.js';
import type { NamedTensor } from '../../../src/onnx/tensor/tensor.js';
import { openReplica, type Replica, type ReplicaPlace } from '../../../src/run/runtime/replica.js';
import { wholePart } from '../../../src/onnx/tensor/tensor-part.js';
import { describeLane, done, place, playLanes } from '../../support/fake-lane.js';
import { untilQuiet } from '../../support/quiet.js';

type Run = Extract<LaneRequest, { type: 'run' }>;

const feed = (value: number): NamedTensor => ({
  name: 'x',
  dtype: 'float32',
  dims: [1],
  data: Float32Array.of(value),
});
const whole = (value: number): ReturnType<typeof wholePart>[] => [wholePart(feed(value))];

async function open(
  answer: (run: Run, events: LaneEvents, lane: number) => void,
  given: Partial<ReplicaPlace> = {},
): Promise<{ replica: Replica; started: () => number }> {
  const { start, started } = playLanes((request, events, lane) => {
    if (request.type === 'close') events.gone('closed');
    if (request.type === 'run') answer(request, events, lane);
  });
  const at = { ...place, sessions: 1, onLaneDeath: 'restart', ...given } as const;
  return { replica: await openReplica(at, describeLane, start), started };
}

/** Answers a run with what it was fed. */
const echo = (run: Run, events: LaneEvents): void => events.reply(done(run.id, madeFeeds(run.feeds)));

const fedOf = (run: Run): NamedTensor => madeFeeds(run.feeds)[0]!;

describe('a replica', () => {
  it('has one listener on a signal, however many runs wait for it', async () => {
    const { signal } = new AbortController();
    const listeners = (): number => getEventListeners(signal, 'abort').length;
    const { replica } = await open(echo);
    for (let round = 0; round < 2; round++) {
      const runs = Array.from({ length: 20 }, (_, i) => replica.run(whole(i), ['y'], { signal }));
      expect(listeners()).toBe(1);
      await Promise.all(runs);
      expect(listeners()).toBe(0);
    }
    await replica.close();
  });

  it('has two runs at a lane at most, and keeps their order', async () => {
    const posted: Run[] = [];
    let port: LaneEvents | undefined;
    const { replica } = await open((run, events) => {
      port = events;
      posted.push(run);
    });
    const order: number[] = [];
    const runs = [1, 2, 3, 4].map(async (value) => {
      await replica.run(whole(value), ['y']);
      order.push(value);
    });
    await untilQuiet();
    expect(posted.map((run) => fedOf(run).data[0])).toEqual([1, 2]);
    expect(replica.load).toBe(4);
    for (let i = 0; i < 4; i++) {
      port!.reply(done(posted[i]!.id));
      await untilQuiet();
    }
    await Promise.all(runs);
    expect(order).toEqual([1, 2, 3, 4]);
    expect(replica.counts).toEqual({ runs: 4, failures: 0, restarts: 0 });
    await replica.close();
  });

  it('moves memory for outputs to a lane, and what was moved before never again', async () => {
    const rooms: number[][] = [];
    const { replica } = await open((run, events) => {
      rooms.push(run.room.map(({ byteLength }) => byteLength));
      echo(run, events);
    });
    const room = [new ArrayBuffer(4), new ArrayBuffer(8)];
    await replica.run(whole(1), ['y'], { room });
    structuredClone(room[0], { transfer: [room[0]!] });
    await replica.run(whole(2), ['y'], { room });
    expect(rooms).toEqual([[4, 8], [8]]);
    await replica.close();
  });

  it('shares its queue among sessions', async () => {
    const lanes: number[] = [];
    const { replica } = await open(
      (run, events, lane) => {
        lanes.push(lane);
        setTimeout(() => echo(run, events), 1);
      },
      { sessions: 2 },
    );
    const results = await Promise.all(Array.from({ length: 20 }, (_, i) => replica.run(whole(i), ['x'])));
    expect(results.map(([output]) => output!.data[0])).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(new Set(lanes)).toEqual(new Set([0, 1]));
    await replica.close();
  });

  it('copies the feeds only when a session is about to take them', async () => {
    const posted: Run[] = [];
    let port: LaneEvents | undefined;
    const { replica } = await open((run, events) => {
      port = events;
      posted.push(run);
    });
    const last = feed(1);
    const runs = [feed(0), feed(0), last].map((one) => replica.run([wholePart(one)], []));
    await untilQuiet();
    (last.data as Float32Array)[0] = 7;
    port!.reply(done(posted[0]!.id));
    await untilQuiet();
    expect(fedOf(posted[2]!).data[0]).toBe(7);
    for (const run of posted.slice(1)) port!.reply(done(run.id));
    await Promise.all(runs);
    await replica.close();
  });

  it('uses the buffers of spent feeds again', async () => {
    const buffers: ArrayBufferLike[] = [];
    const { replica } = await open((run, events) => {
      const { buffer } = fedOf(run).data as Float32Array;
      buffers.push(buffer);
      events.reply({
        type: 'done',
        id: run.id,
        outputs: [],
        spent: [buffer as ArrayBuffer],
        runMs: 1,
        feedMs: 0,
      });
    });
    for (let i = 0; i < 3; i++) await replica.run(whole(i), []);
    expect(new Set(buffers).size).toBe(1);
    await replica.close();
  });

  it('drops a waiting run that is given up, and lets one at work end by itself', async () => {
    const posted: Run[] = [];
    let port: LaneEvents | undefined;
    const { replica } = await open((run, events) => {
      port = events;
      posted.push(run);
    });
    const abort = new AbortController();
    const runs = [1, 2, 3].map((value) => replica.run(whole(value), [], { signal: abort.signal }));
    await untilQuiet();
    abort.abort(new Error('enough'));
    for (const run of runs) await expect(run).rejects.toThrow('enough');
    expect(replica.load).toBe(2);
    let isClosed = false;
    const closing = replica.close().then(() => {
      isClosed = true;
    });
    await untilQuiet();
    expect(isClosed).toBe(false);
    for (const run of posted) port!.reply(done(run.id));
    await closing;
    expect(posted).toHaveLength(2);
    await expect(replica.run(whole(1), [], { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'CLOSED',
    });
  });

  it('refuses a run that was given up before', async () => {
    const { replica } = await open(echo);
    await expect(replica.run(whole(1), [], { signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow(
      'no',
    );
    await replica.close();
  });
});

describe('a replica whose lane dies', () => {
  it('fails the runs that the lane had, and runs the others on a new one', async () => {
    const { replica, started } = await open((run, events, lane) => {
      if (lane === 0) events.gone('killed');
      else echo(run, events);
    });
    const runs = [1, 2, 3, 4].map((value) => replica.run(whole(value), ['x']));
    const settled = await Promise.allSettled(runs);
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled']);
    expect(settled[0]).toMatchObject({
      reason: { code: 'LANE_DIED', details: { device: 'cpu', reason: 'killed' } },
    });
    expect(started()).toBe(2);
    expect(replica.counts).toMatchObject({ runs: 2, failures: 2, restarts: 1 });
    await replica.close();
  });

  it('while idle is opened again by the next run', async () => {
    let kill: (() => void) | undefined;
    const { replica, started } = await open((run, events) => {
      kill = () => events.gone('killed');
      echo(run, events);
    });
    await replica.run(whole(1), []);
    kill!();
    await untilQuiet();
    expect(started()).toBe(1);
    expect((await replica.run(whole(2), ['x']))[0]!.data[0]).toBe(2);
    expect(started()).toBe(2);
    await replica.close();
  });

  it('and cannot be opened again fails what waits, and tries again for the next run', async () => {
    let attempt = 0;
    const { start } = playLanes((request, events) => {
      if (request.type === 'run') {
        if (attempt === 1) events.gone('killed');
        else echo(request, events);
      } else events.gone('closed');
    });
    const at = { ...place, sessions: 1, onLaneDeath: 'restart' } as const;
    const describeOnce: typeof describeLane = () => {
      if (++attempt === 2) return Promise.reject(new Error('the model is gone'));
      return describeLane();
    };
    const replica = await openReplica(at, describeOnce, start);
    await expect(replica.run(whole(1), [])).rejects.toMatchObject({ code: 'LANE_DIED' });
    await expect(replica.run(whole(1), [])).rejects.toThrow('the model is gone');
    expect((await replica.run(whole(3), ['x']))[0]!.data[0]).toBe(3);
    await replica.close();
  });

  it('is not used any more, if so wished', async () => {
    const { replica, started } = await open((_run, events) => events.gone('killed'), {
      onLaneDeath: 'remove',
    });
    const runs = await Promise.allSettled([1, 2, 3].map((value) => replica.run(whole(value), [])));
    expect(runs.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(replica.isRemoved).toBe(true);
    await expect(replica.run(whole(1), [])).rejects.toMatchObject({
      code: 'LANE_DIED',
      message: 'cpu is no longer used: its session ended unexpectedly (killed)',
    });
    expect(started()).toBe(1);
    await replica.close();
  });

  it('with another session goes on with that one', async () => {
    const { replica } = await open(
      (run, events, lane) => {
        if (lane === 0) events.gone('killed');
        else echo(run, events);
      },
      { sessions: 2, onLaneDeath: 'remove' },
    );
    await Promise.allSettled([1, 2].map((value) => replica.run(whole(value), ['x'])));
    expect((await replica.run(whole(3), ['x']))[0]!.data[0]).toBe(3);
    expect(replica.isRemoved).toBe(false);
    await replica.close();
  });
});

describe('openReplica', () => {
  it('closes what it opened if a session cannot be opened', async () => {
    const closed: number[] = [];
    const { start } = playLanes((request, events, lane) => {
      if (request.type === 'close') {
        closed.push(lane);
        events.gone('closed');
      }
    });
    let calls = 0;
    const describeFirst: typeof describeLane = () =>
      ++calls === 2 ? Promise.reject(new Error('out of memory')) : describeLane();
    const at = { ...place, sessions: 3, onLaneDeath: 'restart' } as const;
    await expect(openReplica(at, describeFirst, start)).rejects.toThrow('out of memory');
    expect(closed.toSorted((a, b) => a - b)).toEqual([0, 1, 2]);
  });
});

describe('the description of a lane', () => {
  it('survives structured clone', async () => {
    const description = { ...(await describeLane()), device: place.device };
    expect(structuredClone(description)).toEqual(description);
  });
});
