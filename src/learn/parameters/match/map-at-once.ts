/** Runs a step for every item, several at a time. Gives the results in order, or throws the first error: no further step starts then. */
export async function mapAtOnce<Item, Result>(
  items: readonly Item[],
  atOnce: number,
  step: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  // All workers take from one generator. The one that throws ends it.
  const left = entriesOf(items);
  const work = async (): Promise<void> => {
    for (const [i, item] of left) results[i] = await step(item);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return results;
}

function* entriesOf<Item>(items: readonly Item[]): Generator<[number, Item]> {
  yield* items.entries();
}
