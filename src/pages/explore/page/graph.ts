/** The model as the picture needs it: who contains whom, and what data passes between. This file uses no part of the browser. */
import type { PageMeasure, PageModel } from './data.js';

/** A node by its index, a box by −1 − its index: as in {@link PageBox.children}. */
export type Id = number;

export const ROOT: Id = -1;

/** What flows from a box's entry or child to a child or its exit. */
export interface Flow {
  /** Position among the children; −1 is the entry. */
  readonly from: number;
  /** Position among the children; their number is the exit. */
  readonly to: number;
  /** Bytes of the tensors, each once; 0 while they are not known. */
  readonly bytes: number;
}

/** The kinds of cost. */
export type Metric = 'macs' | 'parameters' | 'bytes' | 'milliseconds';

/** Whether a softmax is attention among tokens: `[1, heads, tokens, tokens]`, or `[heads, tokens, tokens]`. */
export function isAttention(op: string, dims: readonly number[] | null | undefined): boolean {
  if (op !== 'Softmax' || !dims || dims.length < 3 || dims.length > 4) return false;
  return dims.at(-1) === dims.at(-2) && dims.at(-1)! > 4;
}

/** A model and its measure. */
export class ModelGraph {
  readonly model: PageModel;
  measure: PageMeasure | undefined;
  readonly #parents = new Map<Id, Id>();
  readonly #nodes = new Map<Id, readonly number[]>();
  readonly #users: readonly (readonly number[])[];
  readonly #flows = new Map<string, readonly Flow[]>();
  readonly #costs = new Map<string, number>();

  constructor(model: PageModel) {
    this.model = model;
    model.boxes.forEach(({ children }, box) => {
      for (const child of children) this.#parents.set(child, -1 - box);
    });
    const users: number[][] = model.nodes.map(() => []);
    model.nodes.forEach(({ reads }, i) => {
      for (const source of new Set(reads.map(([one]) => one))) users[source]?.push(i);
    });
    this.#users = users;
  }

  /** Takes the sizes and costs. */
  setMeasure(measure: PageMeasure): void {
    this.measure = measure;
    this.#flows.clear();
    this.#costs.clear();
  }

  parentOf(id: Id): Id | undefined {
    return this.#parents.get(id);
  }

  /** The boxes around an id, the innermost first. */
  above(id: Id): Id[] {
    const boxes: Id[] = [];
    for (let at = this.parentOf(id); at !== undefined; at = this.parentOf(at)) boxes.push(at);
    return boxes;
  }

  /** The nodes that read an output of a node. */
  usersOf(node: number): readonly number[] {
    return this.#users[node]!;
  }

  /** All nodes in a box, or the node itself. */
  nodesIn(id: Id): readonly number[] {
    if (id >= 0) return [id];
    let nodes = this.#nodes.get(id);
    if (!nodes) {
      nodes = this.model.boxes[-1 - id]!.children.flatMap((child) => this.nodesIn(child));
      this.#nodes.set(id, nodes);
    }
    return nodes;
  }

  isHidden(id: Id): boolean {
    return this.nodesIn(id).every((node) => this.model.nodes[node]!.role !== 'data');
  }

  /** The children of a box that are shown. */
  childrenOf(box: Id, withAside: boolean): readonly Id[] {
    const { children } = this.model.boxes[-1 - box]!;
    return withAside ? children : children.filter((child) => !this.isHidden(child));
  }

  /** The name that a person reads. */
  nameOf(id: Id): string {
    return id >= 0 ? this.model.nodes[id]!.name : this.model.boxes[-1 - id]!.name;
  }

  /** The tensor that the name denotes: a node and the number of its output. */
  valueOf(id: Id): readonly [node: number, output: number] | undefined {
    if (id < 0) return this.model.boxes[-1 - id]!.value ?? undefined;
    return [id, 0];
  }

  /** The name to request; undefined for runs and for refused names. */
  requestOf(id: Id): string | undefined {
    if (id >= 0) return this.model.nodes[id]!.outputs.find(({ request }) => request !== '')?.request;
    const box = this.model.boxes[-1 - id]!;
    return box.kind === 'module' && box.value ? box.name : undefined;
  }

