/** Builds the nodes that a rewrite adds, with unique names and in the form that the model's operator set requires. */
import type { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import type { NewAttribute, NewNode, NewTensor } from '../../file/wire/write-model.js';
import { refuseOperator } from '../operator-sets.js';
import type { FreshNames } from './fresh-names.js';

/** Since these operator sets, reductions read their axes from an input. */
const SUM_AXES_INPUT = 13;
const REDUCE_AXES_INPUT = 18;
/** Since this operator set, Slice reads its bounds from inputs. */
const SLICE_INPUTS = 10;

/** Since this operator set, Reshape reads its shape from an input. */
const RESHAPE_INPUT = 5;

type Attributes = Readonly<Record<string, NewAttribute>>;

/** Collects nodes and the tensors they need, in execution order. */
export class NodeBuilder {
  readonly nodes: NewNode[] = [];
  readonly tensors: NewTensor[] = [];
  readonly #names: FreshNames;
  readonly #label: string;
  readonly #refuse: ((reason: string) => TapirError) | undefined;
  readonly #isShort: boolean;
  /** The operator set of the model. */
  readonly opset: number;

  /**
   * @param label - What the nodes are for; part of their names.
   * @param refuse - Makes the error for an operator that the operator set lacks; without it, operators are not checked.
   * @param isShort - Whether names are short, for hundreds of nodes: a node and its output are called the same.
   */
  constructor(
    names: FreshNames,
    label: string,
    opset: number,
    refuse?: (reason: string) => TapirError,
    isShort = false,
  ) {
    this.#names = names;
    this.#label = label;
    this.#refuse = refuse;
    this.#isShort = isShort;
    this.opset = opset;
  }

  /**
   * Adds a node with one output.
   *
   * @param output - A name for the output that is already taken from the names; by default a new one.
   * @returns The name of the output.
   * @throws {@link TapirError} the given refusal, if ONNX Runtime lacks the operator in the model's operator set.
   */
  add(opType: string, inputs: readonly string[], attributes: Attributes = {}, output?: string): string {
    const name = this.#nameOf(opType);
    const result = output ?? (this.#isShort ? name : this.#names.take(`${name}_output_0`));
    this.nodes.push({ name, opType, inputs, outputs: [result], attributes });
    return result;
  }

  /** Adds a node with several outputs; returns their names. Throws as {@link NodeBuilder.add}. */
  addSeveral(
    opType: string,
    inputs: readonly string[],
    count: number,
    attributes: Attributes = {},
  ): readonly string[] {
    const name = this.#nameOf(opType);
    const outputs = Array.from({ length: count }, (_, k) => this.#names.take(`${name}_output_${k}`));
    this.nodes.push({ name, opType, inputs, outputs, attributes });
    return outputs;
  }

  /** Collects the nodes of a body, whose names differ from all others. */
  body(): NodeBuilder {
    return new NodeBuilder(this.#names, this.#label, this.opset, this.#refuse, this.#isShort);
  }

  #nameOf(opType: string): string {
    const reason = refuseOperator(opType, this.opset);
    if (reason !== undefined && this.#refuse) throw this.#refuse(reason);
    return this.#names.take(this.#isShort ? `${this.#label}/${opType}` : `tapir/${this.#label}/${opType}`);
  }

  /** Adds an int64 tensor: a scalar if `values` is a single number. */
  integers(values: number | readonly number[]): string {
    const list = [values].flat();
    const dims = typeof values === 'number' ? [] : [list.length];
    return this.tensor(ELEMENT_TYPE.int64, dims, BigInt64Array.from(list, BigInt));
  }

  /** Adds a tensor with these elements; returns its name. */
  tensor(elemType: number, dims: readonly number[], elements: ArrayBufferView, wanted?: string): string {
    const name = this.#names.take(wanted ?? (this.#isShort ? this.#label : `tapir/${this.#label}/const`));
    const { buffer, byteOffset, byteLength } = elements;
    this.tensors.push({ name, elemType, dims, data: new Uint8Array(buffer, byteOffset, byteLength) });
    return name;
  }

  /** Adds a tensor of float32 numbers; returns its name. */
  floats(dims: readonly number[], numbers: ArrayLike<number>, wanted?: string): string {
    const elements = numbers instanceof Float32Array ? numbers : Float32Array.from(numbers);
    return this.tensor(ELEMENT_TYPE.float32, dims, elements, wanted);
  }

  /** Adds a reduction over axes, such as ReduceMean. */
  reduce(opType: string, input: string, axes: readonly number[], keepDims: boolean): string {
    const keepdims = keepDims ? 1 : 0;
    return this.opset >= (opType === 'ReduceSum' ? SUM_AXES_INPUT : REDUCE_AXES_INPUT)
      ? this.add(opType, [input, this.integers(axes)], { keepdims })
      : this.add(opType, [input], { axes, keepdims });
  }

  /** Adds a Reshape to a shape that is known. */
  reshape(input: string, shape: readonly number[]): string {
    return this.opset < RESHAPE_INPUT
      ? this.add('Reshape', [input], { shape })
      : this.add('Reshape', [input, this.integers(shape)]);
  }

  /** Adds a Slice that keeps the elements of an axis from `start` to before `end`. */
  sliceFrom(input: string, axis: number, start: number, end: number = END): string {
    if (this.opset < SLICE_INPUTS)
      return this.add('Slice', [input], { axes: [axis], starts: [start], ends: [end] });
    return this.add('Slice', [input, this.integers([start]), this.integers([end]), this.integers([axis])]);
  }
}

/** An end beyond any axis. */
const END = 2 ** 31 - 1;
