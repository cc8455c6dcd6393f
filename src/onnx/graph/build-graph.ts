/** An indexed model → its graph. */
import type { NamesSidecar } from '../file/names-sidecar.js';
import { operatorKey } from '../file/scan/scan-body.js';
import type { ScannedModel } from '../file/scan/scan.js';
import type { ScannedTensor, ScannedValueInfo, ValueType } from '../file/scan/scan-value.js';
import { executionOrder } from './execution-order.js';
import type { Conflict, Graph, Node, Value } from './graph.js';
import { namesRead } from './scopes.js';

type Draft = { -readonly [Key in keyof Omit<Value, 'uses'>]: Value[Key] } & { uses: Node[] };

const NO_USES: Node[] = [];

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
        uses: NO_USES,
        info: undefined,
        type: undefined,
      };
      values.set(name, value);
    }
    return value;
  };
  const definitions = new Definitions();
  for (const input of graph.inputs) definitions.addInput(valueOf(input.name), input);
  for (const tensor of graph.initializers) definitions.addInitializer(valueOf(tensor.name), tensor);
  const order = executionOrder(graph.nodes);
  const nodes = order.map((scanned, index): Node => {
    const inputs = scanned.inputs.map((name) => (name === '' ? undefined : valueOf(name)));
    const names = namesRead(scanned);
    // Most nodes read their inputs and nothing else: one array serves both.
    const reads = names === scanned.inputs ? (inputs as Draft[]) : names.map(valueOf);
    const node: Node = {
      index,
      name: scanned.name,
      opType: scanned.opType,
      domain: scanned.domain,
      overload: scanned.overload,
      inputs,
      outputs: scanned.outputs.map((name) => (name === '' ? undefined : valueOf(name))),
      reads,
      scanned,
    };
    for (const value of reads) addUse(value, node);
    return node;
  });
  // In file order: the last of several Constant nodes wins.
  const reordered = new Map(order === graph.nodes ? [] : nodes.map((node) => [node.scanned, node]));
  for (const [i, scanned] of graph.nodes.entries())
    definitions.addOutputs(reordered.get(scanned) ?? nodes[i]!, valueOf);
  for (const info of [...graph.outputs, ...graph.inputs, ...graph.valueInfos]) {
    const value = valueOf(info.name);
    if (!value.info?.type) value.info = info.type ? info : (value.info ?? info);
  }
  for (const value of values.values()) value.type = value.info?.type ?? typeOfInitializer(value.initializer);
  const outputs = graph.outputs.map((output) => valueOf(output.name));
  const outputSet = new Set<Value>(outputs);
  const functions = new Map(model.functions.map((fn) => [operatorKey({ ...fn, opType: fn.name }), fn]));
  return {
    model,
    nodes,
    values,
    inputs: graph.inputs
      .map((input) => valueOf(input.name))
      .filter((value) => !value.initializer && !value.producer),
    outputs,
    isOutput: (value) => outputSet.has(value),
    functions,
    sidecar,
    conflicts: definitions.conflicts,
  };
}

/** The first use gets an array of its size: growing arrays have room for sixteen more, in millions of values. */
function addUse(value: Draft, node: Node): void {
  if (value.uses.length === 0) value.uses = [node];
  else value.uses.push(node);
}

function typeOfInitializer(tensor: ScannedTensor | undefined): ValueType | undefined {
  return tensor && { kind: 'tensor', elemType: tensor.elemType, dims: tensor.dims };
}

/**
 * What defines each tensor. ONNX Runtime (1.30, tried) turns Constant nodes into initializers. The last of several initializers of one name
 * is the value for all readers, if their types agree. Exports of old PyTorch versions contain such graphs. It refuses every other tensor
 * with two definitions.
 */
class Definitions {
  readonly conflicts = new Map<Value, Conflict>();

  addInput(value: Draft, input: ScannedValueInfo): void {
    if (value.input) this.#refuse(value, 'is listed twice as a graph input');
    value.input ??= input;
  }

  addInitializer(value: Draft, tensor: ScannedTensor): void {
    this.#checkSameType(value, tensor);
    value.initializer = tensor;
  }

  addOutputs(node: Node, valueOf: (name: string) => Draft): void {
    for (const name of node.scanned.outputs) {
      if (name === '') continue;
      const value = valueOf(name);
      if (isConstant(node) && !(value.producer && !isConstant(value.producer))) {
        this.#checkSameType(value, constantTensor(node));
        value.initializer = constantTensor(node);
        value.producer = node;
      } else if (value.producer || value.initializer || value.input) {
        this.#refuse(value, 'is computed by a node and defined a second time', node);
        value.producer ??= node;
      } else value.producer = node;
    }
  }

  #checkSameType(value: Draft, tensor: ScannedTensor | undefined): void {
    const before = value.initializer;
    if (!before || !tensor) return;
    const isSame = before.elemType === tensor.elemType && before.dims.join() === tensor.dims.join();
    if (!isSame) this.#refuse(value, 'is defined twice, with different types or sizes');
  }

  #refuse(value: Draft, reason: string, node?: Node): void {
    const nodes = this.conflicts.get(value)?.nodes ?? (value.producer ? [value.producer] : []);
    const isListed = node !== undefined && nodes.length < NODES_NAMED;
    this.conflicts.set(value, { reason, nodes: isListed ? [...nodes, node] : nodes });
  }
}

/** Nodes that a conflict names; a hostile file has thousands. */
const NODES_NAMED = 3;

/** ONNX Runtime looks at the operator only, not at its domain. */
function isConstant(node: Node): boolean {
  return node.opType === 'Constant';
}

/** The tensor of a Constant node that holds a whole one, rather than a number or a list. */
function constantTensor(node: Node): ScannedTensor | undefined {
  return node.scanned.tensors.find(({ attribute }) => attribute === 'value')?.tensor;
}
