/** The batcher, with a run that does what the test says. */
import { describe, expect, it } from 'vitest';
import { Batcher, placesOf, type BatchPlan } from '../../../../src/products/serve/batches/batcher.js';

const PLAN: BatchPlan = {
  maxBatch: 4,
  maxWaitMs: 0,
  maxQueue: 100,
  decodesAtOnce: 2,
  sessions: 1,
  runsAtOnce: 2,
};
const FOREVER = 10_000;
const never = new AbortController().signal;

interface Step<Input, Output> {
  readonly input: Input;
  readonly resolve: (output: Output) => void;
  readonly reject: (error: Error) => void;
}

/** A step that waits until the test lets it go on. */
class Steps<Input, Output> {
  readonly begun: Step<Input, Output>[] = [];

  readonly run = (input: Input): Promise<Output> =>
    new Promise((resolve, reject) => this.begun.push({ input, resolve, reject }));
}

/** Lets everything that is ready to run do so. */
async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
}

function open(plan: Partial<BatchPlan> = {}) {
  const runs = new Steps<string[], string[]>();
  const content = new Map<number, string>();
  const sizes: number[] = [];
  const work = {
    decode: async (image: string, place: number) => {
      await Promise.resolve();
      if (image.startsWith('bad')) throw new Error(`${image} is broken`);
      content.set(place, image);
    },
    run: async (places: readonly number[]) => {
      sizes.push(places.length);
      return runs.run(places.map((place) => content.get(place)!));
    },
  };
  const batcher = new Batcher<string, string>(work, { ...PLAN, ...plan });
  const finish = (): void => {
    for (const { input, resolve } of runs.begun.splice(0)) resolve(input.map((image) => `row of ${image}`));
  };
  return { batcher, runs, sizes, finish };
}

