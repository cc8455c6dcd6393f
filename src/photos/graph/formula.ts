/** Arithmetic as nodes of a graph: each call adds a node and returns the name of its result. Constants are written once. */
import { ELEMENT_TYPE } from '../../onnx/file/wire/schema.js';
import type { NewAttribute } from '../../onnx/file/wire/write-model.js';
import type { NodeBuilder } from '../../onnx/graph/rewrite/node-builder.js';

/** The name of a tensor in the graph. */
export type Name = string;

type Types = 'int64' | 'int32' | 'float32' | 'float64' | 'uint8';

/** Writes formulas with the nodes of a builder. Sizes are int64 scalars, places float64. */
export class Formula {
  readonly nodes: NodeBuilder;
  readonly #constants: Map<string, Name>;

  /** @param constants - Those of the graph around a branch, which the branch can read. */
  constructor(nodes: NodeBuilder, constants: Map<string, Name> = new Map()) {
    this.nodes = nodes;
    this.#constants = constants;
  }

  /** A node with one output. */
  op(opType: string, inputs: readonly Name[], attributes: Readonly<Record<string, NewAttribute>> = {}): Name {
    return this.nodes.add(opType, inputs, attributes);
  }

  /** A whole number, or a list of them. */
  int(values: number | readonly number[]): Name {
    return this.#constant('int64', values, () => this.nodes.integers(values));
  }

  int32(value: number): Name {
    return this.#constant('int32', value, (dims, list) =>
      this.nodes.tensor(ELEMENT_TYPE.int32, dims, Int32Array.from(list)),
    );
  }

  float64(value: number | readonly number[]): Name {
    return this.#constant('float64', value, (dims, list) =>
      this.nodes.tensor(ELEMENT_TYPE.float64, dims, Float64Array.from(list)),
    );
  }

  float32(value: number | readonly number[]): Name {
    return this.#constant('float32', value, (dims, list) => this.nodes.floats(dims, list));
  }

  /** Numbers by rows. */
  matrix(rows: number, columns: number, numbers: Float32Array): Name {
    const key = `${rows} × ${columns}: ${numbers.join()}`;
    const known = this.#constants.get(key) ?? this.nodes.floats([rows, columns], numbers);
    this.#constants.set(key, known);
    return known;
  }

  #constant(
    type: Types,
    values: number | readonly number[],
    make: (dims: readonly number[], list: readonly number[]) => Name,
  ): Name {
    const isList = typeof values !== 'number';
    const list = isList ? values : [values];
    const key = `${type} ${isList ? 'list' : 'one'} ${list.map((value) => (Object.is(value, -0) ? '-0' : value)).join()}`;
    const known = this.#constants.get(key) ?? make(isList ? [list.length] : [], list);
    this.#constants.set(key, known);
    return known;
  }

  /** A value that one of two branches computes; the graph runs no node of the other. */
  branch(condition: Name, yes: (b: Formula) => Name, no: (b: Formula) => Name): Name {
    const [then, otherwise] = [yes, no].map((make) => {
      const body = this.nodes.body();
      const output = make(new Formula(body, this.#constants));
      this.nodes.tensors.push(...body.tensors);
      return { body: { nodes: body.nodes, output } };
    });
    return this.op('If', [condition], { then_branch: then!, else_branch: otherwise! });
  }

  cast(input: Name, to: Types): Name {
    return this.op('Cast', [input], { to: ELEMENT_TYPE[to] });
  }

  add(a: Name, b: Name): Name {
    return this.op('Add', [a, b]);
  }

  sub(a: Name, b: Name): Name {
    return this.op('Sub', [a, b]);
  }

  mul(a: Name, b: Name): Name {
    return this.op('Mul', [a, b]);
  }

  /** Of whole numbers above 0: rounded down. */
  div(a: Name, b: Name): Name {
    return this.op('Div', [a, b]);
  }

  min(a: Name, b: Name): Name {
    return this.op('Min', [a, b]);
  }

  max(a: Name, b: Name): Name {
    return this.op('Max', [a, b]);
  }

  floor(a: Name): Name {
    return this.op('Floor', [a]);
  }

  where(condition: Name, yes: Name, no: Name): Name {
    return this.op('Where', [condition, yes, no]);
  }

  /** Of whole numbers above 0: rounded up. */
  divUp(a: Name, b: number): Name {
    return this.div(this.add(a, this.int(b - 1)), this.int(b));
  }

  /** A float64, rounded down to a whole number. */
  floorToInt(value: Name): Name {
    return this.cast(this.floor(value), 'int64');
  }

  /** The whole numbers from 0 on, so many. */
  range(count: Name): Name {
    return this.op('Range', [this.int(0), count, this.int(1)]);
  }

  /** Adds axes of one element. */
  unsqueeze(input: Name, axes: readonly number[]): Name {
    return this.op('Unsqueeze', [input, this.int(axes)]);
  }

  /** Scalars as a list; numbers are constants. */
  list(items: readonly (Name | number)[]): Name {
    if (items.every((item) => typeof item === 'number')) return this.int(items as readonly number[]);
    const parts = items.map((item) =>
      typeof item === 'number' ? this.int([item]) : this.unsqueeze(item, [0]),
    );
    return parts.length === 1 ? parts[0]! : this.op('Concat', parts, { axis: 0 });
  }

  reshape(input: Name, shape: readonly (Name | number)[]): Name {
    return this.op('Reshape', [input, this.list(shape)]);
  }

  /** The elements of some axes from a start to before an end. */
  slice(
    input: Name,
    cuts: readonly { readonly axis: number; readonly from: Name | number; readonly to: Name | number }[],
  ): Name {
    const list = (pick: (cut: (typeof cuts)[number]) => Name | number): Name => this.list(cuts.map(pick));
    return this.op('Slice', [
      input,
      list(({ from }) => from),
      list(({ to }) => to),
      list(({ axis }) => axis),
    ]);
  }

  /** Picks from an axis. */
  gather(input: Name, indices: Name, axis: number): Name {
    return this.op('Gather', [input, indices], { axis });
  }

  /** The element of a list, as a scalar. */
  at(list: Name, index: number): Name {
    return this.gather(list, this.int(index), 0);
  }

  transpose(input: Name, perm: readonly number[]): Name {
    return this.op('Transpose', [input], { perm });
  }

  /** The largest element, as a scalar. */
  largest(input: Name): Name {
    return this.op('ReduceMax', [input], { keepdims: 0 });
  }
}
