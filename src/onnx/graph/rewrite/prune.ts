/**
 * Finds the part of a graph that given values need, by walking backwards; bodies and functions are included. Pure; linear in nodes
 * and edges; without recursion over the graph.
 */
import { TapirError } from '../../../base/errors.js';
import { operatorKey } from '../../file/scan/scan-body.js';
import { isDefined, type Graph, type Levels, type Node, type Value } from '../graph.js';
import { operatorOf } from '../operators/operators.js';
import type { ScannedTensor } from '../../file/scan/scan-value.js';
import type { ScannedFunction } from '../../file/scan/scan.js';

/** A requested value, and the name of its output. */
export interface CutOutput {
  readonly request: string;
  readonly key: string;
  readonly value: Value;
  /** How numbers are made of it, if it is whole numbers that stand for others. */
  readonly levels?: Levels | undefined;
  readonly why: string;
}

/** The part of a graph that stays. */
export interface Cut {
  readonly graph: Graph;
  /** In request order; several may denote the same value. */
  readonly outputs: readonly CutOutput[];
  /** The tensors to feed: graph inputs, or the tensors at which the graph was cut, in their order. */
  readonly inputs: readonly Value[];
  /** Tensors that were given as inputs, and that no output depends on. */
  readonly unneeded: readonly Value[];
  readonly nodes: ReadonlySet<Node>;
  readonly values: ReadonlySet<Value>;
  readonly functions: ReadonlySet<ScannedFunction>;
}

/** A request for a cut. */
export interface CutRequest {
  readonly outputs: readonly CutOutput[];
  /** Tensors to feed; undefined for the graph's own inputs. */
  readonly inputs?: readonly Value[] | undefined;
  /** Allow outputs that are sequences, maps or optionals. */
  readonly allowNonTensor?: boolean;
}

/**
 * Finds the nodes and values that the outputs need.
 *
 * @throws {@link TapirError} `GRAPH_INVALID` if the needed part reads a tensor that nothing defines, defines one twice,
 * has a circle of nodes, or calls a function that calls itself; `OUTPUT_NOT_TENSOR` for a sequence, map or optional;
 * `INPUTS_MISSING` if the given inputs do not suffice; it lists all that are missing.
 */
export function cutGraph(graph: Graph, { outputs, inputs, allowNonTensor = false }: CutRequest): Cut {
  if (!allowNonTensor) for (const output of outputs) checkTensor(output);
  const given = inputs && [...new Set(inputs)];
  const { nodes, values } = reach(graph, outputs, new Set(given));
  checkAcyclic(nodes, new Set(given));
  for (const node of nodes) checkRunnable(node);
  const needed = graph.inputs.filter((value) => values.has(value));
  if (given) checkComplete(outputs, needed, given);
  return {
    graph,
    outputs,
    inputs: given?.filter((value) => values.has(value)) ?? needed,
    unneeded: given?.filter((value) => !values.has(value)) ?? [],
    nodes,
    values,
    functions: reachFunctions(graph, nodes),
  };
}

/** A cut that cuts nothing away, whatever the outputs need. */
export function wholeCut(graph: Graph, outputs: readonly CutOutput[]): Cut {
  return {
    graph,
    outputs,
    inputs: graph.inputs,
    unneeded: [],
    nodes: new Set(graph.nodes),
    values: new Set(graph.values.values()),
    functions: new Set(graph.model.functions),
  };
}

/** Whether a cut leaves the graph as it is: every node stays, and inputs and outputs are the graph's own, in their order. */
export function isUncut({ graph, nodes, inputs, outputs }: Cut): boolean {
  return (
    nodes.size === graph.nodes.length &&
    inputs.length === graph.inputs.length &&
    inputs.every((value, i) => value === graph.inputs[i]) &&
    outputs.length === graph.outputs.length &&
    outputs.every(({ value }, i) => value === graph.outputs[i])
  );
}

/** Values as outputs of a cut, under their own names. */
export function outputsOf(values: Iterable<Value>, why: string): CutOutput[] {
  return Array.from(values, (value) => ({ request: value.name, key: value.name, value, why }));
}

/** Whether an initializer of the file stays. If several have one name, only the last is read and stays. */
export function keepsInitializer({ graph, values }: Cut, tensor: ScannedTensor): boolean {
  const value = graph.values.get(tensor.name);
  return value?.initializer === tensor && values.has(value);
}

/** The tensors inside the graph at which it was cut: they are inputs now, but not in the source. */
export function interiorInputs(cut: Cut): Value[] {
  return cut.inputs.filter((value) => value.input === undefined);
}

function checkComplete(
  outputs: readonly CutOutput[],
  needed: readonly Value[],
  given: readonly Value[],
): void {
  const isGiven = new Set(given);
  const missing = needed.filter((value) => !isGiven.has(value)).map((value) => value.name);
  if (missing.length === 0) return;
  const list = missing.map((name) => `"${name}"`).join(', ');
  const asked = outputs.map(({ request }) => `"${request}"`).join(', ');
  throw new TapirError(
    'INPUTS_MISSING',
    `the given inputs do not suffice for ${asked}: ${list} must be fed as well; add them to inputs, or cut after them`,
    { details: { missing } },
  );
}

