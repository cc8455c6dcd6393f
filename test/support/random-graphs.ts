/** Small graphs of random operators on float64, for checks by finite differences. The same seed gives the same graph everywhere. */
import { ELEMENT_TYPE } from '../../src/onnx/file/wire/schema.js';
import { writeModel, type NewNode, type NewTensor } from '../../src/onnx/file/wire/write-model.js';

/** Numbers from a seed: mulberry32 (Tommy Ettinger, public domain). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(count: number): number {
    return Math.floor(this.unit() * count);
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }

  shuffle<Item>(items: readonly Item[]): Item[] {
    return items
      .map((item): [number, Item] => [this.unit(), item])
      .toSorted(([a], [b]) => a - b)
      .map(([, item]) => item);
  }

  /** Between −1 and 1. */
  values(count: number): Float64Array<ArrayBuffer> {
    return Float64Array.from({ length: count }, () => 2 * this.unit() - 1);
  }
}

export const countOf = (dims: readonly number[]): number => dims.reduce((product, size) => product * size, 1);

interface Made {
  readonly name: string;
  readonly dims: readonly number[];
}

export interface RandomGraph {
  readonly bytes: Uint8Array;
  readonly inputs: readonly Made[];
  readonly output: Made;
  readonly operators: readonly string[];
}

/** Builds a graph of up to eight operators. Sizes are written into the file, or left open. */
export function randomGraph(seed: number, operatorSet: number, isOpen: boolean): RandomGraph {
  const random = new Random(seed);
  const builder = new GraphBuilder(random, operatorSet);
  const rank = 1 + random.below(4);
  const dims = Array.from({ length: rank }, () => 1 + random.below(4));
  const inputs = [builder.input(dims), builder.input(dims.map((size) => (random.unit() < 0.3 ? 1 : size)))];
  if (rank > 1 && random.unit() < 0.5) inputs.push(builder.input(dims.slice(1)));
  const made: Made[] = [...inputs];
  for (let i = 3 + random.below(6); i > 0; i--) made.push(builder.step(made));
  // Everything that nothing reads takes part.
  const read = new Set(builder.nodes.flatMap((node) => node.inputs));
  const loose = made.filter(({ name }) => !read.has(name)).map((value) => builder.total(value));
  const output = builder.add('Sum', loose, []);
  const type = (value: Made, prefix: string) => ({
    name: value.name,
    elemType: ELEMENT_TYPE.float64,
    dims: isOpen ? value.dims.map((_, axis) => `${prefix}${axis}`) : value.dims,
  });
  const bytes = writeModel({
    irVersion: 8,
    opset: operatorSet,
    name: 'random',
    nodes: builder.nodes,
    tensors: builder.tensors,
    inputs: inputs.map((value) => type(value, `${value.name}_`)),
    outputs: [type(output, 'y_')],
  });
  return { bytes, inputs, output, operators: builder.nodes.map(({ opType }) => opType) };
}

const UNARY = ['Tanh', 'Sigmoid', 'Sin', 'Neg', 'Identity', 'Softsign', 'Elu', 'Exp'] as const;
const BINARY = ['Add', 'Sub', 'Mul', 'Div'] as const;
const REDUCTIONS = ['ReduceSum', 'ReduceMean', 'ReduceSumSquare', 'ReduceLogSumExp', 'ReduceProd'] as const;

class GraphBuilder {
  readonly nodes: NewNode[] = [];
  readonly tensors: NewTensor[] = [];
  readonly #random: Random;
  readonly #operatorSet: number;
  #count = 0;

  constructor(random: Random, operatorSet: number) {
    this.#random = random;
    this.#operatorSet = operatorSet;
  }

  input(dims: readonly number[]): Made {
    return { name: `x${this.#count++}`, dims };
  }

  add(
    opType: string,
    inputs: readonly (Made | string)[],
    dims: readonly number[],
    attributes: NewNode['attributes'] = {},
  ): Made {
    const name = `t${this.#count++}`;
    const names = inputs.map((value) => (typeof value === 'string' ? value : value.name));
    this.nodes.push({ name: `n_${name}`, opType, inputs: names, outputs: [name], attributes });
    return { name, dims };
  }

  /** The sum of all elements, so that any values can be added. */
  total(value: Made): Made {
    return this.add('ReduceSum', [value], [], { keepdims: 0 });
  }

  /** Adds a random operator that reads what is there. */
  step(made: readonly Made[]): Made {
    const random = this.#random;
    const value = random.pick(made.slice(-4));
    const rank = value.dims.length;
    const axis = rank === 0 ? 0 : random.below(rank);
    const kinds: (() => Made | undefined)[] = [
      () => this.#unary(value),
      () => this.#binary(value, random.pick(made)),
      () => this.#binary(value, random.pick(made)),
      () => this.#reduce(value),
      () => this.#product(value),
      () => this.#move(value, axis),
      () => this.#move(value, axis),
      () => this.#pick(value, axis),
      () => (rank > 0 ? this.add('Softmax', [value], value.dims, { axis: rank - 1 }) : undefined),
    ];
    for (const kind of random.shuffle(kinds)) {
      const result = kind();
      if (result && countOf(result.dims) <= 256) return result;
      if (result) this.nodes.pop();
    }
    return this.add('Tanh', [value], value.dims);
  }

