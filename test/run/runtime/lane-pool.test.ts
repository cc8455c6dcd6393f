/** Sessions that cannot be opened again: paused attempts, and an end with the reason. Sessions and time are simulated. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LaneEvents } from '../../../src/run/runtime/lanes/lane-start.js';
import { REOPEN_ATTEMPTS, REOPEN_PAUSE_MS } from '../../../src/run/runtime/lane-pool.js';
import type { LaneRequest } from '../../../src/run/runtime/lanes/protocol.js';
import { openReplica, type Replica } from '../../../src/run/runtime/replica.js';
import { wholePart } from '../../../src/onnx/tensor/tensor-part.js';
import { describeLane, done, place, playLanes } from '../../support/fake-lane.js';
import { untilQuiet } from '../../support/quiet.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const parts = () => [wholePart({ name: 'x', dtype: 'float32', dims: [1], data: new Float32Array(1) })];

interface Simulation {
  readonly replica: Replica;
  /** Attempts to open a session, not counting the first ones. */
  readonly attempts: () => number;
  readonly kill: (lane: number) => Promise<void>;
  /** Lets further attempts succeed. */
  readonly repair: () => void;
}

/** A replica whose sessions answer at once; once dead, they cannot be opened until they are repaired. */
async function simulate(sessions: number): Promise<Simulation> {
  const events: LaneEvents[] = [];
  const { start, started } = playLanes((request: LaneRequest, to, lane) => {
    events[lane] = to;
    if (request.type === 'close') to.gone('closed');
    if (request.type === 'run') to.reply(done(request.id));
  });
  let isBroken = false;
  const describe: typeof describeLane = () =>
    isBroken ? Promise.reject(new Error('the driver hangs')) : describeLane();
  const at = { ...place, sessions, onLaneDeath: 'restart' } as const;
  const replica = await openReplica(at, describe, (to, device) => {
    events.push(to);
    return start(to, device);
  });
  isBroken = true;
  return {
    replica,
    attempts: () => started() - sessions,
    async kill(lane) {
      events[lane]!.gone('killed');
      await untilQuiet();
    },
    repair: () => (isBroken = false),
  };
}

async function outcomeOf(run: Promise<unknown>): Promise<unknown> {
  return run.then(
    () => 'done',
    (error: unknown) => error,
  );
}

describe('a session that cannot be opened again', () => {
  it('is not tried for every run while another session works', async () => {
    const { replica, attempts, kill } = await simulate(2);
    await kill(0);
    for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 4 }, () => replica.run(parts(), [])));
    expect(attempts()).toBe(1);
    await replica.close();
  });

  it('is tried after pauses that double, and runs wait for the next attempt', async () => {
    const { replica, attempts, kill } = await simulate(1);
    await kill(0);
    expect(attempts()).toBe(0);
    // The first attempt starts at once.
    expect(await outcomeOf(replica.run(parts(), []))).toMatchObject({ message: 'the driver hangs' });
    for (let attempt = 1; attempt < REOPEN_ATTEMPTS - 1; attempt++) {
      const pauseMs = REOPEN_PAUSE_MS * 2 ** (attempt - 1);
      const run = outcomeOf(replica.run(parts(), []));
      await vi.advanceTimersByTimeAsync(pauseMs - 1);
      await untilQuiet();
      expect(attempts()).toBe(attempt);
      await vi.advanceTimersByTimeAsync(1);
      expect(await run).toMatchObject({ message: 'the driver hangs' });
      expect(attempts()).toBe(attempt + 1);
    }
    expect(replica.isRemoved).toBe(false);
    await replica.close();
  });

  it('is given up after 8 attempts, with the reason', async () => {
    const { replica, attempts, kill, repair } = await simulate(1);
    await kill(0);
    const outcomes: unknown[] = [];
    for (let i = 0; i < REOPEN_ATTEMPTS; i++) {
      const run = outcomeOf(replica.run(parts(), []));
      await vi.advanceTimersByTimeAsync(60_000);
      outcomes.push(await run);
    }
    expect(outcomes[6]).toMatchObject({ message: 'the driver hangs' });
    const end = {
      code: 'LANE_DIED',
      message:
        'cpu is no longer used: its session could not be opened again in 8 attempts (the driver hangs)',
      details: { device: 'cpu', reason: 'the driver hangs' },
      cause: { message: 'the driver hangs' },
    };
    expect(outcomes[7]).toMatchObject(end);
    expect(replica.isRemoved).toBe(true);
    repair();
    expect(await outcomeOf(replica.run(parts(), []))).toMatchObject(end);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(attempts()).toBe(REOPEN_ATTEMPTS);
    await replica.close();
  });

  it('counts from the beginning once it could be opened', async () => {
    const { replica, attempts, kill, repair } = await simulate(1);
    await kill(0);
    await outcomeOf(replica.run(parts(), []));
    repair();
    const run = replica.run(parts(), []);
    await vi.advanceTimersByTimeAsync(REOPEN_PAUSE_MS);
    await run;
    expect(attempts()).toBe(2);
    expect(replica.counts.restarts).toBe(1);
    await kill(2);
    // Again at once.
    await replica.run(parts(), []);
    expect(attempts()).toBe(3);
    await replica.close();
  });

  it('does not end a replica whose other session lives, but no attempt is left when that one dies', async () => {
    const { replica, attempts, kill } = await simulate(2);
    await kill(0);
    for (let i = 0; i < REOPEN_ATTEMPTS + 2; i++) {
      await Promise.all(Array.from({ length: 4 }, () => replica.run(parts(), [])));
      await vi.advanceTimersByTimeAsync(60_000);
    }
    expect(attempts()).toBe(REOPEN_ATTEMPTS);
    expect(replica.isRemoved).toBe(false);
    await kill(1);
    expect(await outcomeOf(replica.run(parts(), []))).toMatchObject({
      code: 'LANE_DIED',
      message: 'cpu is no longer used: its session ended unexpectedly (killed)',
    });
    expect(attempts()).toBe(REOPEN_ATTEMPTS);
    await replica.close();
  });

  it('holds the process only while runs wait, and no close', async () => {
    const { replica, kill } = await simulate(1);
    await kill(0);
    await outcomeOf(replica.run(parts(), []));
    const abort = new AbortController();
    const run = outcomeOf(replica.run(parts(), [], { signal: abort.signal }));
    await untilQuiet();
    abort.abort(new Error('enough'));
    expect(await run).toMatchObject({ message: 'enough' });
    await replica.close();
    expect(vi.getTimerCount()).toBe(0);
  });
});
