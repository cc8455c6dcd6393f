/** Choosing the places at which a line is cut, by costs and under limits of memory. Pure. */
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { balance, type CostLine } from './balance.js';
import type { CutLine } from '../../../onnx/graph/cost/cut-line.js';
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
  const { bytes, tensors } = crossingFigures(line, costs.bytesOf);
  const usableWith = (most: number): UsablePlace[] =>
    bytes.flatMap((crossed, at) =>
      Number.isNaN(crossed) || tensors[at]! > most ? [] : [{ at, front: at + 1, bytes: crossed }],
    );
  const windows = new Map(limits.map((limit) => [limit, memoryWindows(line, bytes, costs, limit)]));
  const firstThatFits = (to: number, stage: number): number =>
    windows.get(limits[limits.length > 1 ? stage : 0]!)?.[to] ?? 0;
  const nodeCosts = line.nodes.map(costs.costOf);
  const isFree = nodeCosts.every((cost) => cost === 0);
  const chooseAmong = (places: readonly UsablePlace[], mayIdle: boolean): number[] | undefined =>
    balance({ costs: nodeCosts, places, firstThatFits, mayIdle: mayIdle || isFree }, stages)?.map(
      (place) => places[place]!.at,
    );
  const usable = usableWith(maxTensors);
  const chosen = usable.length < stages - 1 ? undefined : chooseAmong(usable, false);
  if (chosen) return chosen;
  const counts = new Set(tensors);
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
  const whole = wholeMemory(line, bytes, costs);
  throw impossible(
    `no ${stages} stages keep to the memory given: the model needs ${whole} bytes on one device; use more stages, a smaller batch, or a larger maxTensors`,
  );
}

/** A place that may be chosen. */
type UsablePlace = CostLine['places'][number] & { /** Its index on the line. */ readonly at: number };

/** How many larger numbers of tensors an error tries out, for its advice. */
const WIDER_TRIES = 8;

/** For each place of a line, what crosses it: bytes, NaN if something that is no tensor crosses, and the number of tensors with data. */
function crossingFigures(
  { nodes, spans }: CutLine,
  bytesOf: PlaceCosts['bytesOf'],
): { readonly bytes: readonly number[]; readonly tensors: readonly number[] } {
  const [bytes, others, tensors] = [1, 2, 3].map(() => nodes.map(() => 0)) as [number[], number[], number[]];
  const add = (to: number[], amount: number, first: number, last: number): void => {
    to[first]! += amount;
    to[last + 1]! -= amount;
  };
  for (const { value, first, last, lastData } of spans) {
    const size = bytesOf(value);
    if (size === undefined) add(others, 1, first, last);
    else add(bytes, size, first, last);
    if (lastData >= first) add(tensors, 1, first, lastData);
  }
  for (const changes of [bytes, others, tensors])
    for (let i = 1; i < changes.length; i++) changes[i]! += changes[i - 1]!;
  const places = nodes.length - 1;
  return {
    bytes: bytes.slice(0, places).map((sum, at) => (others[at] === 0 ? sum : NaN)),
    tensors: tensors.slice(0, places),
  };
}

/** The bytes that all nodes need: their weights, each once, and the most that is alive at once. */
function wholeMemory({ nodes }: CutLine, alive: readonly number[], { weightsOf }: PlaceCosts): number {
  const weights = new Map(
    nodes.flatMap((node) => weightsOf(node).map(({ value, bytes }) => [value, bytes] as const)),
  );
  const most = alive.reduce((a, b) => Math.max(a, b || 0), 0);
  return [...weights.values()].reduce((a, b) => a + b, most);
}

/** For each end `to`, the first node from which the nodes up to it need at most `limit` bytes; `to` if not even one does. */
function memoryWindows(
  { nodes }: CutLine,
  alive: readonly number[],
  { weightsOf }: PlaceCosts,
  limit: number,
): readonly number[] {
  const readers = new Map<Value, number>();
  let weights = 0;
  /** Changes the number of nodes in the window that read the weights of a node. */
  const count = (node: Node, by: 1 | -1): void => {
    for (const { value, bytes } of weightsOf(node)) {
      const before = readers.get(value) ?? 0;
      if (before + Math.min(by, 0) === 0) weights += by * bytes;
      readers.set(value, before + by);
    }
  };
  const aliveAt = (place: number): number => alive[place] || 0;
  /** Places of the window, with less and less alive: the first has the most. */
  const peaks: number[] = [];
  let [head, from] = [0, 0];
  const windows = [0];
  for (const [i, node] of nodes.entries()) {
    count(node, 1);
    while (peaks.length > head && aliveAt(peaks.at(-1)!) <= aliveAt(i)) peaks.pop();
    peaks.push(i);
    for (; from <= i && weights + aliveAt(peaks[head]!) > limit; from++) {
      count(nodes[from]!, -1);
      // The place in front of the first node counts as well.
      while (peaks[head]! < from) head++;
    }
    windows.push(from);
  }
  return windows;
}