describe('Batcher', () => {
  it('runs the oldest image with those whose shapes are most like its own', async () => {
    const ran: string[][] = [];
    let end = (): void => undefined;
    const content = new Map<number, string>();
    const work = {
      decode: async (image: string, place: number) => void content.set(place, image),
      shapeOf: (place: number) => Number(content.get(place)),
      run: async (places: readonly number[]) => {
        const images = places.map((place) => content.get(place)!);
        ran.push(images);
        await new Promise<void>((resolve) => (end = resolve));
        return images;
      },
    };
    const plan = { ...PLAN, maxBatch: 2, runsAtOnce: 1, decodesAtOnce: 6 };
    const batcher = new Batcher<string, string>(work, plan);
    const rows = Promise.all(batcher.add(['50', '10', '49', '11', '90', '12'], never));
    for (let i = 0; i < 4; i++) {
      await settle();
      end();
    }
    expect(await rows).toEqual(['50', '10', '49', '11', '90', '12']);
    expect(ran).toEqual([['50'], ['10', '11'], ['49', '12'], ['90']]);
  });

  it('gives each image its own row, and runs no batch larger than allowed', async () => {
    const { batcher, sizes, finish } = open();
    const images = Array.from({ length: 11 }, (_, i) => `image ${i}`);
    const rows = Promise.all(batcher.add(images, never));
    while (batcher.queued + batcher.running > 0) {
      await settle();
      finish();
    }
    expect(await rows).toEqual(images.map((image) => `row of ${image}`));
    expect(Math.max(...sizes)).toBe(4);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(11);
  });

  it('lets a batch grow while all sessions are busy, and queues only full ones after them', async () => {
    const { batcher, runs, finish } = open();
    const first = batcher.add(['a'], never);
    await settle();
    const more = batcher.add(['b', 'c'], never);
    await settle();
    expect(runs.begun.map(({ input }) => input)).toEqual([['a']]);
    const rest = batcher.add(['d', 'e', 'f'], never);
    await settle();
    expect(runs.begun.map(({ input }) => input)).toEqual([['a'], ['b', 'c', 'd', 'e']]);
    finish();
    await settle();
    expect(runs.begun.map(({ input }) => input)).toEqual([['f']]);
    finish();
    expect(await Promise.all([...first, ...more, ...rest])).toHaveLength(6);
  });

  it('waits for a full batch as long as it may, and not at all when it drains', async () => {
    const { batcher, runs, finish } = open({ maxWaitMs: FOREVER });
    const rows = batcher.add(['a', 'b'], never);
    await settle();
    expect(runs.begun).toEqual([]);
    const drained = batcher.drain();
    await settle();
    expect(runs.begun.map(({ input }) => input)).toEqual([['a', 'b']]);
    finish();
    await drained;
    expect(await Promise.all(rows)).toEqual(['row of a', 'row of b']);
    expect([batcher.queued, batcher.running]).toEqual([0, 0]);
  });

  it('runs what is there when the first image has waited long enough', async () => {
    const { batcher, runs, finish } = open({ maxWaitMs: 1 });
    const rows = batcher.add(['a'], never);
    while (runs.begun.length === 0) await settle();
    finish();
    expect(await Promise.all(rows)).toEqual(['row of a']);
  });

  it('keeps the error of one image from the others of its batch', async () => {
    const { batcher, runs, finish } = open();
    const rows = batcher.add(['a', 'bad b', 'c'], never);
    const settled = Promise.allSettled(rows);
    while (batcher.queued + batcher.running > 0) {
      await settle();
      finish();
    }
    expect(
      (await settled).map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason))),
    ).toEqual(['row of a', 'Error: bad b is broken', 'row of c']);
    expect(runs.begun).toEqual([]);
  });

  it('fails the images of a run that fails, and goes on', async () => {
    const { batcher, runs, finish } = open();
    const failed = Promise.allSettled(batcher.add(['a', 'b'], never));
    await settle();
    for (const { reject } of runs.begun.splice(0)) reject(new Error('out of memory'));
    await settle();
    for (const { reject } of runs.begun.splice(0)) reject(new Error('out of memory'));
    expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    const rows = batcher.add(['c'], never);
    await settle();
    finish();
    expect(await Promise.all(rows)).toEqual(['row of c']);
  });

  it('takes all images of a request or none, and room comes back', async () => {
    const { batcher, finish } = open({ maxQueue: 3 });
    const rows = batcher.add(['a', 'b'], never);
    expect(() => batcher.add(['c', 'd'], never)).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    rows.push(...batcher.add(['c'], never));
    expect(batcher.isFull).toBe(true);
    while (batcher.queued + batcher.running > 0) {
      await settle();
      finish();
    }
    expect(await Promise.all(rows)).toHaveLength(3);
    const again = batcher.add(['d', 'e', 'f'], never);
    while (batcher.queued + batcher.running > 0) {
      await settle();
      finish();
    }
    expect(await Promise.all(again)).toHaveLength(3);
  });

  it('drops what has not begun when its request is given up, and keeps its places', async () => {
    const { batcher, runs, finish } = open({ maxWaitMs: FOREVER });
    const images = Array.from({ length: 3 }, (_, i) => `image ${i}`);
    // As many times as there are places: one that is lost at each would stop the last.
    for (let i = 0; i < placesOf(PLAN); i++) {
      const leaving = new AbortController();
      const rows = Promise.allSettled(batcher.add(images, leaving.signal));
      if (i % 2 === 0) await settle();
      leaving.abort(new Error('gone'));
      for (const one of await rows) expect(one).toMatchObject({ reason: { message: 'gone' } });
      await settle();
      expect(batcher.queued).toBe(0);
    }
    expect(runs.begun).toEqual([]);
    const rows = batcher.add(['a', 'b', 'c', 'd'], never);
    await settle();
    finish();
    expect(await Promise.all(rows)).toEqual(['row of a', 'row of b', 'row of c', 'row of d']);
  });

  it('refuses a request that is given up already', async () => {
    const { batcher } = open();
    const gone = AbortSignal.abort(new Error('gone'));
    await expect(Promise.all(batcher.add(['a'], gone))).rejects.toThrow('gone');
    expect(batcher.queued).toBe(0);
  });
});
