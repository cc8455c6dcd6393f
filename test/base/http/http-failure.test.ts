import { describe, expect, it } from 'vitest';
import { HttpFailure, retryTransient } from '../../../src/base/http/http-failure.js';

/** A step that fails with each error in turn, then succeeds. */
function failing(...errors: Error[]): { step: () => Promise<string>; count: () => number } {
  let calls = 0;
  const step = async (): Promise<string> => {
    const error = errors[calls++];
    if (error) throw error;
    return Promise.resolve('done');
  };
  return { step, count: () => calls };
}

const transient = new HttpFailure('transient', 'the server answers 503');

describe('retryTransient', () => {
  it('tries again after transient failures, as often as there are pauses', async () => {
    const twice = failing(transient, transient);
    expect(await retryTransient([0, 0], undefined, twice.step)).toBe('done');
    expect(twice.count()).toBe(3);
    const often = failing(transient, transient, transient);
    await expect(retryTransient([0, 0], undefined, often.step)).rejects.toMatchObject({
      kind: 'transient',
      message: 'the server answers 503 (3 attempts)',
      cause: transient,
    });
    await expect(retryTransient([], undefined, failing(transient).step)).rejects.toBe(transient);
  });

  it('does not try again after other failures', async () => {
    const missing = new HttpFailure('failed', 'the server answers 404');
    const first = failing(missing);
    await expect(retryTransient([0, 0], undefined, first.step)).rejects.toBe(missing);
    expect(first.count()).toBe(1);
    await expect(retryTransient([0, 0], undefined, failing(transient, missing).step)).rejects.toMatchObject({
      kind: 'failed',
      message: 'the server answers 404 (2 attempts)',
    });
    const other = new RangeError('x');
    await expect(retryTransient([0], undefined, failing(transient, other).step)).rejects.toBe(other);
  });

  it('waits as long as the server asks for, up to two minutes', async () => {
    const busy = new HttpFailure('transient', 'busy', { retryAfterMs: 150 });
    const since = performance.now();
    expect(await retryTransient([0], undefined, failing(busy).step)).toBe('done');
    expect(performance.now() - since).toBeGreaterThan(140);
    const long = failing(new HttpFailure('transient', 'busy', { status: 503, retryAfterMs: 3_600_000 }));
    await expect(retryTransient([0, 0], undefined, long.step)).rejects.toMatchObject({
      message: 'busy, and asks to wait 3600 s',
      status: 503,
    });
    expect(long.count()).toBe(1);
  });

  it('ends a pause with the reason of the signal', async () => {
    const abort = new AbortController();
    setTimeout(() => abort.abort(new Error('stopped')), 20);
    const { step, count } = failing(transient, transient);
    await expect(retryTransient([60_000], abort.signal, step)).rejects.toThrow('stopped');
    await expect(retryTransient([0], abort.signal, step)).rejects.toThrow('stopped');
    expect(count()).toBe(1);
  });
});
