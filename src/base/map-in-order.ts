/** Works on several items of a stream at once, and gives the results in the order of the items. */

/** Processes `atOnce` items at a time. When the consumer stops or an item fails, no further one is taken, and work in progress is awaited. */
export async function* mapInOrder<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const open: Promise<Result>[] = [];
  try {
    for await (const item of items) {
      const result = work(item);
      // Awaited in order below; until then a failure must not count as unhandled.
      result.catch(() => undefined);
      open.push(result);
      if (open.length >= atOnce) yield await open.shift()!;
    }
    while (open.length > 0) yield await open.shift()!;
  } finally {
    await Promise.allSettled(open);
  }
}
