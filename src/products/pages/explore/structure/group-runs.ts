/** Long rows of nodes without modules → runs, so that a graph of thousands of nodes fits on a screen. */
import type { StructureNode } from './model-structure.js';

/** A box; its children are nodes by index, and boxes. */
export interface Box {
  readonly kind: 'module' | 'run';
  readonly name: string;
  /** The operators of a run, the most frequent ones first; empty for a module. */
  readonly about: string;
  children: (number | Box)[];
}

/** Nodes in a row that stay as they are. */
const MOST_IN_ROW = 40;
/** Operators that a run lists. */
const OPS_NAMED = 3;

/** Puts long rows of nodes into runs, which end where the fewest tensors pass. */
export function groupRuns(
  children: readonly (number | Box)[],
  nodes: readonly StructureNode[],
): (number | Box)[] {
  const grouped: (number | Box)[] = [];
  let row: number[] = [];
  const endRow = (): void => {
    grouped.push(...splitRow(row, nodes));
    row = [];
  };
  for (const child of children) {
    if (typeof child === 'number') row.push(child);
    else {
      endRow();
      grouped.push(child);
    }
  }
  endRow();
  return grouped;
}

function splitRow(row: readonly number[], nodes: readonly StructureNode[]): (number | Box)[] {
  const data = row.filter((index) => nodes[index]!.role === 'data').length;
  if (data <= MOST_IN_ROW) return [...row];
  const length = Math.ceil(row.length / Math.ceil(Math.sqrt(data)));
  const passing = countPassing(row, nodes);
  const runs: Box[] = [];
  for (let from = 0; from < row.length;) {
    const end = row.length - from < 1.5 * length ? row.length : bestEnd(passing, from, length);
    const members = row.slice(from, end);
    runs.push({ kind: 'run', ...describeRun(members, nodes), children: splitRow(members, nodes) });
    from = end;
  }
  return runs;
}

/** The number of tensors that pass after each position of a row. */
function countPassing(row: readonly number[], nodes: readonly StructureNode[]): Int32Array {
  const places = new Map(row.map((index, place) => [index, place]));
  const lastUse = new Int32Array(row.length).fill(-1);
  row.forEach((index, place) => {
    for (const [read] of nodes[index]!.reads) {
      const source = places.get(read);
      if (source !== undefined) lastUse[source] = place;
    }
  });
  const changes = new Int32Array(row.length + 1);
  lastUse.forEach((last, place) => {
    if (last <= place) return;
    changes[place]!++;
    changes[last]!--;
  });
  let count = 0;
  return changes.map((change) => (count += change));
}

/** Where a run of about a length ends: after the position that the fewest tensors pass, the nearest one to that length. */
function bestEnd(passing: Int32Array, from: number, length: number): number {
  const slack = Math.floor(length / 2);
  let best = from + length;
  for (let step = 1; step <= slack; step++)
    for (const end of [from + length + step, from + length - step])
      if (end < passing.length && passing[end - 1]! < passing[best - 1]!) best = end;
  return best;
}

function describeRun(row: readonly number[], nodes: readonly StructureNode[]): Pick<Box, 'name' | 'about'> {
  const data = row.map((index) => nodes[index]!).filter(({ role }) => role === 'data');
  const shown = data.length === 0 ? row.map((index) => nodes[index]!) : data;
  const counts = new Map<string, number>();
  for (const { op } of shown) counts.set(op, (counts.get(op) ?? 0) + 1);
  const ops = [...counts].toSorted((a, b) => b[1] - a[1]).map(([op]) => op);
  const about = `${ops.slice(0, OPS_NAMED).join(', ')}${ops.length > OPS_NAMED ? ', …' : ''}`;
  return { name: `${shown[0]!.name} … ${shown.at(-1)!.name}`, about };
}
