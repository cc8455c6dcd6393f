/** Every name that a user may write, and what it denotes. */
import { TapirError, type ErrorDetails } from '../../../base/errors.js';
import { oncePer } from '../../../base/once-per.js';
import type { ScannedNode } from '../../file/scan/scan-graph.js';
import { operatorKey } from '../../file/scan/scan-body.js';
import { isDefined, type Graph, type Levels, type Node, type Value } from '../graph.js';
import { hiddenModule, readModulePath } from './module-names.js';
import type { PathReading } from './readings.js';
import { moduleTree } from './module-tree.js';
import { layerEnds } from './keras2onnx-names.js';
import { floatView } from '../float-view/float-view.js';
import type { Held } from '../float-view/view.js';
import { findInside } from '../scopes.js';
import { groupBy } from '../../../base/group-by.js';
import { describeNearest, nearestNames } from '../../../base/nearest-names.js';

/** A request and the value it denotes: also one of several that a name can mean, with the request for exactly that value. */
export interface Resolved {
  readonly request: string;
  readonly value: Value;
  /** How numbers are made of the value, where the file has only whole numbers for them. */
  readonly levels?: Levels | undefined;
  /** How the name was read, for the plan. */
  readonly why: string;
}

/** A value and how its name was read. */
type Found = Omit<Resolved, 'request'>;
type Failure = { [Code in keyof ErrorDetails]: { code: Code; message: string; details: ErrorDetails[Code] } }[
  'NAME_NOT_FOUND' | 'NAME_AMBIGUOUS' | 'NAME_FOLDED' | 'NAME_INSIDE_BODY'];

const PREFIXES = ['tensor', 'node', 'module'] as const;

const nodesByName = oncePer((graph: Graph): ReadonlyMap<string, readonly Node[]> => {
  const named = graph.nodes.filter(({ name }) => name !== '');
  return groupBy(named, ({ name }) => name);
});

function nodesNamed(graph: Graph, name: string): readonly Node[] {
  return nodesByName(graph).get(name) ?? [];
}

/** Whether several nodes have a name, which then denotes none of them. */
export function isSharedName(graph: Graph, name: string): boolean {
  return nodesNamed(graph, name).length > 1;
}

/**
 * Resolves requests, each on its own: tensor name, then node name (`node:k` for its k-th output), then module path.
 *
 * @param keys - The key of each request, for the error of a request that has both the wrong way round.
 * @throws {@link TapirError} `NAME_NOT_FOUND` (all unknown ones in one error, with the nearest names),
 * `NAME_AMBIGUOUS`, `NAME_FOLDED`, `NAME_INSIDE_BODY`.
 */
export function resolveNames(
  graph: Graph,
  requests: readonly string[],
  keys: readonly string[] = requests,
): Resolved[] {
  const resolved: Resolved[] = [];
  const failures: Failure[] = [];
  for (const request of requests) {
    const found = resolveName(graph, request) ?? unknownName(graph, request);
    if ('value' in found) resolved.push({ request, ...found });
    else failures.push(found);
  }
  const first = failures[0];
  if (!first) return resolved;
  const unknown = failures.filter((failure) => failure.code === 'NAME_NOT_FOUND');
  const message = failures.map((failure) => failure.message).join('\n');
  if (unknown.length > 0) {
    const names = unknown.flatMap((failure) => failure.details.names);
    const turned = requests.findIndex((request, i) => isTurned(graph, request, keys[i]!));
    const hint =
      turned >= 0
        ? `the node comes first, and its key second: { '${keys[turned]}': '${requests[turned]}' }`
        : 'list what exists with getGraphNodeNames(model) or "tapir nodes MODEL"';
    throw new TapirError('NAME_NOT_FOUND', `${message}\n${hint}`, { details: { names } });
  }
  throw new TapirError(first.code, message, { details: first.details });
}

