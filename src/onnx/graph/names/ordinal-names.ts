/**
 * Names for files that carry none (TorchScript before torch 1.13, stripped files). If the operators of a graph are, one by one, those of an
 * architecture of torchvision, its k-th step is the k-th node (names.md §5.2).
 */
import { oncePer } from '../../../base/once-per.js';
import { IMAGE, ORDINAL_NETWORKS, stepsOf, type Step, type StepKind } from './architectures.js';
import type { Graph, Node, Value } from '../graph.js';
import { nodeRoles, type Role } from '../roles.js';

type Roles = ReadonlyMap<Node, Role>;

/** The names of an architecture in a graph. */
export interface OrdinalNames {
  readonly architecture: string;
  /** Values by name, in execution order. */
  readonly values: ReadonlyMap<string, Value>;
  /** Convolutions into which the exporter folded a BatchNorm, with the name of that. */
  readonly folded: ReadonlyMap<string, string>;
}

const OPERATORS: Readonly<Record<Exclude<StepKind, 'pass'>, readonly string[]>> = {
  conv: ['Conv'],
  bn: ['BatchNormalization'],
  relu: ['Relu'],
  maxpool: ['MaxPool'],
  avgpool: ['GlobalAveragePool', 'AveragePool', 'ReduceMean'],
  add: ['Add'],
  cat: ['Concat'],
  flatten: ['Flatten', 'Reshape'],
  linear: ['Gemm', 'MatMul'],
};
/** Nodes that change nothing: equal weights shared, padding of nothing. */
const IGNORED = new Set(['Identity', 'Constant']);

/** The names of a graph by the order of its operators; undefined if they are those of no known architecture. */
export const ordinalNames: (graph: Graph) => OrdinalNames | undefined = oncePer(findNames);

function findNames(graph: Graph): OrdinalNames | undefined {
  const [input] = graph.inputs;
  if (!input || graph.inputs.length > 1) return undefined;
  const roles = nodeRoles(graph);
  const nodes = graph.nodes.filter((node) => roles.get(node) === 'data' && !IGNORED.has(node.opType));
  const areNamed = nodes.some((node) => weightModule(node) !== undefined);
  const convolutions = nodes.filter(({ opType }) => opType === 'Conv').length;
  const networks = ORDINAL_NETWORKS[convolutions] ?? [];
  const found = networks.flatMap((name) => align(name, nodes, input, roles, areNamed) ?? []);
  // Folded, a VGG with BatchNorms runs what one without them does; only names of weights can tell.
  return found.length === 1 ? found[0] : undefined;
}

/** Walks steps and nodes side by side; any disagreement ends it. */
function align(
  architecture: string,
  nodes: readonly Node[],
  input: Value,
  roles: Roles,
  areNamed: boolean,
): OrdinalNames | undefined {
  const values = new Map<string, Value>([[IMAGE, input]]);
  const folded = new Map<string, string>();
  let at = 0;
  let value = input;
  let convolution: { readonly name: string; readonly isFolded: boolean } | undefined;
  for (const step of stepsOf(architecture)) {
    const taken = takeNodes(step.kind, nodes, at);
    if (convolution && step.kind === 'bn' && (taken === 0 || convolution.isFolded)) {
      folded.set(convolution.name, step.name);
      values.delete(convolution.name);
    } else if (convolution?.isFolded || (taken === 0 && !canVanish(step))) return undefined;
    else if (taken > 0) {
      const module = weightModule(nodes[at]!);
      if (module !== undefined && module !== step.name) return undefined;
      const sources = step.reads.length > 0 ? step.reads.map((name) => values.get(name)) : [value];
      if (!readsExactly(nodes[at]!, sources, roles) || !hasShape(nodes[at]!, step)) return undefined;
      at += taken;
      const [output] = nodes[at - 1]!.outputs;
      if (!output) return undefined;
      value = output;
    }
    values.set(step.name, value);
    // A weight that lost its name among others that have theirs was computed again, with a BatchNorm in it.
    const isFolded = areNamed && taken > 0 && isAnonymous(nodes[at - 1]!);
    convolution = step.kind === 'conv' ? { name: step.name, isFolded } : undefined;
  }
  return at === nodes.length && !convolution?.isFolded ? { architecture, values, folded } : undefined;
}

/** Whether what a node reads of data is exactly the given values. */
function readsExactly(node: Node, sources: readonly (Value | undefined)[], roles: Roles): boolean {
  const read = node.inputs.flatMap((input) => {
    const value = input && behindIdentity(input);
    const isData = value?.producer
      ? roles.get(value.producer) === 'data'
      : value?.input && !value.initializer;
    return isData ? [value!] : [];
  });
  return (
    read.every((value) => sources.includes(value)) && sources.every((value) => value && read.includes(value))
  );
}

function behindIdentity(value: Value): Value {
  let at = value;
  while (at.producer?.opType === 'Identity' && at.producer.inputs[0]) at = at.producer.inputs[0];
  return at;
}

/** Whether a convolution has the kernel and channels of the step, where the file says. */
function hasShape(node: Node, { kernel, channels }: Step): boolean {
  const dims = node.inputs[1]?.initializer?.dims;
  if (!dims || kernel === undefined) return true;
  return dims.length === 4 && dims[2] === kernel && dims[3] === kernel && (channels ?? dims[0]) === dims[0];
}

/** The module whose weight a convolution, linear layer or BatchNorm reads, where the file still says so. */
function weightModule(node: Node): string | undefined {
  const weight = node.inputs[1];
  return weight?.initializer && /^(.+)\.weight$/.exec(weight.name)?.[1];
}

function isAnonymous(node: Node): boolean {
  return node.inputs[1]?.initializer !== undefined && weightModule(node) === undefined;
}

/** How many nodes from a place on are the step: none, one, or two for a linear layer in two operators. */
function takeNodes(kind: StepKind, nodes: readonly Node[], at: number): number {
  const node = nodes[at];
  if (!node) return 0;
  if (kind === 'pass')
    return node.opType === 'Dropout' || (node.opType === 'Concat' && node.inputs.length === 1) ? 1 : 0;
  // TorchScript writes average pooling that counts its padding as two nodes.
  if (kind === 'avgpool' && node.opType === 'Pad' && nodes[at + 1]?.opType === 'AveragePool') return 2;
  if (!OPERATORS[kind].includes(node.opType)) return 0;
  return node.opType === 'MatMul' && nodes[at + 1]?.opType === 'Add' ? 2 : 1;
}

/** Steps that do nothing may have left no node: Dropout, pooling to the size that is there already. */
function canVanish({ kind, name }: Step): boolean {
  return kind === 'pass' || (kind === 'avgpool' && name === 'avgpool');
}

/** What a name denotes: a step, or the last step under a path. */
export function readOrdinal(
  graph: Graph,
  path: string,
):
  | { readonly value: Value; readonly name: string; readonly architecture: string }
  | { readonly folded: string }
  | undefined {
  const names = ordinalNames(graph);
  if (!names) return undefined;
  const { architecture, values, folded } = names;
  const instead = folded.get(path);
  if (instead !== undefined) return { folded: instead };
  const name = values.has(path) ? path : [...values.keys()].findLast((step) => step.startsWith(`${path}.`));
  return name === undefined ? undefined : { value: values.get(name)!, name, architecture };
}
