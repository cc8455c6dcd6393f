/** Choosing where to cut a line of costs: the largest stage is as small as possible. Exact. Pure. */

/** A line of nodes with costs, and the places where it may be cut. */
export interface CostLine {
  /** Cost of each node, at least 0. */
  readonly costs: readonly number[];
  /** The places, in order: how many nodes are in front of each, and what crossing it costs. */
  readonly places: readonly { readonly front: number; readonly bytes: number }[];
  /** The first node from which the nodes up to `to`, without it, fit into the memory of a stage; grows with `to`. */
  readonly firstThatFits: (to: number, stage: number) => number;
  /** Whether a stage may cost nothing. */
  readonly mayIdle: boolean;
}

/**
 * Cuts a line into stages: of all ways with the least largest stage, one that crosses the fewest bytes. Takes the time of places × stages × 60.
 *
 * @returns The indices of the places in order, one fewer than stages; undefined if there is no way.
 */
export function balance(line: CostLine, stages: number): number[] | undefined {
  const before = [0];
  for (const cost of line.costs) before.push(before.at(-1)! + cost);
  const total = before.at(-1)!;
  const wayBelow = createSearch(line, before, stages);
  const largestOf = (way: readonly number[]): number => {
    const ends = [0, ...way.map((place) => line.places[place]!.front), line.costs.length];
    return ends.slice(1).reduce((most, end, i) => Math.max(most, before[end]! - before[ends[i]!]!), 0);
  };
  let way = wayBelow(total);
  if (!way) return undefined;
  let least = largestOf(way);
  // No way is below the mean. A cap that has a way falls to its largest stage, so the last one is exact.
  let tooSmall = total / (stages + 1);
  for (let cap = middleOf(tooSmall, least); cap > tooSmall && cap < least; cap = middleOf(tooSmall, least)) {
    const smaller = wayBelow(cap);
    if (smaller) [way, least] = [smaller, largestOf(smaller)];
    else tooSmall = cap;
  }
  // The last way found has the cap of an earlier search, and so may have been chosen among more.
  return wayBelow(least) ?? way;
}

function middleOf(a: number, b: number): number {
  return a + (b - a) / 2;
}

/**
 * The search for the way that crosses the fewest bytes, with no stage above a cap.
 *
 * Stages that may end at a place start in a window of places, and both its ends only move on: one walk with a queue of the window's
 * minima serves all places.
 */
function createSearch(
  { places, costs, firstThatFits, mayIdle }: CostLine,
  before: readonly number[],
  stages: number,
): (cap: number) => number[] | undefined {
  /** Where stages start and end; the line's own ends included. */
  const at = [0, ...places.map(({ front }) => front), costs.length];
  const crossed = [0, ...places.map(({ bytes }) => bytes), 0];
  const last = at.length - 1;
  /** By stage and end: the start that crosses the fewest bytes. */
  const starts = Array.from({ length: stages }, () => new Int32Array(at.length));
  const queue = new Int32Array(at.length);
  let [ended, ending] = [new Float64Array(at.length), new Float64Array(at.length)];

  const fill = (stage: number, cap: number): void => {
    let [head, tail, next, first] = [0, 0, 0, 0];
    ending[0] = Infinity;
    for (let to = 1; to <= last; to++) {
      const end = at[to]!;
      const costBefore = before[end]!;
      while (next < to && (mayIdle || before[at[next]!]! < costBefore)) {
        while (tail > head && ended[queue[tail - 1]!]! > ended[next]!) tail--;
        queue[tail++] = next++;
      }
      const fit = firstThatFits(end, stage);
      while (first < to && (at[first]! < fit || costBefore - before[at[first]!]! > cap)) first++;
      while (head < tail && queue[head]! < first) head++;
      ending[to] = head < tail ? ended[queue[head]!]! + crossed[to]! : Infinity;
      starts[stage]![to] = head < tail ? queue[head]! : -1;
    }
    [ended, ending] = [ending, ended];
  };

  return (cap) => {
    ended.fill(Infinity);
    ended[0] = 0;
    for (let stage = 0; stage < stages; stage++) fill(stage, cap);
    if (ended[last] === Infinity) return undefined;
    const way: number[] = [];
    for (let [stage, to] = [stages - 1, last]; stage > 0; stage--) {
      to = starts[stage]![to]!;
      way.push(to - 1);
    }
    return way.toReversed();
  };
}
