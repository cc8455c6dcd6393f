/** The graph of a model: nodes and values that know each other. Built once, never changed. */
import type { ScannedNode } from '../onnx/scan-graph.js';
import type { NamesSidecar } from '../onnx/names-sidecar.js';
import type { ScannedFunction, ScannedModel } from '../onnx/scan.js';
import type { ScannedTensor, ScannedValueInfo, ValueType } from '../onnx/scan-value.js';
import { executionOrder } from './execution-order.js';
import { namesRead } from './scopes.js';

/** A tensor of the main graph: an edge from its producer to its uses. */
export interface Value {
  readonly name: string;
  /** The graph input of this name. An initializer may also be listed as input (always before IR 4). */
  readonly input: ScannedValueInfo | undefined;
  readonly initializer: ScannedTensor | undefined;
  /** The node that computes it. */
  readonly producer: Node | undefined;
  /** Nodes that read it, captures of their bodies included, in file order. */
  readonly uses: readonly Node[];
  /** What the file says about it: as graph output, input, value_info, or from the initializer itself. */
  readonly info: ScannedValueInfo | undefined;
  readonly type: ValueType | undefined;
}

/** A node of the main graph. */
export interface Node {
  /** Position in execution order: the file's, unless that is not sorted. */
  readonly index: number;
  readonly name: string;
  readonly opType: string;
  readonly domain: string;
  readonly overload: string;
  /** In order; undefined for an absent optional input. */
  readonly inputs: readonly (Value | undefined)[];
  readonly outputs: readonly (Value | undefined)[];
  /** Everything it needs: inputs and what its bodies capture. */
  readonly reads: readonly Value[];
  readonly scanned: ScannedNode;
}

export interface Graph {
  readonly model: ScannedModel;
  readonly nodes: readonly Node[];
  readonly values: ReadonlyMap<string, Value>;
  /** Graph inputs that must be fed: those that no initializer fills. */
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly isOutput: (value: Value) => boolean;
  /** Functions of the file by {@link functionKey}. */
  readonly functions: ReadonlyMap<string, ScannedFunction>;
  /** Names of the source network that are known from outside the file. */
  readonly sidecar: NamesSidecar | undefined;
  /** Names that two nodes define: ONNX Runtime refuses such a graph. */
  readonly duplicates: ReadonlyMap<string, readonly Node[]>;
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };
type Draft = Mutable<Omit<Value, 'uses'>> & { uses: Node[] };

/** The identity of a function: ONNX allows the same name in several domains and overloads. */
export function functionKey(domain: string, name: string, overload: string): string {
  return JSON.stringify([domain, name, overload]);
}

/** Links an indexed model into a graph. Linear in nodes and edges. */
export function buildGraph(model: ScannedModel, sidecar?: NamesSidecar): Graph {
  const { graph } = model;
  const values = new Map<string, Draft>();
  const valueOf = (name: string): Draft => {
    let value = values.get(name);
    if (!value) {
      value = {
        name,
        input: undefined,
        initializer: undefined,
        producer: undefined,
        uses: [],
        info: undefined,
        type: undefined,
      };
      values.set(name, value);
    }
    return value;
  };
  for (const input of graph.inputs) valueOf(input.name).input ??= input;
  for (const initializer of graph.initializers) valueOf(initializer.name).initializer ??= initializer;
  const duplicates = new Map<string, Node[]>();
  const namesOf = new Map(graph.nodes.map((node) => [node, namesRead(node)]));
  const nodes = executionOrder(graph.nodes, namesOf).map((scanned, index): Node => {
    const reads = namesOf.get(scanned)!.map(valueOf);
    const node: Node = {
      index,
      name: scanned.name,
      opType: scanned.opType,
      domain: scanned.domain,
      overload: scanned.overload,
      inputs: scanned.inputs.map((name) => (name === '' ? undefined : valueOf(name))),
      outputs: scanned.outputs.map((name) => (name === '' ? undefined : valueOf(name))),
      reads,
      scanned,
    };
    for (const value of reads) value.uses.push(node);
    for (const name of scanned.outputs) {
      if (name === '') continue;
      const value = valueOf(name);
      if (value.producer) {
        const twice = duplicates.get(name);
        if (twice) twice.push(node);
        else duplicates.set(name, [value.producer, node]);
      } else value.producer = node;
    }
    return node;
  });
  for (const info of [...graph.outputs, ...graph.inputs, ...graph.valueInfos]) {
    const value = valueOf(info.name);
    if (!value.info?.type) value.info = info.type ? info : (value.info ?? info);
  }
  for (const value of values.values()) value.type = value.info?.type ?? typeOfInitializer(value.initializer);
  const outputs = graph.outputs.map((output) => valueOf(output.name));
  const outputSet = new Set<Value>(outputs);
  const functions = new Map(
    model.functions.map((item) => [functionKey(item.domain, item.name, item.overload), item]),
  );
  return {
    model,
    nodes,
    values,
    inputs: graph.inputs.map((input) => valueOf(input.name)).filter((value) => !value.initializer),
    outputs,
    isOutput: (value) => outputSet.has(value),
    functions,
    sidecar,
    duplicates,
  };
}

function typeOfInitializer(tensor: ScannedTensor | undefined): ValueType | undefined {
  return tensor && { kind: 'tensor', elemType: tensor.elemType, dims: tensor.dims };
}

/** Whether a value exists in the main graph, rather than being only read or declared. */
export function isDefined(value: Value): boolean {
  return value.producer !== undefined || value.input !== undefined || value.initializer !== undefined;
}
