/** Saving what a run has done before it is older than it may be, whatever the run waits for. */

/** Something that keeps what was done until it is saved. */
export interface Saver {
  /** When the oldest of what is not saved was done (`performance.now`); undefined if all is saved. */
  readonly unsavedSince: number | undefined;
  save(): Promise<void>;
}

/** Saves what is older than so many milliseconds. */
export async function saveOld(saver: Saver, mostMs: number): Promise<void> {
  if (leftMs(saver, mostMs) <= 0) await saver.save();
}

/** Passes items on. Saves what becomes too old before the next one is there: a source may pause for hours. */
export async function* savingInTime<Item>(
  items: AsyncGenerator<Item>,
  saver: Saver,
  mostMs: number,
): AsyncGenerator<Item> {
  try {
    for (;;) {
      await saveOld(saver, mostMs);
      const next = items.next();
      if (await isLate(next, leftMs(saver, mostMs))) await saver.save();
      const { done, value } = await next;
      if (done === true) return;
      yield value;
    }
  } finally {
    // Not awaited: it waits for an item that was asked for.
    void items.return(undefined);
  }
}

function leftMs({ unsavedSince }: Saver, mostMs: number): number {
  return unsavedSince === undefined ? Infinity : unsavedSince + mostMs - performance.now();
}

/** Whether a promise has not settled in time. */
function isLate(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = ms === Infinity ? undefined : setTimeout(resolve, ms, true);
    const settled = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    promise.then(settled, settled);
  });
}
