/** Notices when a source pauses, so that what it gave need not wait for more. */

/** Stands between the items of a source where it has paused. */
export const PAUSE: unique symbol = Symbol('pause');

/** When a source counts as pausing. */
export interface PausePlan {
  /** Longest time in milliseconds that an item waits for others. */
  readonly maxWaitMs: number;
  /** Since when the oldest item waits (`performance.now()`); undefined if none does. */
  readonly waitingSince: () => number | undefined;
}

/** The items of a source, with {@link PAUSE} in between where one has waited too long. Leaving the loop returns the source. */
export async function* withPauses<Item>(
  source: AsyncIterable<Item> | Iterable<Item>,
  { maxWaitMs, waitingSince }: PausePlan,
): AsyncGenerator<Item | typeof PAUSE> {
  const iterator =
    Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let isDone = false;
  try {
    for (;;) {
      const coming = Promise.resolve(iterator.next());
      const since = waitingSince();
      if (since !== undefined && (await isLate(coming, since + maxWaitMs))) yield PAUSE;
      // Set before it can throw: a source that has failed is not returned.
      isDone = true;
      const { done, value } = await coming;
      if (done === true) return;
      isDone = false;
      yield value;
    }
  } finally {
    if (!isDone) await iterator.return?.();
  }
}

/** Whether a promise has not settled by a time; what it settles to is left to others. */
function isLate(promise: Promise<unknown>, deadline: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(true), Math.max(0, deadline - performance.now()));
    const inTime = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    promise.then(inTime, inTime);
  });
}