/** Whether a key names a value, and its request names none. */
function isTurned(graph: Graph, request: string, key: string): boolean {
  const [found, other] = [key, request].map((name) => resolveName(graph, name));
  return other === undefined && found !== undefined && 'value' in found;
}

/** Resolves one request; undefined if nothing has this name. */
export function resolveName(graph: Graph, request: string): Found | Failure | undefined {
  const view = floatView(graph);
  const readings: Resolved[] = [];
  const byTensor = readTensor(graph, request);
  if (byTensor && 'code' in byTensor) return byTensor;
  if (byTensor) readings.push(byTensor);
  const layer = layerEnds(view.graph).get(request);
  const heldIn = (node: Node): Held[] => node.outputs.flatMap((value) => (value && view.heldOf(value)) ?? []);
  if (layer?.kind === 'unsure')
    return unsure(request, layer.why, layer.candidates.flatMap(heldIn).map(heldReading));
  const byNode = layer ? heldIn(layer.node).map(heldReading)[0] : readNodeName(graph, request);
  if (byNode && 'code' in byNode && readings.length === 0) return byNode;
  if (byNode && !('code' in byNode)) readings.push(byNode);
  const byModule =
    (prefixOf(request) ? undefined : readSidecar(graph, request)) ?? readModulePath(graph, request, false);
  if (byModule?.kind === 'value') {
    const { value, levels, why } = byModule;
    readings.push({ request: `module:${request}`, value, levels, why });
  }
  if (readings.some((reading) => reading.value !== readings[0]!.value)) return ambiguous(request, readings);
  const isTaken = view.taken.has(graph.values.get(request)!);
  if (isTaken && byModule && byModule.kind !== 'value') return moduleFailure(request, byModule);
  // Dynamo's tensors have names like torchvision's operations (`getitem`), but others than those. Those of createModel are torchvision's.
  const isOwn = graph.model.producer.startsWith('onnx-tapir');
  if (readings[0] && byModule?.kind === 'unsure' && !request.includes('.') && !isOwn) {
    const others = byModule.candidates.map(heldReading);
    if (others.some(({ value }) => value !== readings[0]!.value))
      return ambiguous(request, [...readings, ...others], byModule.why);
  }
  const hidden = readings[0] && !byModule ? hiddenModule(graph, request) : undefined;
  if (hidden !== undefined) return unsure(request, hidden, readings);
  if (readings[0]) return { value: readings[0].value, levels: readings[0].levels, why: readings[0].why };
  if (byModule && byModule.kind !== 'value') return moduleFailure(request, byModule);
  return readPrefixed(graph, request) ?? readForwardArgument(graph, request);
}

/** A tensor by its name. If it has the name of an activation that a quantizer dropped, the name means the value after that. */
function readTensor(graph: Graph, request: string): Resolved | Failure | undefined {
  const tensor = graph.values.get(request);
  if (!tensor || !isDefined(tensor)) return undefined;
  const view = floatView(graph);
  const after = request.includes('/') ? undefined : view.taken.get(tensor);
  if (!after) return { request: `tensor:${request}`, value: tensor, why: 'tensor' };
  const held = view.heldOf(after);
  if (held) return { ...heldReading(held), why: 'tensor, behind the activation that a quantizer dropped' };
  return folded(request, 'names what a quantizer dropped', `tensor:${request}`);
}

/** A value that a rule found; whole numbers that stand for it cannot be asked for by a name of their own. */
function heldReading({ value, levels }: Held): Resolved {
  return { ...tensorReading(value), levels };
}

function tensorReading(value: Value, why = ''): Resolved {
  return { request: `tensor:${value.name}`, value, why };
}

