/**
 * A rewrite: the kept part of a graph, with its additions and changes, as plain data. lay-out.ts turns it into bytes. Each step
 * (image-input.ts, feature-parts.ts, dynamic-batch.ts) takes a rewrite and returns the next one.
 */
import type { NewNode, NewTensor, NewValue, TensorType } from '../../file/wire/write-model.js';
import type { ScannedTensor } from '../../file/scan/scan-value.js';
import type { Node, Value } from '../graph.js';
import type { Layout } from '../layout.js';
import type { TokenParts } from '../token-parts.js';
import { FreshNames, keptNames } from './fresh-names.js';
import type { BatchPlan } from './plan.js';
import { cutGraph, interiorInputs, outputsOf, type Cut, type CutOutput } from './prune.js';

/** An output of the written graph. */
export interface RewriteOutput extends CutOutput {
  /** The tensor of the written graph that holds it. */
  readonly tensor: string;
  /** Its type, if it differs from what the source states. */
  readonly type: TensorType | undefined;
  /** The meaning of its axes, if added nodes change it. */
  readonly layout: Layout | undefined;
  /** Its tokens, if added nodes change them; null if it has none any more. */
  readonly tokens: TokenParts | null | undefined;
  /** The parts that added nodes compute from the value, in a few words each. */
  readonly computed: readonly string[];
}

/** What is written in the place of a node of the source, if it is not the node as it is. */
export interface NodeEdit {
  /** Added nodes that run before it. */
  readonly before: readonly NewNode[];
  /** Added nodes that compute its outputs. The cut leaves the node itself out then. */
  readonly instead?: readonly NewNode[];
  /** New names for what it reads and gives, by position. */
  readonly inputs: ReadonlyMap<number, string>;
  readonly outputs: ReadonlyMap<number, string>;
  /** A new name for the node itself. */
  readonly name?: string;
}

/** A node of the source that runs once more, with other inputs and outputs. */
export interface RepeatedNode extends Pick<NewNode, 'name' | 'opType' | 'inputs' | 'outputs'> {
  readonly repeats: Node;
}

/** An added node: a new one, or one of the source once more. */
export type BackNode = NewNode | RepeatedNode;

/** Other elements for a tensor of the file, of another type. */
export interface NewElements {
  /** ONNX's number of the element type. */
  readonly elemType: number;
  /** In row-major order, little-endian. */
  readonly data: Uint8Array;
}

export interface Rewrite {
  readonly cut: Cut;
  readonly outputs: readonly RewriteOutput[];
  /** Added inputs. They come before the kept ones. */
  readonly inputs: readonly NewValue[];
  /** Inputs of the source whose tensors added nodes compute. */
  readonly computedInputs: ReadonlySet<Value>;
  /** Added nodes that run before all kept ones. */
  readonly front: readonly NewNode[];
  /** What happens to nodes of the source, besides what the cut drops. */
  readonly edits: ReadonlyMap<Node, NodeEdit>;
  /** Added nodes that run after all kept ones. */
  readonly back: readonly BackNode[];
  readonly tensors: readonly NewTensor[];
  /** New types for values whose type the source states. */
  readonly restated: ReadonlyMap<Value, TensorType>;
  /** Kept constants that get another element type: initializers, and tensors of Constant nodes. Their bytes are in memory. */
  readonly retyped: ReadonlyMap<ScannedTensor, NewElements>;
  readonly notes: readonly string[];
  /** The version of the default operator set that the written file states; undefined for that of the source. */
  readonly opset: number | undefined;
  /** Whether nodes are put in execution order under distinct names, and unused operator sets are dropped. */
  readonly isTidy: boolean;
  /** Types of tensors that added nodes compute. */
  readonly stated: readonly NewValue[];
  /** Entries that the metadata of the written file gets. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The outcome of the option `batch: 'dynamic'`; undefined without it. */
  readonly batch: BatchPlan | undefined;
  /** Gives names to all additions. */
  readonly names: FreshNames;
}

/**
 * The rewrite that only cuts.
 *
 * @param isTidy - Sort nodes and give them distinct names.
 * @param typeOf - The type of an interior tensor at which the graph was cut. Inputs of the graph itself have theirs.
 */