  /** The sizes of what an id denotes, of a run those of its last node. */
  dimsOf(id: Id): readonly (number | string | null)[] | null {
    const [node, output] = this.valueOf(id) ?? [this.lastData(id), 0];
    if (node === undefined) return null;
    return this.measure?.dims[node]?.[output] ?? this.model.nodes[node]!.outputs[output]?.dims ?? null;
  }

  /** {@link dimsOf} without the batch. Exporters put other axes first, too. */
  innerDimsOf(id: Id): readonly (number | string | null)[] | null {
    return this.withoutBatch(this.dimsOf(id));
  }

  /** Sizes without their first axis, if that is as long as the batch. */
  withoutBatch(dims: readonly (number | string | null)[] | null): readonly (number | string | null)[] | null {
    if (!dims || dims.length < 2) return dims;
    const stated = this.model.inputs.find((input) => input.dims?.length)?.dims?.[0];
    // An open batch is measured with one row.
    const batch = typeof dims[0] === 'number' && typeof stated !== 'number' ? 1 : stated;
    return dims[0] === batch ? dims.slice(1) : dims;
  }

  lastData(id: Id): number | undefined {
    return this.nodesIn(id).findLast((node) => this.model.nodes[node]!.role === 'data');
  }

  /** What a node or a box costs; weights that several nodes read count once. */
  costOf(id: Id, metric: Metric): number {
    const key = `${metric} ${id}`;
    let cost = this.#costs.get(key);
    if (cost === undefined) this.#costs.set(key, (cost = this.#sum(id, metric)));
    return cost;
  }

  #sum(id: Id, metric: Metric): number {
    const nodes = this.nodesIn(id);
    if (metric === 'parameters') {
      const weights = new Set(nodes.flatMap((node) => this.model.nodes[node]!.weights));
      return [...weights].reduce((sum, weight) => sum + this.model.weights[weight]![0], 0);
    }
    const { measure } = this;
    const costs =
      metric === 'macs' ? measure?.macs : metric === 'milliseconds' ? measure?.milliseconds : undefined;
    return nodes.reduce((sum, node) => {
      if (metric === 'bytes')
        return sum + (measure?.bytes[node] ?? []).reduce((total, bytes) => total + bytes, 0);
      return sum + (costs?.[node] ?? 0);
    }, 0);
  }

  /** What flows between the shown children of a box, from its entry and to its exit. */
  flowsOf(box: Id, withAside: boolean): readonly Flow[] {
    const key = `${withAside} ${box}`;
    let flows = this.#flows.get(key);
    if (!flows) this.#flows.set(key, (flows = this.#findFlows(box, withAside)));
    return flows;
  }

  #findFlows(box: Id, withAside: boolean): Flow[] {
    const children = this.childrenOf(box, withAside);
    const places = new Map<number, number>();
    children.forEach((child, place) => {
      for (const node of this.nodesIn(child)) places.set(node, place);
    });
    const tensors = new Map<string, Set<string>>();
    const add = (from: number, to: number, tensor: string): void => {
      if (from === to) return;
      const key = `${from} ${to}`;
      const found = tensors.get(key);
      if (found) found.add(tensor);
      else tensors.set(key, new Set([tensor]));
    };
    const outputs = new Set(this.model.outputs.map(([node]) => node));
    const isInside = (node: number): boolean => places.has(node);
    for (const [node, place] of places) {
      const { reads, role } = this.model.nodes[node]!;
      if (role !== 'data' && !withAside) continue;
      for (const [source, output] of reads) {
        const from = places.get(source) ?? -1;
        if (from >= 0 || this.#carriesData(source, withAside)) add(from, place, `${source}:${output}`);
      }
      const leaves =
        outputs.has(node) ||
        this.usersOf(node).some((user) => !isInside(user) && this.#carriesData(user, withAside));
      if (leaves) add(place, children.length, `${node}:0`);
    }
    return [...tensors].map(([key, carried]) => {
      const [from, to] = key.split(' ').map(Number) as [number, number];
      return { from, to, bytes: [...carried].reduce((sum, tensor) => sum + this.#bytesOf(tensor), 0) };
    });
  }

  #carriesData(source: number, withAside: boolean): boolean {
    return source < 0 || withAside || this.model.nodes[source]!.role === 'data';
  }

  #bytesOf(tensor: string): number {
    const [node, output] = tensor.split(':').map(Number) as [number, number];
    return this.measure?.bytes[node]?.[output] ?? 0;
  }
}
