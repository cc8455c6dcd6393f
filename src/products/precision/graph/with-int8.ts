/** A rewrite → the same one with matrix products in 8 bits: weights with a scale per column, activations with one per row. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { NewNode, NewTensor } from '../../../onnx/file/wire/write-model.js';
import { opsetOf } from '../../../onnx/graph/operator-sets.js';
import { dropUnread } from '../../../onnx/graph/rewrite/drop-unread.js';
import { NodeBuilder } from '../../../onnx/graph/rewrite/node-builder.js';
import { RewriteChanges } from '../../../onnx/graph/rewrite/rewrite-changes.js';
import { editOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { Product } from './products.js';

/** A matrix in 8 bits. */
export interface Int8Matrix {
  /** `[K, N]`, from -127 to 127. */
  readonly values: Int8Array;
  /** `[N]`: the value that 1 stands for. */
  readonly scales: Float32Array;
}

/** The least operator set: reductions count axes from the end since then. */
export const INT8_OPSET = 11;

/** Activations are whole numbers from 1 to 255 that stand for -1 to 1, times the largest magnitude of their row. */
const LEVELS = 127;
const ZERO = 128;
/** In place of the largest magnitude of a row of zeros. */
const TINY = 1e-30;

/**
 * Computes products in 8 bits. Each row of what a product reads has its own scale, from its largest magnitude: so a row's result
 * depends on nothing else in the batch. Products that read the same tensor share its 8-bit form. A NaN or an infinite value makes its
 * row NaN.
 *
 * @param matrices - The matrices of the products, by their keys.
 */
export function withInt8(
  rewrite: Rewrite,
  products: readonly Product[],
  matrices: ReadonlyMap<string, Int8Matrix>,
): Rewrite {
  const parts = new Int8Parts(rewrite, matrices);
  const changes = new RewriteChanges(rewrite);
  for (const product of products) {
    const { node } = product;
    const edit = changes.editOf(node);
    const output = edit.outputs.get(0) ?? node.outputs[0]!.name;
    edit.instead = parts.compute(product, output, edit.name ?? node.name);
  }
  changes.tensors.push(...parts.tensors);
  const gone = new Set(products.map(({ node }) => node));
  const cut = { ...rewrite.cut, nodes: new Set([...rewrite.cut.nodes].filter((node) => !gone.has(node))) };
  return dropUnread(
    { ...changes.rewrite, cut, names: parts.names },
    products.map(({ matrix }) => matrix.value),
  );
}

/** A tensor in 8 bits, with what its whole numbers stand for. */
interface Int8Rows {
  readonly values: string;
  /** `[.., 1]`: the largest magnitude of each row. */
  readonly magnitudes: string;
}

/** The nodes of products in 8 bits. What several of them read stands before the first. */
class Int8Parts {
  readonly names: Rewrite['names'];
  readonly tensors: NewTensor[] = [];
  readonly #opset: number;
  readonly #rewrite: Rewrite;
  readonly #matrices: ReadonlyMap<string, Int8Matrix>;
  readonly #rows = new Map<string, Int8Rows>();
  readonly #weights = new Map<string, { readonly values: string; readonly scales: Float32Array }>();
  #levels: { readonly step: string; readonly zero: string; readonly tiny: string } | undefined;

  constructor(rewrite: Rewrite, matrices: ReadonlyMap<string, Int8Matrix>) {
    this.#rewrite = rewrite;
    this.#matrices = matrices;
    this.#opset = opsetOf(rewrite.cut.graph);
    this.names = rewrite.names.fork();
  }

  /** The nodes of a product. The last one has the given name and output. */
  compute({ node, input, matrix, factor, bias }: Product, output: string, name: string): NewNode[] {
    const builder = new NodeBuilder(this.names, 'int8', this.#opset);
    const { inputs } = editOf(this.#rewrite, node);
    const rows = this.#quantise(inputs.get(0) ?? input.name, builder);
    const { values, scales } = this.#weightsOf(matrix.key, builder);
    const { zero } = this.#levelsOf(builder);
    const sums = builder.add('MatMulInteger', [rows.values, values, zero]);
    const steps = scales.map((scale) => (scale * factor) / LEVELS);
    const units = builder.floats([steps.length], steps);
    const inUnits = builder.add('Mul', [builder.add('Cast', [sums], { to: ELEMENT_TYPE.float32 }), units]);
    const added = bias && (inputs.get(2) ?? bias.name);
    const last = added === undefined ? output : undefined;
    const product = builder.add('Mul', [inUnits, rows.magnitudes], {}, last);
    if (added !== undefined) builder.add('Add', [product, added], {}, output);
    this.tensors.push(...builder.tensors);
    return [...builder.nodes.slice(0, -1), { ...builder.nodes.at(-1)!, name }];
  }

  #quantise(tensor: string, builder: NodeBuilder): Int8Rows {
    const known = this.#rows.get(tensor);
    if (known) return known;
    const { step, zero, tiny } = this.#levelsOf(builder);
    const most = builder.reduce('ReduceMax', tensor, [-1], true);
    const least = builder.add('Neg', [builder.reduce('ReduceMin', tensor, [-1], true)]);
    // Reductions of ONNX Runtime ignore NaN: a sum minus itself is 0, or NaN in a row that is not finite.
    const sum = builder.reduce('ReduceSum', tensor, [-1], true);
    const largest = builder.add('Max', [most, least, tiny]);
    const magnitudes = builder.add('Add', [largest, builder.add('Sub', [sum, sum])]);
    const scaled = builder.add('Mul', [tensor, builder.add('Reciprocal', [magnitudes])]);
    const values = builder.add('QuantizeLinear', [scaled, step, zero]);
    const rows = { values, magnitudes };
    this.#rows.set(tensor, rows);
    return rows;
  }

  #weightsOf(key: string, builder: NodeBuilder): { readonly values: string; readonly scales: Float32Array } {
    const known = this.#weights.get(key);
    if (known) return known;
    const { values, scales } = this.#matrices.get(key)!;
    const dims = [values.length / scales.length, scales.length];
    const weights = { values: builder.tensor(ELEMENT_TYPE.int8, dims, values), scales };
    this.#weights.set(key, weights);
    return weights;
  }

  #levelsOf(builder: NodeBuilder): { readonly step: string; readonly zero: string; readonly tiny: string } {
    this.#levels ??= {
      step: builder.floats([], [1 / LEVELS]),
      zero: builder.tensor(ELEMENT_TYPE.uint8, [], Uint8Array.of(ZERO)),
      tiny: builder.floats([], [TINY]),
    };
    return this.#levels;
  }
}
