/** The graph of a model: nodes and values that know each other. Built once by build-graph.ts, never changed. */
import type { NamesSidecar } from '../file/names-sidecar.js';
import type { ScannedNode } from '../file/scan/scan-graph.js';
import type { ScannedTensor, ScannedValueInfo, ValueType } from '../file/scan/scan-value.js';
import type { ScannedFunction, ScannedModel } from '../file/scan/scan.js';

/** A tensor of the main graph: an edge from its producer to its uses. */
export interface Value {
  readonly name: string;
  /** The graph input of this name. An initializer may also be listed as an input (always before IR 4). */
  readonly input: ScannedValueInfo | undefined;
  /**
   * The elements that the file holds for it: an initializer, or the tensor of a Constant node, which ONNX Runtime turns into one. Only
   * the latter has a producer.
   */
  readonly initializer: ScannedTensor | undefined;
  /** The node that computes it. */
  readonly producer: Node | undefined;
  /** Nodes that read it, directly or inside their bodies, in execution order. */
  readonly uses: readonly Node[];
  /** What the file says about it: as graph output, input, value_info, or from the initializer itself. */
  readonly info: ScannedValueInfo | undefined;
  readonly type: ValueType | undefined;
}

/** Scale and zero point of whole numbers that stand for others, one for the whole tensor. */
export interface Levels {
  readonly scale: Value;
  readonly zero: Value | undefined;
}

/** A node of the main graph. */
export interface Node {
  /** Position in execution order, which is file order if the file is sorted. */
  readonly index: number;
  readonly name: string;
  readonly opType: string;
  readonly domain: string;
  readonly overload: string;
  /** In order; undefined for an absent optional input. */
  readonly inputs: readonly (Value | undefined)[];
  readonly outputs: readonly (Value | undefined)[];
  /** Everything it needs: its inputs and what its bodies capture. */
  readonly reads: readonly Value[];
  readonly scanned: ScannedNode;
}

/** Why several definitions of a tensor do not go together. */
export interface Conflict {
  readonly reason: string;
  /** The first nodes among the definitions. */
  readonly nodes: readonly Node[];
}

export interface Graph {
  readonly model: ScannedModel;
  /** Nodes in execution order. */
  readonly nodes: readonly Node[];
  readonly values: ReadonlyMap<string, Value>;
  /** Graph inputs that must be fed: those without an initializer. */
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly isOutput: (value: Value) => boolean;
  /** Functions of the file by {@link operatorKey}. */
  readonly functions: ReadonlyMap<string, ScannedFunction>;
  /** Names of the source network from a file beside the model. */
  readonly sidecar: NamesSidecar | undefined;
  /** Tensors with several definitions that ONNX Runtime refuses. */
  readonly conflicts: ReadonlyMap<Value, Conflict>;
}

/** The type of a value that is a tensor, as far as the file states it. */
export function tensorType({ type }: Value): Extract<ValueType, { kind: 'tensor' }> | undefined {
  return type?.kind === 'tensor' ? type : undefined;
}

/** Whether a value exists in the main graph, rather than being only read or declared. */
export function isDefined(value: Value): boolean {
  return value.producer !== undefined || value.input !== undefined || value.initializer !== undefined;
}
