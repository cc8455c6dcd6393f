/** Notices when a source pauses, so that its items need not wait for more items. */

/** Marks a pause between the items of a source. */
export const PAUSE: unique symbol = Symbol('pause');

/**
 * Yields the items of a source, and {@link PAUSE} when an item has waited too long. Leaving the loop closes the source.
 *
 * @param maxWaitMs - The longest time that an item waits for others.
 * @param waitingSince - The time from which the oldest item waits (`performance.now()`); undefined if no item waits.
 */
export async function* withPauses<Item>(
  source: AsyncIterable<Item> | Iterable<Item>,
  maxWaitMs: number,
  waitingSince: () => number | undefined,
): AsyncGenerator<Item | typeof PAUSE> {
  const iterator =
    Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let isDone = false;
  try {
    for (;;) {
      const coming = Promise.resolve(iterator.next());
      const since = waitingSince();
      if (since !== undefined && (await isLate(coming, since + maxWaitMs))) yield PAUSE;
      // Set before next() can throw: a source that has failed is not closed.
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

/** Whether a promise is still pending at a deadline. Ignores how it settles. */
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
