/** When a run saves what it has done, with a clock that stands still. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { savingInTime, type Saver } from '../../../src/datasets/embed/save-in-time.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Keeps times at which it saved. */
class Kept implements Saver {
  unsavedSince: number | undefined;
  readonly saved: number[] = [];

  done(): void {
    this.unsavedSince ??= performance.now();
  }

  save(): Promise<void> {
    this.saved.push(Math.round(performance.now() - start));
    this.unsavedSince = undefined;
    return Promise.resolve();
  }
}

let start: number;
beforeEach(() => void (start = performance.now()));

/** An item after each of some waits, in milliseconds. */
async function* itemsAfter(waits: readonly number[]): AsyncGenerator<number> {
  for (const ms of waits) {
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
    yield ms;
  }
}

async function run(waits: readonly number[], mostMs: number, eachMs = 0): Promise<number[]> {
  const kept = new Kept();
  const all = (async () => {
    for await (const _ of savingInTime(itemsAfter(waits), kept, mostMs)) {
      if (eachMs > 0) await new Promise((resolve) => setTimeout(resolve, eachMs));
      kept.done();
    }
  })();
  await vi.advanceTimersByTimeAsync(100_000);
  await all;
  return kept.saved;
}

describe('savingInTime', () => {
  it('saves what is old enough while items come, and waits for those that are not', async () => {
    // Done at 10, 20, 30 …
    expect(await run(Array(10).fill(10), 35)).toEqual([45, 85]);
    expect(await run([10, 10], 35)).toEqual([]);
  });

  it('saves in time while the next item is long in coming', async () => {
    expect(await run([10, 5, 5000, 10], 60)).toEqual([70]);
  });

  it('saves although items are always there', async () => {
    expect(await run(Array(6).fill(0), 15, 10)).toEqual([30, 60]);
  });

  it('saves after each item if nothing may be lost', async () => {
    expect(await run([10, 10, 10], 0)).toEqual([10, 20, 30]);
  });

  it('ends its source, and does not wait for it if nothing can be saved', async () => {
    const end = vi.fn();
    async function* source(): AsyncGenerator<number> {
      try {
        yield 1;
        await new Promise(() => undefined);
      } finally {
        end();
      }
    }
    for await (const _ of savingInTime(source(), new Kept(), 10)) break;
    await Promise.resolve();
    expect(end).toHaveBeenCalledOnce();
    const full = new Kept();
    full.save = () => Promise.reject(new Error('full'));
    const reading = (async () => {
      for await (const _ of savingInTime(source(), full, 10)) full.done();
    })();
    const ended = expect(reading).rejects.toThrow('full');
    await vi.advanceTimersByTimeAsync(100);
    await ended;
  });
});
