/**
 * Where a graph can be cut into stages that run one after the other. Nodes are put in a line; a place on it separates the nodes
 * in front from those behind, and the tensors that cross it are what the later stages take. Pure.
 */
import type { Node, Value } from '../graph.js';
import { nodeRoles } from '../roles.js';
import type { Cut } from '../rewrite/prune.js';

/** The places that a tensor crosses: it is computed in front of them, or a graph input, and read behind. */
export interface Span {
  readonly value: Value;
  /** The first place. */
  readonly first: number;
  readonly last: number;
  /**
   * The last place behind which nodes compute with the data that it holds. Less than `first` for sizes, a few integers, and for tensors of
   * which only the sizes are read behind: later stages compute sizes again, or take them.
   */
  readonly lastData: number;
}

/** The nodes that depend on an input, in an order in which they can run. Place `i` lies behind node `i`, and in front of node `i + 1`. */
export interface CutLine {
  readonly nodes: readonly Node[];
  /** What crosses places, in execution order. */
  readonly spans: readonly Span[];
}

/**
 * Puts the nodes of a cut in a line: in execution order, except that all nodes that do not depend on a cut point run before it.
 * So each cut point is a place that one tensor crosses. Nodes that depend on no input belong to their readers, and are left out.
 *
 * A cut point is a tensor that alone separates the graph: what depends on it depends on no input in any other way. Found with
 * dominators (Cooper, Harvey and Kennedy), in the time of one walk.
 */
export function lineUp(cut: Cut): CutLine {
  const reached = dependents(cut);
  const rank = rankNodes(cut, reached);
  const nodes = [...reached.nodes].toSorted((a, b) => rank.get(a)! - rank.get(b)! || a.index - b.index);
  return { nodes, spans: spansOf(cut, nodes, reached.values) };
}

/** What depends on an input, its size included. */
interface Dependents {
  /** In execution order. */
  readonly nodes: ReadonlySet<Node>;
  readonly values: ReadonlySet<Value>;
}

function dependents(cut: Cut): Dependents {
  const values = new Set(cut.inputs);
  const nodes = new Set<Node>();
  for (const node of cut.graph.nodes) {
    if (!cut.nodes.has(node) || !node.reads.some((value) => values.has(value))) continue;
    nodes.add(node);
    for (const output of node.outputs) if (output) values.add(output);
  }
  return { nodes, values };
}

function spansOf(cut: Cut, nodes: readonly Node[], values: ReadonlySet<Value>): Span[] {
  const roles = nodeRoles(cut.graph);
  const lastUse = new Map<Value, number>();
  /** Of data, by nodes that compute data. */
  const lastDataUse = new Map<Value, number>();
  for (const [i, node] of nodes.entries()) {
    const isData = roles.get(node) === 'data';
    for (const value of node.reads) {
      if (!values.has(value)) continue;
      lastUse.set(value, i);
      if (isData && (!value.producer || roles.get(value.producer) === 'data')) lastDataUse.set(value, i);
    }
  }
  const spanOf = (value: Value, first: number): Span[] => {
    const last = (lastUse.get(value) ?? 0) - 1;
    return last < first ? [] : [{ value, first, last, lastData: (lastDataUse.get(value) ?? 0) - 1 }];
  };
  return [
    ...cut.inputs.flatMap((value) => spanOf(value, 0)),
    ...nodes.flatMap((node, i) => node.outputs.flatMap((value) => (value ? spanOf(value, i) : []))),
  ];
}

/** A value or a node in the tree of dominators: its parent is the nearest one through which all ways from the inputs lead. */
interface Place {
  readonly parent: Place | undefined;
  readonly depth: number;
  /** A place far above, so that a climb takes few steps (Myers, "An applicative random-access stack"); the root has none. */
  readonly jump: Place | undefined;
  /** The value; undefined for a node and for the root. */
  readonly value: Value | undefined;
  /** Edges from here or below to what is not below. Such a place does not separate. */
  leaks: number;
  /** Nodes below. */
  nodes: number;
  /** Cut points on the way from the root, this one included. */
  rank: number;
}

/** For each node, the number of cut points in front of it. */
function rankNodes(cut: Cut, { nodes, values }: Dependents): Map<Node, number> {
  const below = (parent: Place | undefined, value?: Value): Place => {
    const depth = parent ? parent.depth + 1 : 0;
    const place = { parent, depth, jump: jumpFrom(parent), value, leaks: 0, nodes: 0, rank: 0 };
    places.push(place);
    return place;
  };
  const places: Place[] = [];
  const root = below(undefined);
  const placeOf = new Map<Value | Node, Place>();
  for (const value of cut.inputs) placeOf.set(value, below(root, value));
  for (const node of nodes) {
    const reads = node.reads.filter((value) => values.has(value)).map((value) => placeOf.get(value)!);
    const parent = reads.reduce((a, b) => meet(a, b));
    const place = below(parent);
    place.nodes = 1;
    placeOf.set(node, place);
    for (const read of reads) {
      read.leaks++;
      parent.leaks--;
    }
    for (const output of node.outputs) if (output) placeOf.set(output, below(place, output));
  }
  for (const place of places.toReversed()) {
    if (!place.parent) continue;
    place.parent.leaks += place.leaks;
    place.parent.nodes += place.nodes;
  }
  rankPlaces(cut, places);
  return new Map([...nodes].map((node) => [node, placeOf.get(node)!.rank]));
}

function jumpFrom(parent: Place | undefined): Place | undefined {
  const far = parent?.jump;
  return far?.jump && parent!.depth - far.depth === far.depth - far.jump.depth ? far.jump : parent;
}

/** The place above at a depth; the place itself if it is not deeper. */
function climb(place: Place, depth: number): Place {
  let at = place;
  while (at.depth > depth) at = at.jump!.depth < depth ? at.parent! : at.jump!;
  return at;
}

function meet(a: Place, b: Place): Place {
  let [one, other] = [climb(a, b.depth), climb(b, a.depth)];
  while (one !== other) {
    // Places of the same depth jump equally far.
    const [next, otherNext] = one.jump === other.jump ? [one.parent, other.parent] : [one.jump, other.jump];
    [one, other] = [next!, otherNext!];
  }
  return one;
}

/** Numbers the cut points on the trunk: where the graph forks into parts that never meet, on the larger one. */
function rankPlaces(cut: Cut, places: readonly Place[]): void {
  const ends = new Set([...cut.inputs, ...cut.outputs.map((output) => output.value)]);
  const isPoint = ({ value, leaks, nodes }: Place): boolean =>
    value !== undefined && leaks === 0 && nodes > 0 && !ends.has(value);
  const trunk = new Set<Place>();
  let last: Place | undefined;
  for (const place of places.filter(isPoint).toSorted((a, b) => b.nodes - a.nodes)) {
    if (last && climb(place, last.depth) !== last) continue;
    trunk.add(place);
    last = place;
  }
  for (const place of places) place.rank = (place.parent?.rank ?? 0) + (trunk.has(place) ? 1 : 0);
}
