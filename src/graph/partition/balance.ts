/** Choosing where to cut a line of costs: the largest stage is as small as possible. Exact, by dynamic programming. Pure. */

/** A line of nodes with costs, and the places where it may be cut. */
export interface CostLine {
  /** Cost of each node. */
  readonly costs: readonly number[];
  /** The places, in order: how many nodes are in front of each, and what crossing it costs. */
  readonly places: readonly { readonly front: number; readonly bytes: number }[];
  /** Whether the nodes `[from, to)` fit into the memory of a stage. */
  readonly fits: (from: number, to: number, stage: number) => boolean;
}

/**
 * Cuts a line into stages.
 *
 * Of all ways with the least largest stage, one that crosses the fewest bytes.
 *
 * @param stages - How many, at least 1.
 * @returns The indices of the places in order, one fewer than stages; undefined if there is no way.
 */
export function balance(line: CostLine, stages: number): number[] | undefined {
  const { costs, places, fits } = line;
  const before = [0];
  for (const cost of costs) before.push(before.at(-1)! + cost);
  const ends = [...places.map(({ front }) => front), costs.length];
  const crossed = [...places.map(({ bytes }) => bytes), 0];
  const costOf = (from: number, to: number): number => before[to]! - before[from]!;
  const largest = cheapest(
    ends,
    stages,
    (from, to, stage) => (fits(from, ends[to]!, stage) ? costOf(from, ends[to]!) : Infinity),
    Math.max,
  );
  if (!largest) return undefined;
  const limit = largest.cost;
  const way = cheapest(
    ends,
    stages,
    (from, to, stage) =>
      costOf(from, ends[to]!) <= limit && fits(from, ends[to]!, stage) ? crossed[to]! : Infinity,
    (a, b) => a + b,
  );
  return way?.places;
}

/** A way to cut, and its cost. */
interface Way {
  readonly cost: number;
  readonly places: number[];
}

/**
 * The way with the least combined cost.
 *
 * @param ends - Where stages may end; the last entry is the end of the line.
 * @param costOf - The cost of a stage that starts at a node and ends at `ends[to]`; infinite if it must not be.
 */
function cheapest(
  ends: readonly number[],
  stages: number,
  costOf: (from: number, to: number, stage: number) => number,
  combine: (a: number, b: number) => number,
): Way | undefined {
  // best[s][i]: the stages up to s end at ends[i].
  let best: { readonly cost: number; readonly from: number }[] = ends.map((_, to) => ({
    cost: costOf(0, to, 0),
    from: -1,
  }));
  const table = [best];
  for (let stage = 1; stage < stages; stage++) {
    const previous = best;
    best = ends.map((_, to) => {
      let least = { cost: Infinity, from: -1 };
      for (let from = stage - 1; from < to; from++) {
        if (previous[from]!.cost >= least.cost) continue;
        const cost = combine(previous[from]!.cost, costOf(ends[from]!, to, stage));
        if (cost < least.cost) least = { cost, from };
      }
      return least;
    });
    table.push(best);
  }
  const { cost } = best.at(-1)!;
  if (cost === Infinity) return undefined;
  const places: number[] = [];
  let at = ends.length - 1;
  for (let stage = stages - 1; stage > 0; stage--) {
    at = table[stage]![at]!.from;
    places.unshift(at);
  }
  return { cost, places };
}
