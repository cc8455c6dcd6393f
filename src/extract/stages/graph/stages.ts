/** Nodes with the number of their stage → what each stage computes, takes and gives. Pure. */
import { TapirError } from '../../../base/errors.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import { describeNode, type Cut } from '../../../onnx/graph/rewrite/prune.js';
import type { CutLine } from '../../../onnx/graph/cost/cut-line.js';

/** One stage of a graph. */
export interface StagePart {
  /** The nodes that depend on an input. Those that depend on none belong to each stage that reads them. */
  readonly nodes: readonly Node[];
  /** What it takes: graph inputs, and what stages in front of it give. */
  readonly inputs: readonly Value[];
  /** What later stages take or the graph gives. */
  readonly outputs: readonly Value[];
}

/** The stage of each node of a line. */
export type StageOf = ReadonlyMap<Node, number>;

/** The stages that places on a line make. */
export function stagesAt({ nodes }: CutLine, chosen: readonly number[]): StageOf {
  return new Map(nodes.map((node, i) => [node, chosen.filter((at) => at < i).length]));
}

/** Where a stage ends: at a tensor, or with the nodes of a module, in front of which it begins. Neither: where the next one begins. */
export interface StageEnd {
  readonly until?: Value;
  readonly module?: ModuleNodes;
}

/** The nodes of a module, and those between them. */
export interface ModuleNodes {
  readonly name: string;
  readonly nodes: ReadonlySet<Node>;
}

/**
 * The stages with given ends: a stage holds what depends on the end in front of it, and not on its own.
 *
 * @throws {@link TapirError} `SPLIT_IMPOSSIBLE` if an end does not depend on the one before, if nothing depends on it, or if nodes belong to no stage.
 */
export function stagesBehind({ nodes }: CutLine, ends: readonly StageEnd[]): StageOf {
  const stageOf = new Map<Node, number>();
  const untilOf = new Map(ends.flatMap(({ until }, i) => (until ? [[until, i] as const] : [])));
  const moduleOf = new Map(
    ends.flatMap(({ module }, i) => [...(module?.nodes ?? [])].map((node) => [node, i] as const)),
  );
  /** The first stage that can read a value. */
  const afterValue = (value: Value, reader: Node): number => {
    const { producer } = value;
    const ended = untilOf.get(value) ?? (producer && moduleOf.get(producer));
    if (ended === undefined) return (producer && stageOf.get(producer)) ?? 0;
    return moduleOf.get(reader) === ended && !untilOf.has(value) ? ended : ended + 1;
  };
  for (const node of nodes) {
    const read = node.reads.map((value) => afterValue(value, node));
    stageOf.set(node, Math.max(moduleOf.get(node) ?? 0, ...read));
  }
  const filled = new Set(stageOf.values());
  for (const [i, end] of ends.entries()) {
    const name = end.until?.name ?? end.module?.name;
    for (const node of end.until ? [end.until.producer] : (end.module?.nodes ?? [])) {
      const stage = node && stageOf.get(node);
      if (stage === undefined) throw impossible(`"${name}" ${whyNowhere(node)}`);
      if (stage < i) throw impossible(`"${name}" does not depend on ${nameOfEnd(ends[i - 1]!)}; ${IN_ORDER}`);
      if (stage > i) throw impossible(`"${name}" depends on the end of a later stage; ${IN_ORDER}`);
    }
    if (!filled.has(i)) throw impossible(`stage ${i} would compute nothing`);
    if (end.module) checkNothingBetween(end.module, i, ends, stageOf);
  }
  if (filled.has(ends.length))
    throw impossible(
      `what follows ${nameOfEnd(ends.at(-1)!)} belongs to no stage: add one, without an end of its own`,
    );
  return stageOf;
}

/** Why no stage computes a node. */
function whyNowhere(node: Node | undefined): string {
  const seen = new Set<Node>();
  const open = node ? [node] : [];
  for (const { reads } of open)
    for (const { producer, input, initializer } of reads) {
      if (!producer && input && !initializer)
        return 'is needed by no output of the model, so no stage computes it';
      if (!producer || seen.has(producer)) continue;
      seen.add(producer);
      open.push(producer);
    }
  return node ? 'does not depend on an input' : 'is computed by no node';
}

const IN_ORDER = 'name the ends of stages in the order in which they are computed';

