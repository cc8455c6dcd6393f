/** The model as the picture needs it: who contains whom, and what data passes between. This file uses no part of the browser. */
import type {
  ModelMeasure,
  ModelStructure,
  StatedDims,
  StatedTensor,
  ValuePlace,
} from '../structure/model-structure.js';

/** A node by its index, a value after the nodes, a box by −1 − its index: as in {@link StructureBox.children}. */
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
function isAttention(op: string, dims: readonly number[] | null | undefined): boolean {
  if (op !== 'Softmax' || !dims || dims.length < 3 || dims.length > 4) return false;
  return dims.at(-1) === dims.at(-2) && dims.at(-1)! > 4;
}

/** A model and its measure. */
export class ModelGraph {
  readonly model: ModelStructure;
  measure: ModelMeasure | undefined;
  readonly #parents = new Map<Id, Id>();
  readonly #nodes = new Map<Id, readonly number[]>();
  readonly #users: readonly (readonly number[])[];
  /** Tensors that a node reads or the model gives. */
  readonly #used: ReadonlySet<string>;
  /** The first input that each node needs, as in {@link ValuePlace}; −Infinity without one. */
  readonly #firstInputs: number[] = [];
  readonly #flows = new Map<string, readonly Flow[]>();
  readonly #costs = new Map<string, number>();

  constructor(model: ModelStructure) {
    this.model = model;
    model.boxes.forEach(({ children }, box) => {
      for (const child of children) this.#parents.set(child, -1 - box);
    });
    const users: number[][] = model.nodes.map(() => []);
    model.nodes.forEach(({ reads }, i) => {
      for (const source of new Set(reads.map(([one]) => one))) users[source]?.push(i);
      this.#firstInputs.push(reads.reduce((first, [one]) => Math.max(first, this.#inputOf(one)), -Infinity));
    });
    this.#users = users;
    this.#used = new Set([...model.nodes.flatMap(({ reads }) => reads), ...model.outputs].map(String));
  }

