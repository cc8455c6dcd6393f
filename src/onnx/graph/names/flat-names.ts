/**
 * Names that keep their hierarchy in underscores, as MXNet's exporter writes them: `resnetv17_stage4_activation2`. A stage
 * means the last node whose name begins with it.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node } from '../graph.js';
import { nodeRoles } from '../roles.js';

const MXNET_TENSOR = /^([a-z][a-z0-9]*?\d*)_(?:.+_)?(?:fwd|activation\d+|_plus\d+)$/;

/** No real name of a stage has more underscores. */
const MAX_DEPTH = 16;

/** The last node of every stage, and the prefix that all names have, if the file is named this way. */
interface Stages {
  readonly last: ReadonlyMap<string, Node>;
  readonly prefix: string;
}

const stagesOf = oncePer(findStages);

function findStages(graph: Graph): Stages | undefined {
  const roles = nodeRoles(graph);
  const named = graph.nodes
    .filter((node) => roles.get(node) === 'data')
    .map((node): [Node, string] => [node, node.outputs[0]?.name ?? '']);
  const prefixes = named.flatMap(([, name]) => MXNET_TENSOR.exec(name)?.[1] ?? []);
  const [prefix] = prefixes;
  // Every second tensor, of one network: no accident.
  const isFlat =
    prefix !== undefined && prefixes.length * 2 > named.length && prefixes.every((other) => other === prefix);
  if (!isFlat) return undefined;
  const last = new Map<string, Node>();
  for (const [node, name] of named) {
    let end = name.indexOf('_');
    for (let depth = 0; end > 0 && depth < MAX_DEPTH; depth++) {
      last.set(name.slice(0, end), node);
      end = name.indexOf('_', end + 1);
    }
  }
  return { last, prefix: `${prefix}_` };
}

/** The last node of a stage: `stage4`, with or without the network's own prefix. */
export function readStage(graph: Graph, path: string): Node | undefined {
  const stages = stagesOf(graph);
  if (!stages || path === '') return undefined;
  return stages.last.get(path.startsWith(stages.prefix) ? path : `${stages.prefix}${path}`);
}
