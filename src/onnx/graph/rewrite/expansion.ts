/** What a session opens: ONNX Runtime puts the nodes of functions in the place of their calls, and looks at those in bodies. */
import { operatorKey, type CountedOperator } from '../../file/scan/scan-body.js';
import type { Cut } from './prune.js';
import { reachFunctions } from './prune.js';

/** How large a graph becomes. */
export interface Expansion {
  /** Nodes, those of bodies included. A few functions that call each other twice make more of them than a number can count. */
  readonly nodes: number;
  /** How deep functions call functions. */
  readonly depth: number;
}

/** Measures the expansion of a cut from the calls that its functions make, without expanding them. Throws `GRAPH_INVALID`. */
export function measureExpansion({ graph, nodes }: Pick<Cut, 'graph' | 'nodes'>): Expansion {
  const known = new Map<string, Expansion>();
  const sum = (operators: Iterable<readonly [string, number]>): Expansion => {
    let [total, depth] = [0, 0];
    for (const [key, count] of operators) {
      const called = known.get(key);
      total += count * (called?.nodes ?? 1);
      depth = Math.max(depth, called?.depth ?? 0);
    }
    return { nodes: total, depth };
  };
  const counted = (operators: ReadonlyMap<string, CountedOperator>): (readonly [string, number])[] =>
    Array.from(operators, ([key, { count }]) => [key, count] as const);
  for (const fn of reachFunctions(graph, nodes)) {
    const inside = sum(counted(fn.content.operators));
    known.set(operatorKey({ ...fn, opType: fn.name }), { ...inside, depth: inside.depth + 1 });
  }
  const calls = Array.from(nodes, (node) => [known.size === 0 ? '' : operatorKey(node), 1] as const);
  const inBodies = Array.from(nodes, ({ scanned }) => scanned.bodies?.operators ?? new Map()).flatMap(
    counted,
  );
  return sum([...calls, ...inBodies]);
}
