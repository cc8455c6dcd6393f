/**
 * A rewrite: what stays of a graph, and what is added to it or changed in it. Plain data, laid out as bytes by
 * lay-out.ts. The parts of a rewrite (image-input.ts, feature-parts.ts, dynamic-batch.ts) are functions from one to the next.
 */
import type { Graph, Node, Value } from '../graph.js';
import type { Layout } from '../layout.js';
import { namesInside } from '../scopes.js';
import { ELEMENT_TYPE, type NewNode, type NewTensor } from '../../onnx/schema.js';
import type { Dim } from '../../onnx/scan-value.js';
import type { BatchPlan } from './plan.js';
import { interiorInputs, type Cut, type CutOutput } from './prune.js';

/** The type of a tensor, as a rewrite states it. */
export interface TensorType {
  /** ONNX's number of the element type. */
  readonly elemType: number;
  /** Sizes; null leaves the rank open. */
  readonly dims: readonly Dim[] | null;
}

/** An input that a rewrite adds to the graph. */
export interface NewInput extends TensorType {
  readonly name: string;
}

/** An output of the written graph. */
export interface RewriteOutput extends CutOutput {
  /** The tensor of the written graph that holds it. */
  readonly tensor: string;
  /** Its type, where that is to be stated otherwise than the source does. */
  readonly type: TensorType | undefined;
  /** How its axes are meant, where added nodes changed that. */
  readonly layout: Layout | undefined;
  /** What is computed behind the value, a few words each. */
  readonly computed: readonly string[];
}

/** Names that a kept node reads or writes instead of its own, by position. */
export interface NodePatch {
  readonly inputs: ReadonlyMap<number, string>;
  readonly outputs: ReadonlyMap<number, string>;
  /** Its own name. */
  readonly name?: string;
}

export interface Rewrite {
  readonly cut: Cut;
  readonly outputs: readonly RewriteOutput[];
  /** Added inputs, in front of those that stay. */
  readonly inputs: readonly NewInput[];
  /** Inputs of the source whose tensors an added node computes. */
  readonly computedInputs: ReadonlySet<Value>;
  /** Added nodes that run before all kept ones. */
  readonly front: readonly NewNode[];
  /** Added nodes that run before a kept one. */
  readonly before: ReadonlyMap<Node, readonly NewNode[]>;
  /** Added nodes that run after all kept ones. */
  readonly back: readonly NewNode[];
  readonly tensors: readonly NewTensor[];
  readonly patches: ReadonlyMap<Node, NodePatch>;
  /** Values whose type the source states, and that is another now. */
  readonly restated: ReadonlyMap<Value, TensorType>;
  readonly notes: readonly string[];
  /** Nodes in execution order, with distinct names; imports of operator sets that nothing uses dropped. */
  readonly isTidy: boolean;
  /** What became of a fixed batch; undefined unless it was to be made dynamic. */
  readonly batch: BatchPlan | undefined;
  /** Names of the written graph: whoever adds something takes its names here. */
  readonly names: FreshNames;
}

/** Names that are taken, in any scope. */
export class FreshNames {
  readonly #taken: Set<string>;
  readonly #reserved: ReadonlySet<string>;

  /** @param reserved - Names for outputs: only they get them. */
  constructor(taken: Iterable<string>, reserved: Iterable<string> = []) {
    this.#taken = new Set(taken);
    this.#reserved = new Set(reserved);
  }

  /** The wanted name, or with a number behind it if that is taken or reserved; taken from now on. */
  take(wanted: string): string {
    let name = wanted;
    for (let k = 1; this.#taken.has(name) || this.#reserved.has(name); k++) name = `${wanted}_${k}`;
    this.#taken.add(name);
    return name;
  }

  /** A reserved name, or one like it if that is taken. */
  claim(wanted: string): string {
    if (this.#taken.has(wanted)) return this.take(wanted);
    this.#taken.add(wanted);
    return wanted;
  }
}

/** The tensor names of what stays, those inside bodies included. */
export function keptNames(cut: Cut): Set<string> {
  const names = new Set([...cut.values].map((value) => value.name));
  for (const node of cut.nodes) namesInside(node.scanned, names);
  return names;
}

/**
 * The rewrite that only cuts.
 *
 * @param typeOf - The type of a tensor inside the graph at which it was cut.
 * @param isTidy - Put nodes in order and under distinct names.
 */
export function startRewrite(cut: Cut, typeOf: (value: Value) => TensorType, isTidy = false): Rewrite {
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
      computed: [],
    })),
    inputs: interior.map((value) => {
      const { elemType, dims } = typeOf(value);
      return { name: value.name, elemType, dims };
    }),
    computedInputs: new Set(),
    front: [],
    before: new Map(),
    back: [],
    tensors: [],
    patches: startPatches(cut, new Set(interior), names, isTidy),
    restated: new Map(),
    notes: [],
    isTidy,
    batch: undefined,
    names,
  };
}

/** Nodes that no longer give out a tensor that is fed now, and nodes that need another name. */
function startPatches(
  { graph, nodes }: Cut,
  fed: ReadonlySet<Value>,
  names: FreshNames,
  isTidy: boolean,
): ReadonlyMap<Node, NodePatch> {
  const patches = new Map<Node, NodePatch>();
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
    patches.set(node, { inputs: new Map(), outputs: new Map(outputs), ...name });
  }
  return patches;
}

/** The inputs of the source that are still fed, in the file's order. */
export function keptInputs({ cut, computedInputs }: Rewrite): Value[] {
  return cut.inputs.filter((value) => value.input !== undefined && !computedInputs.has(value));
}

/** The oldest operator set whose arithmetic broadcasts, which all added nodes rely on. */
export const MIN_OPSET = 8;
/** The operator set of added nodes in a model that uses none of the default domain. */
export const ADDED_OPSET = 13;

/** The version of ONNX's default operator set that the model uses. */
export function opsetOf(graph: Graph): number {
  return graph.model.opsets.get('') ?? ADDED_OPSET;
}

const FLOAT_TYPES: ReadonlySet<number> = new Set([
  ELEMENT_TYPE.float32,
  ELEMENT_TYPE.float16,
  ELEMENT_TYPE.float64,
  ELEMENT_TYPE.bfloat16,
]);

/** Whether an element type is a floating-point number of two bytes or more. */
export function isFloatType(elemType: number): boolean {
  return FLOAT_TYPES.has(elemType);
}

/** A tensor of int64 values, as Reshape and its like take them. */
export function integerTensor(
  name: string,
  values: readonly number[],
  dims: readonly number[] = [values.length],
): NewTensor {
  return {
    name,
    elemType: ELEMENT_TYPE.int64,
    dims,
    data: new Uint8Array(BigInt64Array.from(values.map(BigInt)).buffer),
  };
}