function readNodeName(graph: Graph, request: string): Resolved | Failure | undefined {
  const whole = nodesNamed(graph, request);
  const indexed = whole.length === 0 && request.includes(':') ? /^(.*):(\d+)$/s.exec(request) : undefined;
  if (indexed) {
    const named = nodesNamed(graph, indexed[1]!).slice(0, CANDIDATES);
    const values = named.flatMap((node) => node.outputs[Number(indexed[2])] ?? []);
    const why = `output ${indexed[2]} of node`;
    const readings = values.map((value) => tensorReading(value, why));
    if (readings.length > 1) return ambiguous(request, readings, `several nodes are named "${indexed[1]}"`);
    const [value] = values;
    return value && { request: `node:${request}`, value, why };
  }
  const readings = whole.length === 1 ? outputReadings(whole[0]!) : nodeReadings(whole.slice(0, CANDIDATES));
  if (readings.length === 0) return undefined;
  const used = readings.filter(({ value }) => value.uses.length > 0 || graph.isOutput(value));
  const only = readings.length === 1 ? readings[0] : used.length === 1 ? used[0] : undefined;
  return only ? { ...only, request: `node:${request}`, why: 'node' } : ambiguous(request, readings);
}

const MOST_SHOWN = 8;
/** Nodes of one name that are looked at. */
const CANDIDATES = 64;

function ambiguous(request: string, readings: readonly Resolved[], why?: string): Failure {
  const list = readings.map((reading) => ({ request: reading.request, tensor: reading.value.name }));
  const text = listFirst(list.map((reading) => `"${reading.request}" (tensor "${reading.tensor}")`));
  const because = why === undefined ? '' : `; ${why}`;
  return {
    code: 'NAME_AMBIGUOUS',
    message: `"${request}" can mean several values; choose one: ${text}${because}`,
    details: { request, readings: list },
  };
}

function listFirst(items: readonly string[]): string {
  return items.slice(0, MOST_SHOWN).join(', ') + (items.length > MOST_SHOWN ? ', …' : '');
}

/** A name that fits several nodes, or a node that may hold another value. */
function unsure(request: string, why: string, readings: readonly Resolved[]): Failure {
  const [only, ...others] = readings;
  if (others.length > 0) return ambiguous(request, readings, why);
  return folded(request, `does not follow from the file: ${why}`, only?.request);
}

function folded(request: string, why: string, instead: string | undefined): Failure {
  const hint = instead === undefined ? '' : `; what the file has is "${instead}"`;
  return {
    code: 'NAME_FOLDED',
    message: `"${request}" ${why}${hint}`,
    details: { request, ...(instead === undefined ? {} : { instead }) },
  };
}

/** The outputs of nodes as readings. */
function nodeReadings(nodes: readonly Node[]): Resolved[] {
  return nodes.flatMap(({ outputs }) => outputs.flatMap((value) => (value ? [tensorReading(value)] : [])));
}

/** The outputs of one node by their numbers, if it has a name. */
function outputReadings({ name, outputs }: Node): Resolved[] {
  const requestOf = (value: Value, k: number): string =>
    name === '' ? `tensor:${value.name}` : `node:${name}:${k}`;
  return outputs.flatMap((value, k) => (value ? [{ request: requestOf(value, k), value, why: '' }] : []));
}

function moduleFailure(request: string, reading: Exclude<PathReading, { kind: 'value' }>): Failure {
  if (reading.kind === 'folded') {
    return folded(request, `is not in the file: ${reading.why}`, reading.instead);
  }
  if (reading.kind === 'clash') {
    const readings = reading.readings.map(({ path, held }) => ({
      ...held,
      request: `module:${path}`,
      why: '',
    }));
    return ambiguous(request, readings, 'torchvision renumbers names that end in _<number>');
  }
  if (reading.kind === 'unsure') return unsure(request, reading.why, reading.candidates.map(heldReading));
  return ambiguous(request, outputReadings(reading.node));
}

function prefixOf(request: string): (typeof PREFIXES)[number] | undefined {
  return PREFIXES.find((kind) => request.startsWith(`${kind}:`));
}