function reach(
  graph: Graph,
  outputs: readonly CutOutput[],
  given: ReadonlySet<Value>,
): { nodes: Set<Node>; values: Set<Value> } {
  const parametersOf = new Map(graph.model.graph.annotations.map((item) => [item.tensor, item.parameters]));
  const nodes = new Set<Node>();
  const values = new Set<Value>();
  const stack = outputs.flatMap(({ value, levels }) =>
    [value, levels?.scale, levels?.zero].flatMap((one) => one ?? []),
  );
  for (let value = stack.pop(); value; value = stack.pop()) {
    if (values.has(value)) continue;
    values.add(value);
    if (given.has(value)) continue;
    checkDefinition(graph, value);
    // Scale and zero point of a quantised tensor are initializers that no node may read.
    for (const name of parametersOf.get(value.name) ?? []) {
      const parameter = graph.values.get(name);
      if (parameter && isDefined(parameter)) stack.push(parameter);
    }
    const { producer } = value;
    if (!producer || nodes.has(producer)) continue;
    nodes.add(producer);
    // One by one: a node may read more values than a call takes arguments.
    for (const read of producer.reads) stack.push(read);
  }
  // All outputs of a kept node stay: a blank one can crash ONNX Runtime.
  for (const node of nodes) for (const output of node.outputs) if (output) values.add(output);
  return { nodes, values };
}

/** The name of a node in messages and plans. */
export function describeNode(node: Node): string {
  return node.name === '' ? `${node.opType} → ${node.outputs.find(Boolean)?.name ?? ''}` : node.name;
}

function invalid(reason: string, where: readonly string[]): TapirError {
  const message = `the model's graph is broken: ${reason}; ONNX Runtime would refuse it too`;
  return new TapirError('GRAPH_INVALID', message, { details: { reason, where } });
}

function checkDefinition(graph: Graph, value: Value): void {
  const conflict = graph.conflicts.get(value);
  if (conflict) {
    const where = conflict.nodes.map(describeNode);
    const nodes = where.length === 0 ? '' : ` (${where.map((name) => `"${name}"`).join(' and ')})`;
    throw invalid(`tensor "${value.name}" ${conflict.reason}${nodes}`, where);
  }
  if (isDefined(value)) return;
  const where = value.uses.slice(0, 3).map(describeNode);
  throw invalid(`nothing defines tensor "${value.name}", which "${where[0] ?? ''}" reads`, where);
}

/** Kahn's algorithm over the kept nodes. */
function checkAcyclic(nodes: ReadonlySet<Node>, given: ReadonlySet<Value>): void {
  const waiting = new Map<Node, number>();
  const ready: Node[] = [];
  const isAwaited = (value: Value): boolean =>
    value.producer !== undefined && nodes.has(value.producer) && !given.has(value);
  for (const node of nodes) {
    const count = node.reads.filter(isAwaited).length;
    if (count === 0) ready.push(node);
    else waiting.set(node, count);
  }
  for (let node = ready.pop(); node; node = ready.pop()) {
    for (const output of node.outputs) {
      for (const user of output && isAwaited(output) ? output.uses : []) {
        const left = (waiting.get(user) ?? 0) - 1;
        if (left === 0) {
          waiting.delete(user);
          ready.push(user);
        } else if (left > 0) waiting.set(user, left);
      }
    }
  }
  if (waiting.size === 0) return;
  const where = [...waiting.keys()].slice(0, 3).map(describeNode);
  throw invalid(`its nodes depend on each other in a circle, around "${where.join('", "')}"`, where);
}

function checkRunnable(node: Node): void {
  if (node.opType !== 'Split' || node.domain !== '' || !node.outputs.includes(undefined)) return;
  const name = describeNode(node);
  throw invalid(`Split "${name}" has a blank output, which crashes ONNX Runtime`, [name]);
}

function checkTensor({ request, value }: CutOutput): void {
  const type = nonTensorType(value);
  if (type === undefined) return;
  throw new TapirError(
    'OUTPUT_NOT_TENSOR',
    `"${request}" is a ${type}, which onnxruntime-node cannot give out; ask for a tensor before or after it`,
    { details: { output: request, type } },
  );
}

/**
 * The functions that kept nodes call, also in bodies and through other functions: those that are called before those that call them. A
 * function that calls itself is refused.
 */
export function reachFunctions(graph: Graph, nodes: ReadonlySet<Node>): Set<ScannedFunction> {
  const done = new Set<ScannedFunction>();
  if (graph.functions.size === 0) return done;
  const functionsAmong = (keys: Iterable<string>): ScannedFunction[] =>
    [...new Set(keys)].flatMap((key) => graph.functions.get(key) ?? []);
  const open = new Set<ScannedFunction>();
  const called = functionsAmong([...nodes].flatMap((node) => operatorsOf(node)));
  const stack = called.map((fn) => ({ fn, leave: false }));
  for (let top = stack.pop(); top; top = stack.pop()) {
    const { fn, leave } = top;
    if (leave) {
      open.delete(fn);
      done.add(fn);
      continue;
    }
    if (open.has(fn)) throw invalid(`function "${fn.name}" calls itself`, [fn.name]);
    if (done.has(fn)) continue;
    open.add(fn);
    stack.push({ fn, leave: true });
    for (const callee of functionsAmong(fn.content.operators.keys()))
      stack.push({ fn: callee, leave: false });
  }
  return done;
}

/** The keys of a node's operator and of those in its bodies. */
function operatorsOf(node: Node): string[] {
  return [operatorKey(node), ...(node.scanned.bodies?.operators.keys() ?? [])];
}

/** The type of a value that is not a tensor; undefined for a tensor. */
export function nonTensorType({ type, producer }: Value): string | undefined {
  if (type) return type.kind === 'tensor' || type.kind === 'sparse tensor' ? undefined : type.kind;
  if (producer && operatorOf(producer)?.types[0] === 'sequence') return 'sequence';
  // onnxruntime-node can return an optional tensor, but not an optional sequence.
  if (producer?.opType === 'Optional' && producer.inputs[0]) return nonTensorType(producer.inputs[0]);
  return producer?.opType === 'ZipMap' ? 'sequence of maps' : undefined;
}
