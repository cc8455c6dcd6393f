/** Follows the tokens of a photo through a graph: where its patches are, and which learned tokens stand before them. */
import { tensorType, type Graph, type Node, type Value } from './graph.js';
import { imageInput } from './image-axes.js';
import { operatorOf } from './operators/operators.js';
import type { Constants } from './read-constants.js';
import { nodeRoles } from './roles.js';

/** Tokens that do not depend on the photo: some of those of a constant. */
export interface LearnedTokens {
  readonly constant: Value;
  /** The place of the first one in the constant. */
  readonly start: number;
  readonly count: number;
}

/** Tokens along one axis of a value: learned ones, then the patches of the photo. */
export interface TokenRun {
  readonly kind: 'tokens';
  readonly axis: number;
  readonly learned: readonly LearnedTokens[];
  /** Side of a patch in pixels; undefined if the patches were cut away. */
  readonly patch: number | undefined;
}

/** A photo, or the map of its patches: rows on one axis, columns on the next. */
interface Picture {
  readonly kind: 'picture';
  readonly rows: number;
  /** Pixels of the photo on a side of a place: 1 for the photo. */
  readonly patch: number;
  readonly channels: number | undefined;
}

export interface TokenFlow {
  /** The tokens of every value that has some. */
  readonly runs: ReadonlyMap<Value, TokenRun>;
  /** Single learned tokens that the graph takes out, as a head takes the class token. */
  readonly readAlone: readonly LearnedTokens[];
}

interface Walk {
  readonly constants: Constants;
  readonly found: Map<Value, TokenRun | Picture>;
  readonly readAlone: LearnedTokens[];
  /** Whether a value follows from the content of an input. */
  readonly isData: (value: Value) => boolean;
}

/** Walks the graph once, in execution order. A run of tokens ends at an operator that has no rule here, such as attention. */
export function followTokens(graph: Graph, constants: Constants): TokenFlow {
  const roles = nodeRoles(graph);
  const isData = ({ producer, initializer }: Value): boolean =>
    producer ? roles.get(producer) === 'data' : !initializer;
  const walk: Walk = { constants, found: new Map(), readAlone: [], isData };
  const image = imageInput(graph);
  if (image)
    walk.found.set(image.value, { kind: 'picture', rows: image.axis, patch: 1, channels: undefined });
  for (const node of graph.nodes) {
    const [output] = node.outputs;
    if (!output || !node.inputs.some((value) => value && walk.found.has(value))) continue;
    const result = (RULES[node.opType] ?? keepPlaces)(walk, node);
    if (!result) continue;
    walk.found.set(output, result);
    // The sum that a fused residual connection gives as well.
    if (SUMMING.has(node.opType) && node.outputs[3]) walk.found.set(node.outputs[3], result);
  }
  const runs = new Map<Value, TokenRun>();
  for (const [value, found] of walk.found) if (found.kind === 'tokens') runs.set(value, found);
  return { runs, readAlone: walk.readAlone };
}

type Rule = (walk: Walk, node: Node) => TokenRun | Picture | undefined;

/** Norms of a sum, which optimisers make of residual connections. */
const SUMMING: ReadonlySet<string> = new Set(['SkipLayerNormalization', 'SkipSimplifiedLayerNormalization']);

/** Operators whose results stay at the places of their inputs. */
const keepPlaces: Rule = (walk, node) => {
  const operator = operatorOf(node);
  const operands = node.inputs.flatMap((value) => (value && walk.found.get(value)) ?? []);
  // One operand may be a learned token that is added to each patch.
  const kept = operands.find((one) => one.patch !== undefined) ?? operands[0];
  if (!kept || !operator) return undefined;
  const isPointwise = operator.sizes === 'elementwise' || operator.sizes === 'broadcast';
  if (isPointwise || node.opType === 'BatchNormalization') return kept;
  if (kept.kind === 'picture') return undefined;
  if (operator.axes === 'normalised' || SUMMING.has(node.opType)) return kept;
  const [data, weight] = node.inputs;
  const isLinear = operator.axes === 'product' && walk.found.get(data!) === kept && !walk.isData(weight!);
  // A product over the tokens' own axis, the last one, mixes them.
  return isLinear && kept.axis < 2 ? kept : undefined;
};