/** Refuses a module with nodes in front of it that the stage before leaves out. */
function checkNothingBetween(
  { name, nodes }: ModuleNodes,
  stage: number,
  ends: readonly StageEnd[],
  stageOf: StageOf,
): void {
  for (const node of nodes)
    for (const { producer } of node.reads)
      if (producer && !nodes.has(producer) && stageOf.get(producer) === stage)
        throw impossible(
          `"${describeNode(producer)}" stands between ${nameOfEnd(ends[stage - 1] ?? {})} and "${name}", and belongs to no stage; leave out where the stage in front ends, and it ends at "${name}"`,
        );
}

function nameOfEnd({ until, module }: StageEnd): string {
  const name = until?.name ?? module?.name;
  return name === undefined ? 'the stage in front' : `"${name}"`;
}

export function impossible(reason: string): TapirError<'SPLIT_IMPOSSIBLE'> {
  return new TapirError('SPLIT_IMPOSSIBLE', `the model cannot be split so: ${reason}`, {
    details: { reason },
  });
}

/**
 * Forms the stages `0` to `count − 1`. Sizes are computed as early as possible. A later stage computes them again where it has the tensors
 * whose sizes they are, and takes them as tensors of a few integers elsewhere.
 *
 * @throws {@link TapirError} `SPLIT_IMPOSSIBLE` for a stage that gives nothing.
 */
export function formStages(cut: Cut, assigned: StageOf, count: number): StagePart[] {
  const given = new Set(cut.inputs);
  const roles = nodeRoles(cut.graph);
  const isSize = ({ producer }: Value): boolean =>
    producer !== undefined && roles.get(producer) === 'shape' && assigned.has(producer);
  const early = withEarlySizes(assigned, roles);
  // A stage that computes nothing but sizes keeps them.
  const stageOf = new Set(early.values()).size === new Set(assigned.values()).size ? early : assigned;
  const parts = Array.from({ length: count }, () => ({
    nodes: [] as Node[],
    inputs: new Set<Value>(),
    outputs: new Set<Value>(),
  }));
  /** The stage that computes a value; undefined for a graph input, and for what depends on none. */
  const madeIn = (value: Value): number | undefined =>
    given.has(value) || !value.producer ? undefined : stageOf.get(value.producer);
  const take = (stage: number, value: Value): void => {
    const from = madeIn(value);
    if (from === stage || (from === undefined && !given.has(value))) return;
    parts[stage]!.inputs.add(value);
    if (from !== undefined) parts[from]!.outputs.add(value);
  };
  const sizes = parts.map(() => new Set<Value>());
  for (const [node, stage] of stageOf) {
    parts[stage]!.nodes.push(node);
    for (const value of node.reads)
      if (isSize(value)) sizes[stage]!.add(value);
      else take(stage, value);
  }
  for (const [stage, wanted] of sizes.entries())
    for (const value of wanted) {
      const isHere = (source: Value): boolean =>
        parts[stage]!.inputs.has(source) ||
        (!given.has(source) && [undefined, stage].includes(madeIn(source)));
      if (!sourcesOf(value, isSize).every(isHere)) take(stage, value);
    }
  // An output that depends on no input, or is one, comes from the first stage.
  for (const { value } of cut.outputs) parts[madeIn(value) ?? 0]!.outputs.add(value);
  for (const { value } of cut.outputs) if (given.has(value)) parts[0]!.inputs.add(value);
  const idle = parts.findIndex(({ outputs }) => outputs.size === 0);
  if (idle >= 0)
    throw impossible(
      `stage ${idle} would give nothing: it computes only sizes, which the stages behind it compute again; let it end at a tensor whose elements they read`,
    );
  return parts.map(({ nodes, inputs, outputs }) => ({
    nodes,
    inputs: [...inputs],
    outputs: [...outputs],
  }));
}

/** The assignment with each computation of sizes in the first stage that has what it reads. */
function withEarlySizes(assigned: StageOf, roles: ReadonlyMap<Node, string>): StageOf {
  const stageOf = new Map<Node, number>();
  for (const [node, stage] of assigned) {
    const sources = node.reads.map(({ producer }) => (producer && stageOf.get(producer)) ?? 0);
    stageOf.set(node, roles.get(node) === 'shape' ? Math.max(0, ...sources) : stage);
  }
  return stageOf;
}

/** The tensors whose sizes a value is computed from. */
function sourcesOf(value: Value, isSize: (value: Value) => boolean): Value[] {
  const sources = new Set<Value>();
  const seen = new Set<Value>();
  const open = [value];
  for (let at = open.pop(); at; at = open.pop()) {
    if (seen.has(at)) continue;
    seen.add(at);
    if (isSize(at)) open.push(...at.producer!.reads);
    else if (!at.initializer) sources.add(at);
  }
  return [...sources];
}