  #unary(value: Made): Made {
    const op = this.#random.pick(UNARY);
    // Small exponents keep the differences exact.
    return op === 'Exp'
      ? this.add(op, [this.add('Tanh', [value], value.dims)], value.dims)
      : this.add(op === 'Softsign' || op === 'Elu' ? 'Tanh' : op, [value], value.dims);
  }

  #binary(a: Made, b: Made): Made | undefined {
    const dims = broadcast(a.dims, b.dims);
    if (!dims) return undefined;
    const op = this.#random.pick(BINARY);
    if (op !== 'Div') return this.add(op, [a, b], dims);
    return this.add(op, [a, this.add('Exp', [this.add('Tanh', [b], b.dims)], b.dims)], dims);
  }

  #reduce(value: Made): Made {
    const rank = value.dims.length;
    const op = this.#random.pick(REDUCTIONS);
    const axes = Array.from({ length: rank }, (_, axis) => axis).filter(() => this.#random.unit() < 0.5);
    const keepdims = this.#random.below(2);
    const given = axes.length === 0 ? Array.from({ length: rank }, (_, axis) => axis) : axes;
    const dims = value.dims.flatMap((size, axis) => (given.includes(axis) ? (keepdims ? [1] : []) : [size]));
    const inInput = this.#operatorSet >= (op === 'ReduceSum' ? 13 : 18);
    if (axes.length === 0) return this.add(op, [value], dims, { keepdims });
    return inInput
      ? this.add(op, [value, this.#integers(axes)], dims, { keepdims })
      : this.add(op, [value], dims, { keepdims, axes });
  }

  /** A product with itself, turned: its rows' scalar products. */
  #product(value: Made): Made | undefined {
    const rank = value.dims.length;
    if (rank < 2) return undefined;
    const perm = [...Array.from({ length: rank - 2 }, (_, axis) => axis), rank - 1, rank - 2];
    const turned = this.add(
      'Transpose',
      [value],
      perm.map((axis) => value.dims[axis]!),
      { perm },
    );
    const rows = value.dims[rank - 2]!;
    return this.add('MatMul', [value, turned], [...value.dims.slice(0, -2), rows, rows]);
  }

  #move(value: Made, axis: number): Made | undefined {
    const { dims } = value;
    const rank = dims.length;
    if (rank === 0) return undefined;
    const grown = (size: number): number[] => dims.map((old, i) => (i === axis ? size : old));
    const moves: (() => Made)[] = [
      () => this.add('Concat', [value, value], grown(2 * dims[axis]!), { axis }),
      () => this.add('Reshape', [value, this.#integers([-1])], [countOf(dims)]),
      () => {
        const perm = this.#random.shuffle(dims.map((_, i) => i));
        const turned = perm.map((i) => dims[i]!);
        return this.add('Transpose', [value], turned, { perm });
      },
      () => this.add('Flatten', [value], flattened(dims, axis), { axis }),
      () => this.add('Expand', [value, this.#integers([2, ...dims])], [2, ...dims]),
      () =>
        this.add(
          'Tile',
          [value, this.#integers(grown(2).map((_, i) => (i === axis ? 2 : 1)))],
          grown(2 * dims[axis]!),
        ),
      () => {
        const pads = [
          ...dims.map((_, i) => (i === axis ? 1 : 0)),
          ...dims.map((_, i) => (i === axis ? 2 : 0)),
        ];
        return this.add('Pad', [value, this.#integers(pads)], grown(dims[axis]! + 3));
      },
    ];
    return this.#random.pick(moves)();
  }

  #pick(value: Made, axis: number): Made | undefined {
    const { dims } = value;
    if (dims.length === 0) return undefined;
    const size = dims[axis]!;
    const grown = (length: number): number[] => dims.map((old, i) => (i === axis ? length : old));
    if (this.#random.unit() < 0.5) {
      const indices = Array.from({ length: 3 }, () => this.#random.below(2 * size) - size);
      return this.add('Gather', [value, this.#integers(indices)], grown(3), { axis });
    }
    if (size < 2) return undefined;
    const [start, step] = [this.#random.below(size - 1), 1 + this.#random.below(2)];
    const bounds = [[start], [size], [axis], [step]].map((list) => this.#integers(list));
    return this.add('Slice', [value, ...bounds], grown(Math.ceil((size - start) / step)));
  }

  #integers(values: readonly number[]): string {
    const name = `c${this.#count++}`;
    this.tensors.push(integerTensor(name, values));
    return name;
  }
}

/** A list of int64 values, as Reshape and similar operators read them. */
export function integerTensor(name: string, values: readonly number[]): NewTensor {
  const data = new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
  return { name, elemType: ELEMENT_TYPE.int64, dims: [values.length], data };
}

function broadcast(a: readonly number[], b: readonly number[]): number[] | undefined {
  const rank = Math.max(a.length, b.length);
  const dims: number[] = [];
  for (let i = 1; i <= rank; i++) {
    const [m, n] = [a.at(-i) ?? 1, b.at(-i) ?? 1];
    if (m !== n && m !== 1 && n !== 1) return undefined;
    dims.unshift(Math.max(m, n));
  }
  return dims;
}

function flattened(dims: readonly number[], axis: number): number[] {
  return [countOf(dims.slice(0, axis)), countOf(dims.slice(axis))];
}