export function startRewrite(
  cut: Cut,
  isTidy = false,
  typeOf: (value: Value) => TensorType = () => NO_TYPE,
): Rewrite {
  const nodeNames = [...cut.nodes].map((node) => node.name);
  const keys = cut.outputs.map((output) => output.key);
  const names = new FreshNames([...keptNames(cut), ...nodeNames], keys);
  const interior = interiorInputs(cut);
  return {
    cut,
    outputs: cut.outputs.map((output) => ({
      ...output,
      tensor: output.value.name,
      type: undefined,
      layout: undefined,
      tokens: undefined,
      computed: [],
    })),
    inputs: interior.map((value) => {
      const { elemType, dims } = typeOf(value);
      return { name: value.name, elemType, dims };
    }),
    computedInputs: new Set(),
    front: [],
    edits: startEdits(cut, new Set(interior), names, isTidy),
    back: [],
    tensors: [],
    restated: new Map(),
    retyped: new Map(),
    notes: [],
    opset: undefined,
    isTidy,
    stated: [],
    metadata: {},
    batch: undefined,
    names,
  };
}

/** The part of a rewrite that only cuts which computes some values, with those as outputs, whatever they are. */
export function fetchValues({ cut, inputs, restated }: Rewrite, values: readonly Value[]): Rewrite {
  const types = new Map(inputs.map((input) => [input.name, input]));
  const outputs = outputsOf(values, 'asked');
  const wide = cutGraph(cut.graph, { outputs, inputs: cut.inputs, allowNonTensor: true });
  return { ...startRewrite(wide, false, ({ name }) => types.get(name)!), restated };
}

const NO_TYPE: TensorType = { elemType: 0, dims: null };

/** Renames outputs of kept nodes if their tensors are fed now, and nodes whose name is taken. */
function startEdits(
  { graph, nodes }: Cut,
  fed: ReadonlySet<Value>,
  names: FreshNames,
  isTidy: boolean,
): ReadonlyMap<Node, NodeEdit> {
  const edits = new Map<Node, NodeEdit>();
  const seen = new Set<string>();
  for (const node of graph.nodes) {
    if (!nodes.has(node)) continue;
    const outputs = node.outputs.flatMap((output, k): [number, string][] =>
      output && fed.has(output) ? [[k, names.take(`${output.name}/computed`)]] : [],
    );
    const isTwice = isTidy && node.name !== '' && seen.has(node.name);
    seen.add(node.name);
    if (outputs.length === 0 && !isTwice) continue;
    const name = isTwice ? { name: names.take(node.name) } : {};
    edits.set(node, { ...UNCHANGED, outputs: new Map(outputs), ...name });
  }
  return edits;
}

const UNCHANGED: NodeEdit = { before: [], inputs: new Map(), outputs: new Map() };

/** What happens to a node. */
export function editOf({ edits }: Pick<Rewrite, 'edits'>, node: Node): NodeEdit {
  return edits.get(node) ?? UNCHANGED;
}

/** A rewrite with another output in place of one, and the nodes that compute it. */
export function replaceOutput(
  rewrite: Rewrite,
  before: RewriteOutput,
  after: RewriteOutput,
  { nodes, tensors }: { readonly nodes: readonly NewNode[]; readonly tensors: readonly NewTensor[] },
): Rewrite {
  return {
    ...rewrite,
    outputs: rewrite.outputs.map((output) => (output === before ? after : output)),
    back: [...rewrite.back, ...nodes],
    tensors: [...rewrite.tensors, ...tensors],
  };
}

/** The rewrite with inputs in place of initializers, or of the Constants that hold them. Those that its cut lacks stay away. */
export function feedInitializers(rewrite: Rewrite, fed: readonly Value[]): Rewrite {
  const { cut } = rewrite;
  const needed = fed.filter((value) => cut.values.has(value));
  const values = new Set(cut.values);
  const nodes = new Set(cut.nodes);
  for (const value of needed) {
    values.delete(value);
    if (value.producer) nodes.delete(value.producer);
  }
  const inputs = needed.map(({ name, initializer }) => {
    const { elemType, dims } = initializer!;
    return { name, elemType, dims };
  });
  return { ...rewrite, cut: { ...cut, values, nodes }, inputs: [...rewrite.inputs, ...inputs] };
}

/** The tensors that a run fetches to have all outputs. */
export function fetchesOf({ outputs }: Rewrite): string[] {
  return [...new Set(outputs.map(({ tensor }) => tensor))];
}

/** The inputs of the source that must still be fed, in file order. */
export function keptInputs({ cut, computedInputs }: Rewrite): Value[] {
  return cut.inputs.filter((value) => value.input !== undefined && !computedInputs.has(value));
}

/** The nodes of the source in whose places something is written, in execution order: the kept ones, and those that are replaced. */
export function standingNodes(rewrite: Rewrite): Node[] {
  const { graph, nodes } = rewrite.cut;
  return graph.nodes.filter((node) => nodes.has(node) || editOf(rewrite, node).instead);
}

/** All nodes that a rewrite adds. */
export function addedNodes({ front, edits, back }: Rewrite): BackNode[] {
  const inPlace = [...edits.values()].flatMap(({ before, instead = [] }) => before.concat(instead));
  return [...front, ...inPlace, ...back];
}
