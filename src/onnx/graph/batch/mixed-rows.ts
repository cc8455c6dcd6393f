/**
 * Finds the nodes at which the rows of a batch meet, so that a batch run in parts gives other numbers than the whole one. It reads the sizes
 * that tensors have for a number of rows that no other size has as a factor: they show where the rows are. What the sizes do not show is
 * not reported.
 */
import type { Node, Value } from '../graph.js';
import { operatorOf } from '../operators/operators.js';
import type { Cut } from '../rewrite/prune.js';
import type { Rewrite } from '../rewrite/rewrite.js';
import { nodeRoles } from '../roles.js';
import { BatchEdits } from './batch-edits.js';
import { trackCount, trackShape, trackSizes } from './batch-sizes.js';
import { BatchRefusal, BatchWalk, type BatchFacts } from './batch-walk.js';
import { meetsAlong } from './rows-along.js';

/** A prime number that no size of a network has as a factor. */
const PRIME = 10_007;

/** A number of rows that sizes show. Graphs that take rows in groups can divide it by all numbers to 10. */
export const MANY_ROWS: number = PRIME * 2520;

/** Where rows meet. */
export interface MixedRows {
  /** What the nodes do at which they meet, in execution order. */
  readonly nodes: ReadonlyMap<Node, string>;
  /** Outputs that have not one row per row of the batch on their first axis, although all their sizes are known. */
  readonly outputs: readonly Value[];
}

/**
 * Finds where rows meet.
 *
 * @param rewrite - One that only cuts.
 * @param facts - Sizes of tensors whose batched inputs have {@link MANY_ROWS} rows; undefined where they are not known.
 */
export function findMixedRows(rewrite: Rewrite, facts: BatchFacts): MixedRows {
  const { cut } = rewrite;
  const [input] = cut.inputs;
  if (!input) return { nodes: new Map(), outputs: [] };
  const search = new RowSearch(cut, new BatchWalk(cut, facts, new BatchEdits(rewrite, input), MANY_ROWS));
  return { nodes: search.findNodes(), outputs: search.findOutputs() };
}

class RowSearch {
  readonly #cut: Cut;
  readonly #walk: BatchWalk;
  readonly #roles: ReturnType<typeof nodeRoles>;

  constructor(cut: Cut, walk: BatchWalk) {
    this.#cut = cut;
    this.#walk = walk;
    this.#roles = nodeRoles(cut.graph);
  }

  findNodes(): Map<Node, string> {
    const needed = contentOf(this.#cut);
    const found = new Map<Node, string>();
    for (const value of this.#cut.inputs) this.#mark(undefined, value);
    for (const node of this.#cut.graph.nodes) {
      if (!this.#cut.nodes.has(node)) continue;
      this.#trackSizes(node);
      for (const value of node.outputs) if (value) this.#mark(node, value);
      const reason = needed.has(node) && this.#roles.get(node) === 'data' ? this.#reasonOf(node) : undefined;
      if (reason !== undefined) found.set(node, reason);
    }
    return found;
  }

  findOutputs(): Value[] {
    return this.#cut.outputs.flatMap(({ value }) => {
      const dims = this.#walk.facts.dimsOf(value);
      return dims && dims[0] !== MANY_ROWS ? [value] : [];
    });
  }

  /** Records the only axis of a tensor that has the rows. */
  #mark(node: Node | undefined, value: Value): void {
    const dims = this.#walk.facts.dimsOf(value);
    const [axis, ...others] = rowAxes(dims);
    if (axis === undefined || others.length > 0 || dims![axis]! % MANY_ROWS !== 0) return;
    const at = { axis, outer: 1, inner: dims![axis]! / MANY_ROWS };
    if (node) this.#walk.setAxis(node, value, at);
    else this.#walk.start(value);
  }

  /** Follows the number of rows through shape arithmetic. */
  #trackSizes(node: Node): void {
    try {
      if (node.domain !== '') return;
      if (node.opType === 'Shape') trackShape(this.#walk, node);
      else if (node.opType === 'Size') trackCount(this.#walk, node);
      else trackSizes(this.#walk, node);
    } catch (error) {
      // It does not know what becomes of the number.
      if (!(error instanceof BatchRefusal)) throw error;
    }
  }

  /** What a node does with several rows; undefined if nothing shows that it does. */
  #reasonOf(node: Node): string | undefined {
    const operator = operatorOf(node);
    if (!operator || node.scanned.bodies) return undefined;
    if (operator.sharesScale) return 'takes one scale for all rows';
    // CastLike reads only the type of its second input.
    const inputs = node.opType === 'CastLike' ? node.inputs.slice(0, 1) : node.inputs;
    const hasRows = inputs.some(
      (value) => value && this.#isData(value) && rowAxes(this.#walk.facts.dimsOf(value)).length > 0,
    );
    if (!hasRows) return undefined;
    for (const output of node.outputs) {
      const dims = this.#walk.isUsed(output) ? this.#walk.facts.dimsOf(output) : undefined;
      if (!dims) continue;
      const axes = rowAxes(dims);
      if (axes.length > 1) return 'compares each row with each other';
      if (axes.length === 0) return 'makes one result of all rows, or takes some of them';
    }
    const isCounting =
      (operator.sizes === 'broadcast' || operator.sizes === 'elementwise') &&
      node.inputs.some((value) => value && !this.#isData(value) && this.#countsRows(value));
    if (isCounting) return 'computes with the number of rows';
    return meetsAlong(this.#walk, node, (value) => this.#isData(value))
      ? 'works along the axis of the rows'
      : undefined;
  }

  #countsRows(value: Value): boolean {
    return this.#walk.entriesOf(value)?.includes('batch') === true;
  }

  /** Whether a value follows from the content of an input. */
  #isData({ producer, initializer }: Value): boolean {
    return producer ? this.#roles.get(producer) === 'data' : !initializer;
  }
}

/** The axes that grow with the rows. */
function rowAxes(dims: readonly number[] | undefined): number[] {
  return (dims ?? []).flatMap((size, axis) => (size > 0 && size % PRIME === 0 ? [axis] : []));
}

/** The nodes whose results reach an output with their elements, not with their sizes only. */
function contentOf({ outputs, nodes }: Cut): Set<Node> {
  const found = new Set<Node>();
  const queue = outputs.map(({ value }) => value);
  for (const { producer } of queue) {
    if (!producer || !nodes.has(producer) || found.has(producer)) continue;
    found.add(producer);
    if (!operatorOf(producer)?.readsOnlySizes) queue.push(...producer.reads);
  }
  return found;
}