/** `tensor:`, `node:` and `module:` choose one reading. */
function readPrefixed(graph: Graph, request: string): Found | Failure | undefined {
  const prefix = prefixOf(request);
  if (!prefix) return undefined;
  const name = request.slice(prefix.length + 1);
  if (prefix === 'tensor') {
    const value = graph.values.get(name);
    return value && isDefined(value) ? { value, why: 'tensor' } : undefined;
  }
  if (prefix === 'node') return readNodeName(graph, name);
  const isPath = moduleTree(graph).modules.has(name);
  const reading = (isPath ? undefined : readSidecar(graph, name)) ?? readModulePath(graph, name, true);
  if (!reading) return undefined;
  return reading.kind === 'value'
    ? { value: reading.value, levels: reading.levels, why: reading.why }
    : moduleFailure(request, reading);
}

/** What the names beside the model say. */
function readSidecar({ sidecar, values }: Graph, name: string): PathReading | undefined {
  const tensor = sidecar?.names.get(name);
  const value = tensor === undefined ? undefined : values.get(tensor);
  if (value && isDefined(value)) return { kind: 'value', value, why: 'from the names beside the model' };
  const instead = sidecar?.absent.get(name);
  if (instead === undefined) return undefined;
  const why = 'the names beside the model say that no tensor holds its value';
  return { kind: 'folded', why, instead: instead ?? undefined };
}

/** torchvision lists the input under its forward() argument, `x`, which TorchScript does not keep. */
function readForwardArgument(graph: Graph, request: string): Found | undefined {
  if (request !== 'x' || graph.inputs.length !== 1 || moduleTree(graph).scheme === undefined)
    return undefined;
  return { value: graph.inputs[0]!, why: "torchvision's name of the graph input" };
}

function unknownName(graph: Graph, request: string): Failure {
  for (const node of graph.nodes) {
    const { bodies } = node.scanned;
    const place = bodies && findInside(bodies, request);
    if (place !== undefined) return insideBody(request, place, [node]);
  }
  for (const [key, fn] of graph.functions) {
    const place = findInside(fn.content, request);
    if (place === undefined) continue;
    const callers = graph.nodes.filter((node) => callsFunction(graph, node.scanned, key));
    return insideBody(request, `${place === '' ? '' : `${place}, in `}function "${fn.name}"`, callers);
  }
  const nearest = nearestNames(request, knownNames(graph));
  return {
    code: 'NAME_NOT_FOUND',
    message: `no tensor, node or module is named "${request}"${describeNearest(nearest)}`,
    details: { names: [{ request, nearest }] },
  };
}

/** A name inside a body or function: where it is, and which outputs you can request instead. */
function insideBody(request: string, where: string, nodes: readonly Node[]): Failure {
  const outside = nodes.flatMap((node) => node.outputs.flatMap((value) => (value ? [value.name] : [])));
  const list = listFirst(outside.map((name) => `"${name}"`));
  const hint = list === '' ? 'nothing outside comes from there' : `what comes out of it is ${list}`;
  return {
    code: 'NAME_INSIDE_BODY',
    message: `"${request}" exists only inside the ${where}, whose values cannot be taken out; ${hint}`,
    details: { request, where, outside },
  };
}

/** Whether a node runs a function: itself, in a body, or through another function. */
function callsFunction(graph: Graph, node: ScannedNode, wanted: string): boolean {
  const seen = new Set([operatorKey(node), ...(node.bodies?.operators.keys() ?? [])]);
  // A set gives its new members, too, while it is walked.
  for (const key of seen) {
    if (key === wanted) return true;
    for (const inner of graph.functions.get(key)?.content.operators.keys() ?? []) seen.add(inner);
  }
  return false;
}

function* knownNames(graph: Graph): Generator<string> {
  yield* graph.sidecar?.names.keys() ?? [];
  yield* moduleTree(graph).modules.keys();
  yield* moduleTree(graph).torchvision.keys();
  for (const value of graph.values.values()) if (isDefined(value)) yield value.name;
  for (const node of graph.nodes) yield node.name;
}
