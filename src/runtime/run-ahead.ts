/** Runs that overlap with the reading of what they run on. */

/** Runs something on each item, in order; the next item is read meanwhile. */
export async function* runAhead<Item, Result>(
  items: AsyncIterable<Item>,
  run: (item: Item) => Promise<Result>,
): AsyncGenerator<readonly [Item, Result]> {
  let running: Promise<readonly [Item, Result]> | undefined;
  for await (const item of items) {
    const before = running;
    running = run(item).then((result) => [item, result] as const);
    // The failure is handled one item later; until then it must not count as unhandled.
    running.catch(() => undefined);
    if (before) yield await before;
  }
  if (running) yield await running;
}