  /** Takes the sizes and costs. */
  setMeasure(measure: ModelMeasure): void {
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

  /** The nodes that need another input than the photo. */
  needingMore(photo: string | null): ReadonlySet<number> {
    const { nodes, inputs } = this.model;
    const found = new Set<number>();
    const isMore = (source: number): boolean =>
      source < 0 ? inputs[-1 - source]!.tensor !== photo : found.has(source);
    nodes.forEach(({ reads }, node) => {
      if (reads.some(([source]) => isMore(source))) found.add(node);
    });
    return found;
  }

  /** The nodes that give attention and need no other input than the photo. */
  attentionOf(photo: string | null): number[] {
    const needMore = this.needingMore(photo);
    return this.model.nodes.flatMap(({ op }, node) =>
      isAttention(op, this.measure?.dims[node]?.[0]) && !needMore.has(node) ? [node] : [],
    );
  }

  /** The inputs that a cut needs, with the sizes that they were measured at. */
  inputsOf(sources: ReadonlySet<number>): StatedTensor[] {
    return this.model.inputs.flatMap((input, i) =>
      sources.has(-1 - i) ? [{ ...input, dims: this.measure?.inputs[i] ?? input.dims }] : [],
    );
  }

  isNode(id: Id): boolean {
    return id >= 0 && id < this.model.nodes.length;
  }

  /** The place of an input, or of a further output; undefined for nodes and boxes. */
  furtherPlace(id: Id): ValuePlace | undefined {
    return this.model.values[id - this.model.nodes.length];
  }

  /** The id of a place. */
  idAt([source, output]: ValuePlace): Id {
    const { nodes, values } = this.model;
    const further = values.findIndex(([from, k]) => from === source && k === output);
    return further < 0 ? source : nodes.length + further;
  }

  /** All nodes in a box, or the node itself. */
  nodesIn(id: Id): readonly number[] {
    if (id >= 0) return this.isNode(id) ? [id] : [];
    let nodes = this.#nodes.get(id);
    if (!nodes) {
      nodes = this.model.boxes[-1 - id]!.children.flatMap((child) => this.nodesIn(child));
      this.#nodes.set(id, nodes);
    }
    return nodes;
  }

  /** What gives the values in a box, or the value itself: nodes, or an input. */
  sourcesIn(id: Id): readonly number[] {
    const further = this.furtherPlace(id);
    return further ? [further[0]] : this.nodesIn(id);
  }

  isHidden(id: Id): boolean {
    const place = this.furtherPlace(id);
    if (place) return place[0] >= 0 && (this.isHidden(place[0]) || !this.#used.has(String(place)));
    return this.nodesIn(id).every((node) => this.model.nodes[node]!.role !== 'data');
  }

  /** The children of a box that are shown. */
  childrenOf(box: Id, withAside: boolean): readonly Id[] {
    const { children } = this.model.boxes[-1 - box]!;
    return withAside ? children : children.filter((child) => !this.isHidden(child));
  }

  /** The name that a person reads. */
  nameOf(id: Id): string {
    if (id < 0) return this.model.boxes[-1 - id]!.name;
    return this.isNode(id) ? this.model.nodes[id]!.name : this.tensorOf(id)!.request;
  }

  /** The operator of a node, or what kind of value it is. */
  kindOf(id: Id): string {
    const [source, output] = this.furtherPlace(id) ?? [id];
    if (source < 0) return 'input';
    const { op } = this.model.nodes[source]!;
    return output === undefined ? op : `output ${output} of ${op}`;
  }

  /** The place of what the name denotes. */
  valueOf(id: Id): ValuePlace | undefined {
    if (id < 0) return this.model.boxes[-1 - id]!.value ?? undefined;
    if (!this.isNode(id)) return this.furtherPlace(id);
    // Optional outputs may be absent.
    const first = this.model.nodes[id]!.outputs.findIndex(({ tensor }) => tensor !== '');
    return [id, Math.max(0, first)];
  }

  /** What the file states of the tensor that the name denotes; of a run, of the result of its last node. */
  tensorOf(id: Id): StatedTensor | undefined {
    const [source, output] = this.#resultOf(id) ?? [];
    if (source === undefined) return undefined;
    return source < 0 ? this.model.inputs[-1 - source] : this.model.nodes[source]!.outputs[output!];
  }

  #resultOf(id: Id): ValuePlace | undefined {
    const last = id < 0 ? this.lastData(id) : undefined;
    return this.valueOf(id) ?? (last === undefined ? undefined : this.valueOf(last));
  }

  /** The name to request; undefined for runs and for refused names. */
  requestOf(id: Id): string | undefined {
    if (id >= 0) return this.tensorOf(id)?.request || undefined;
    const box = this.model.boxes[-1 - id]!;
    return box.kind === 'module' && box.value ? box.name : undefined;
  }

  /** The sizes of what an id denotes, of a run those of its last node. */
  dimsOf(id: Id): StatedDims | null {
    const [source, output] = this.#resultOf(id) ?? [];
    if (source === undefined) return null;
    const { measure } = this;
    const measured = source < 0 ? measure?.inputs[-1 - source] : measure?.dims[source]?.[output!];
    return measured ?? this.tensorOf(id)?.dims ?? null;
  }

  /** Bytes of what an id denotes; 0 while they are not known. */
  bytesOf(id: Id): number {
    const [source, output] = this.#resultOf(id) ?? [];
    return this.measure?.bytes[source!]?.[output!] ?? 0;
  }

  /** {@link dimsOf} without the batch. Exporters put other axes first, too. */
  innerDimsOf(id: Id): StatedDims | null {
    const dims = this.dimsOf(id);
    if (!dims || dims.length < 2) return dims;
    const [source = 0] = this.#resultOf(id) ?? [];
    const stated = this.model.inputs[-1 - this.#inputOf(source)]?.dims?.[0];
    // An open batch is measured with one row.
    const batch = typeof dims[0] === 'number' && typeof stated !== 'number' ? 1 : stated;
    return dims[0] === batch ? dims.slice(1) : dims;
  }

  /** The first input that a source needs, whose batch it has. */
  #inputOf(source: number): number {
    return source < 0 ? source : this.#firstInputs[source]!;
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
    const costs = this.measure?.[metric];
    return nodes.flatMap((node) => costs?.[node] ?? 0).reduce((sum, cost) => sum + cost, 0);
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
    const rows = new Map<string, number>();
    children.forEach((child, place) => {
      for (const node of this.nodesIn(child)) places.set(node, place);
      const further = this.furtherPlace(child);
      if (further) rows.set(String(further), place);
    });
    // Inputs and further outputs leave from their own rows.
    const startOf = (place: ValuePlace): number => rows.get(String(place)) ?? places.get(place[0]) ?? -1;
    const tensors = new Map<string, Set<string>>();
    const add = (from: number, to: number, tensor: ValuePlace): void => {
      if (from === to) return;
      const key = `${from} ${to}`;
      const found = tensors.get(key);
      if (found) found.add(String(tensor));
      else tensors.set(key, new Set([String(tensor)]));
    };
    for (const [node, place] of places) {
      const { reads, role } = this.model.nodes[node]!;
      if (role !== 'data' && !withAside) continue;
      for (const read of reads) {
        const from = startOf(read);
        if (from >= 0 || this.#carriesData(read[0], withAside)) add(from, place, read);
      }
      for (const user of this.usersOf(node)) {
        if (places.has(user) || !this.#carriesData(user, withAside)) continue;
        for (const read of this.model.nodes[user]!.reads)
          if (read[0] === node) add(startOf(read), children.length, read);
      }
    }
    for (const output of this.model.outputs) {
      const from = startOf(output);
      if (from >= 0) add(from, children.length, output);
    }
    for (const child of children) {
      const further = this.furtherPlace(child);
      if (further && further[0] >= 0) add(places.get(further[0])!, startOf(further), further);
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
    const [node, output] = tensor.split(',').map(Number) as [number, number];
    return this.measure?.bytes[node]?.[output] ?? 0;
  }
}