/** A convolution whose windows are patches: they cover the photo and do not overlap. */
const conv: Rule = (walk, node) => {
  const [data, weight] = node.inputs;
  const picture = walk.found.get(data!);
  if (picture?.kind !== 'picture' || picture.rows !== 2) return undefined;
  const attributes = walk.constants.attributesOf(node);
  const ints = (name: string): readonly number[] => attributes.get(name)?.ints ?? [];
  const dims = weight && (weight.initializer?.dims ?? tensorType(weight)?.dims);
  const kernel = ints('kernel_shape').length > 0 ? ints('kernel_shape') : (dims?.slice(2) ?? []);
  const [height, width] = kernel;
  const strides = ints('strides').length > 0 ? ints('strides') : [1, 1];
  const isPatch =
    typeof height === 'number' &&
    height === width &&
    strides.every((stride) => stride === height) &&
    ints('pads').every((pad) => pad === 0) &&
    ints('dilations').every((step) => step === 1);
  const channels = dims?.[0];
  return isPatch
    ? {
        ...picture,
        patch: picture.patch * height,
        channels: typeof channels === 'number' ? channels : undefined,
      }
    : undefined;
};

const transpose: Rule = (walk, { inputs: [data], scanned: { perm } }) => {
  const found = walk.found.get(data!);
  if (!found || !perm) return undefined;
  if (found.kind === 'tokens') return { ...found, axis: perm.indexOf(found.axis) };
  const rows = perm.indexOf(found.rows);
  return perm[rows + 1] === found.rows + 1 ? { ...found, rows } : undefined;
};

/** A map `[N, C, H, W]` as tokens `[N, C, L]`, or `[N, H, W, C]` as `[N, L, C]`: what follows from sizes must not be another pair of axes. */
const reshape: Rule = (walk, node) => {
  const [data, target] = node.inputs;
  const [output] = node.outputs;
  const picture = walk.found.get(data!);
  if (picture?.kind !== 'picture' || !target) return undefined;
  const { rows: axis, patch, channels } = picture;
  const sizes = tensorType(output!)?.dims ?? listOf(walk, target);
  if (sizes?.length !== 3) return undefined;
  const channelAxis = axis === 1 ? 2 : 1;
  const isProven =
    (channels !== undefined && sizes[channelAxis] === channels) ||
    (listOf(walk, target)?.[axis] === -1 && axis > 0);
  return isProven ? { kind: 'tokens', axis, learned: [], patch } : undefined;
};

/** The elements of a list of sizes, as far as the file tells them; undefined if their number is not known. */
function listOf(walk: Walk, value: Value): readonly (number | undefined)[] | undefined {
  const known = walk.constants.integersOf(value);
  if (known) return known;
  const { producer } = value;
  const parts = producer?.inputs.map((part) => part && listOf(walk, part));
  if (producer?.opType === 'Concat')
    return parts!.every((part) => part !== undefined) ? parts!.flat() : undefined;
  if (producer?.opType === 'Unsqueeze') return [undefined];
  if (producer?.opType === 'Reshape') return parts![0];
  // What TorchScript writes for the -1 of `expand`.
  if (producer?.opType === 'Where') return parts![2];
  if (producer?.opType === 'Slice') {
    const [start] = parts![1] ?? [];
    const [end] = parts![2] ?? [];
    const length = typeof start === 'number' && typeof end === 'number' ? end - start : 0;
    if (length > 0 && length <= MOST_AXES) return Array.from({ length }, () => undefined);
  }
  const dims = tensorType(value)?.dims;
  return dims?.length === 1 && dims[0] === 1 ? [undefined] : undefined;
}

const MOST_AXES = 8;

/** Learned tokens and patches, one after the other. */
const concat: Rule = (walk, node) => {
  const runs = node.inputs.map((value) => walk.found.get(value!));
  const first = runs.find((run) => run?.kind === 'tokens');
  if (first?.kind !== 'tokens') return undefined;
  const given = walk.constants.attributesOf(node).get('axis')?.int ?? 0;
  if (given !== first.axis && !(given < 0 && given + 3 === first.axis)) return undefined;
  const learned: LearnedTokens[] = [];
  let patch: number | undefined;
  for (const [i, value] of node.inputs.entries()) {
    const run = runs[i];
    const isConstant = !run && value !== undefined && !walk.isData(value);
    const count = isConstant ? countTokens(walk, value, first.axis) : undefined;
    // Nothing may stand behind the patches.
    if (patch !== undefined) return undefined;
    if (count !== undefined) learned.push({ constant: value!, start: 0, count });
    else if (run?.kind !== 'tokens' || run.axis !== first.axis) return undefined;
    else {
      learned.push(...run.learned);
      patch = run.patch;
    }
  }
  return { ...first, learned, patch };
};

