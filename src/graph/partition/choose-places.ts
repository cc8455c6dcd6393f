/** Choosing the places at which a line is cut, by costs and under limits of memory. Pure. */
import type { Node, Value } from '../graph.js';
import { balance } from './balance.js';
import type { CutLine } from './cut-line.js';
import { impossible } from './stages.js';

/** What the choice depends on. */
export interface PlaceCosts {
  /** The number of stages. */
  readonly stages: number;
  /** The most tensors with data that may cross a place. */
  readonly maxTensors: number;
  /** Bytes that each stage may need; one limit for all, or one per stage; empty for no limit. */
  readonly limits: readonly number[];
  /** What is balanced. */
  readonly costOf: (node: Node) => number;
  /** The weights of a node with their bytes. */
  readonly weightsOf: (node: Node) => readonly { readonly value: Value; readonly bytes: number }[];
  /** Bytes of a tensor; undefined if it is none, and so cannot cross. */
  readonly bytesOf: (value: Value) => number | undefined;
}

/**
 * Chooses `stages − 1` places of a line: the largest stage is as small as possible.
 *
 * @returns Indices of places, in order.
 * @throws {@link TapirError} `SPLIT_IMPOSSIBLE` with the number of places that there are, or the memory that does not suffice.
 */
export function choosePlaces(line: CutLine, costs: PlaceCosts): number[] {
  const { stages, maxTensors, limits } = costs;
  if (limits.length > 1 && limits.length !== stages)
    throw impossible(`memoryBytes has ${limits.length} limits for ${stages} stages`);
  const bytes = line.places.map(({ crossing }) => sumOf(crossing, costs.bytesOf));
  const usableWith = (most: number): UsablePlace[] =>
    line.places.flatMap(({ front, data }, at) => {
      const crossed = bytes[at];
      return crossed !== undefined && data.length <= most ? [{ at, front, bytes: crossed }] : [];
    });
  const memoryOf = limits.length === 0 ? undefined : stageMemory(line, bytes, costs);
  const fits = (from: number, to: number, stage: number): boolean =>
    memoryOf === undefined || memoryOf(from, to) <= limits[limits.length > 1 ? stage : 0]!;
  const nodeCosts = line.nodes.map(costs.costOf);
  const before = runningSums(nodeCosts);
  const isWorth = (from: number, to: number): boolean => before.at(-1) === 0 || before[to]! > before[from]!;
  const chooseAmong = (places: readonly UsablePlace[], mayIdle: boolean): number[] | undefined => {
    const isFine = (from: number, to: number, stage: number): boolean =>
      (mayIdle || isWorth(from, to)) && fits(from, to, stage);
    return balance({ costs: nodeCosts, places, fits: isFine }, stages)?.map((place) => places[place]!.at);
  };
  const usable = usableWith(maxTensors);
  const chosen = usable.length < stages - 1 ? undefined : chooseAmong(usable, false);
  if (chosen) return chosen;
  const counts = new Set(line.places.map(({ data }) => data.length));
  const enough = [...counts]
    .filter((count) => count > maxTensors)
    .toSorted((a, b) => a - b)
    .slice(0, WIDER_TRIES)
    .find((count) => usableWith(count).length >= stages - 1 && chooseAmong(usableWith(count), false));
  const advice = `ask for fewer stages${enough === undefined ? '' : `, or allow maxTensors ${enough}, which suffices`}`;
  if (usable.length < stages - 1)
    throw impossible(
      `there are ${usable.length} places that at most ${maxTensors} tensors cross, and ${stages} stages need ${stages - 1}; ${advice}`,
    );
  if (chooseAmong(usable, true))
    throw impossible(
      `at the places that at most ${maxTensors} tensors cross, one of ${stages} stages would compute nothing of what is balanced; ${advice}, or name the tensors to cut at (cuts)`,
    );
  const whole = memoryOf!(0, line.nodes.length);
  throw impossible(
    `no ${stages} stages keep to the memory given: the model needs ${whole} bytes on one device; use more stages, a smaller batch, or a larger maxTensors`,
  );
}

/** A place that may be chosen. */
interface UsablePlace {
  /** Its index on the line. */
  readonly at: number;
  readonly front: number;
  readonly bytes: number;
}

/** How many larger numbers of tensors an error tries out, for its advice. */
const WIDER_TRIES = 8;

/** The sum in front of each number, and of all. */
function runningSums(numbers: readonly number[]): number[] {
  const sums = [0];
  for (const number of numbers) sums.push(sums.at(-1)! + number);
  return sums;
}

function sumOf(values: readonly Value[], bytesOf: PlaceCosts['bytesOf']): number | undefined {
  let sum = 0;
  for (const value of values) {
    const bytes = bytesOf(value);
    if (bytes === undefined) return undefined;
    sum += bytes;
  }
  return sum;
}

/** The bytes that the nodes `[from, to)` need: their weights, each once, and the most that is alive at once. */
function stageMemory(
  { nodes }: CutLine,
  alive: readonly (number | undefined)[],
  { weightsOf }: PlaceCosts,
): (from: number, to: number) => number {
  /** By the first node: the memory for each end. */
  const rows = new Map<number, readonly number[]>();
  const rowOf = (from: number): readonly number[] => {
    const seen = new Set<Value>();
    let [weights, most] = [0, alive[from - 1] ?? 0];
    return nodes.slice(from).map((node, i) => {
      for (const { value, bytes } of weightsOf(node)) {
        if (!seen.has(value)) weights += bytes;
        seen.add(value);
      }
      most = Math.max(most, alive[from + i] ?? 0);
      return weights + most;
    });
  };
  return (from, to) => {
    const row = rows.get(from) ?? rowOf(from);
    rows.set(from, row);
    return row[to - from - 1]!;
  };
}
