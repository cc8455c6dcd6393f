/**
 * Names that keep their hierarchy in underscores, as MXNet's exporter writes them: `resnetv17_stage4_activation2`. A stage
 * means the last node whose name begins with it.
 */
import type { Graph, Node } from '../graph.js';
import { nodeRoles } from '../roles.js';

const MXNET_TENSOR = /^([a-z][a-z0-9]*?\d*)_(?:.+_)?(?:fwd|activation\d+|_plus\d+)$/;

/** The nodes that carry data, with the names of what they compute, if the file is named this way; and its common prefix. */
interface Names {
  readonly named: readonly (readonly [Node, string])[];
  readonly prefix: string;
}

const cache = new WeakMap<Graph, Names | undefined>();

function namesOf(graph: Graph): Names | undefined {
  if (!cache.has(graph)) cache.set(graph, findNames(graph));
  return cache.get(graph);
}

function findNames(graph: Graph): Names | undefined {
  const roles = nodeRoles(graph);
  const named = graph.nodes
    .filter((node) => roles.get(node) === 'data')
    .map((node): [Node, string] => [node, node.outputs[0]?.name ?? '']);
  const prefixes = named.flatMap(([, name]) => MXNET_TENSOR.exec(name)?.[1] ?? []);
  const [prefix] = prefixes;
  // Every second tensor, of one network: no accident.
  const isFlat =
    prefix !== undefined && prefixes.length * 2 > named.length && prefixes.every((other) => other === prefix);
  return isFlat ? { named, prefix: `${prefix}_` } : undefined;
}

/** The last node of a stage: `stage4`, with or without the network's own prefix. */
export function readStage(graph: Graph, path: string): Node | undefined {
  const names = namesOf(graph);
  if (!names || path === '') return undefined;
  const full = path.startsWith(names.prefix) ? path : `${names.prefix}${path}`;
  return names.named.findLast(([, name]) => name.startsWith(`${full}_`))?.[0];
}