/** The tokens that a constant holds, before it is repeated for each row of a batch. */
function countTokens(walk: Walk, value: Value, axis: number): number | undefined {
  const size = (tensorType(value)?.dims ?? value.initializer?.dims)?.[axis];
  if (typeof size === 'number') return size;
  const { producer } = value;
  const [source, target] = producer?.inputs ?? [];
  if (!source) return undefined;
  if (producer!.opType !== 'Expand' || !target)
    return operatorOf(producer!)?.sizes === 'elementwise' ? countTokens(walk, source, axis) : undefined;
  const asked = listOf(walk, target)?.[axis];
  // A vector that becomes a token has no tokens yet.
  const isVector = (tensorType(source)?.dims ?? source.initializer?.dims)?.length === 1;
  return isVector || (asked !== undefined && asked > 1) ? asked : countTokens(walk, source, axis);
}

const slice: Rule = (walk, node) => {
  const run = walk.found.get(node.inputs[0]!);
  if (run?.kind !== 'tokens') return undefined;
  const attributes = walk.constants.attributesOf(node);
  const read = (input: number, name: string): readonly number[] | undefined => {
    const value = node.inputs[input];
    return value ? walk.constants.integersOf(value) : attributes.get(name)?.ints;
  };
  const [starts, ends] = [read(1, 'starts'), read(2, 'ends')];
  const axes = node.inputs[3] || attributes.has('axes') ? read(3, 'axes') : starts?.map((_, i) => i);
  const at = axes?.findIndex((axis) => (axis < 0 ? axis + 3 : axis) === run.axis);
  if (!starts || !ends || at === undefined) return undefined;
  if (at < 0) return run;
  const steps = node.inputs[4] ? read(4, 'steps') : undefined;
  return (steps?.[at] ?? 1) === 1 ? takeTokens(walk, run, starts[at]!, ends[at]!) : undefined;
};

const gather: Rule = (walk, node) => {
  const run = walk.found.get(node.inputs[0]!);
  const axis = walk.constants.attributesOf(node).get('axis')?.int ?? 0;
  const index = walk.constants.integersOf(node.inputs[1]!);
  if (run?.kind === 'tokens' && axis === run.axis && index?.length === 1 && index[0]! >= 0)
    takeTokens(walk, run, index[0]!, index[0]! + 1);
  return undefined;
};

/** Numbers that exporters write for "to the end" are larger. */
const MOST_TOKENS = 2 ** 31 - 2;

/** The tokens from one place to another; undefined if that cuts through the patches. */
function takeTokens(walk: Walk, run: TokenRun, start: number, end: number): TokenRun | undefined {
  const before = run.learned.reduce((sum, { count }) => sum + count, 0);
  const isToEnd = end > MOST_TOKENS;
  if (start < 0 || start > before || (!isToEnd && (end > before || end < start))) return undefined;
  let at = 0;
  const learned = run.learned.flatMap((tokens) => {
    const [from, to] = [Math.max(start, at), Math.min(isToEnd ? before : end, at + tokens.count)];
    const part = { ...tokens, start: tokens.start + from - at, count: to - from };
    at += tokens.count;
    return part.count > 0 ? [part] : [];
  });
  const taken: TokenRun = { ...run, learned, patch: isToEnd ? run.patch : undefined };
  if (taken.patch === undefined && end - start === 1) walk.readAlone.push(...learned);
  return taken;
}

const RULES: Readonly<Record<string, Rule>> = {
  Conv: conv,
  ConvInteger: conv,
  DynamicQuantizeLinear: (walk, { inputs: [data] }) => walk.found.get(data!),
  Transpose: transpose,
  Reshape: reshape,
  Concat: concat,
  Slice: slice,
  Gather: gather,
};
