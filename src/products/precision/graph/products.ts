/** Finds the matrix products of a rewrite that can be computed with 8-bit weights, and says why others cannot. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { editOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { constantTensor, findConstant, type AttributesOf, type LayerConstant } from './constants.js';
import { halfForm } from './half-forms.js';

/** A product with a constant matrix: `input [.., K] × matrix [K, N]`, plus a bias. */
export interface Product {
  /** A MatMul or a Gemm. */
  readonly node: Node;
  readonly input: Value;
  readonly matrix: ConstantMatrix;
  /** A factor of the product (Gemm's alpha). */
  readonly factor: number;
  /** What is added to the product (Gemm's C). */
  readonly bias: Value | undefined;
}

/** A float32 matrix `[K, N]` in the file. */
export interface ConstantMatrix extends LayerConstant {
  /** Equal for products that read the same values the same way round: tied weights are read both ways. */
  readonly key: string;
  readonly rows: number;
  readonly columns: number;
}

/** What a rewrite multiplies by constants. */
export interface ProductSearch {
  /** In execution order. */
  readonly products: readonly Product[];
  /** Other products with constants, which stay as they are, with the reason. */
  readonly kept: ReadonlyMap<Node, string>;
}

/** Products with fewer rows or columns gain nothing: the search for the scales of rows costs as much. */
const LEAST_SIZE = 32;

/** Finds the products, in execution order. */
export function findProducts(rewrite: Rewrite, attributesOf: AttributesOf): ProductSearch {
  const { cut } = rewrite;
  const products: Product[] = [];
  const kept = new Map<Node, string>();
  for (const node of cut.graph.nodes) {
    if (!cut.nodes.has(node) || node.domain !== '' || halfForm(node.opType) !== 'computes') continue;
    const isFed = editOf(rewrite, node).inputs.has(MATRIX_SLOT);
    const found = isFed ? 'a part that was added to the graph feeds it' : readProduct(node, attributesOf);
    if (typeof found === 'string') kept.set(node, found);
    else if (found) products.push(found);
  }
  return { products, kept };
}

const MATRIX_SLOT = 1;

/** A product, why it stays in float32, or undefined if it has no constant matrix. */
function readProduct(node: Node, attributesOf: AttributesOf): Product | string | undefined {
  const { opType, inputs } = node;
  const [left, right, bias] = inputs;
  if (opType !== 'MatMul' && opType !== 'Gemm') {
    const isWeighted = inputs.some((value) => value && constantTensor(value));
    return isWeighted
      ? 'it is a convolution or an Einsum: only products of matrices gain from 8 bits'
      : undefined;
  }
  if (!left || !right) return undefined;
  const constant = findConstant(right, attributesOf);
  if (!constant) return constantTensor(left) ? 'its constant matrix is on the left' : undefined;
  const attributes = attributesOf(node);
  const { tensor, isTransposed } = constant;
  if (tensor.elemType !== ELEMENT_TYPE.float32) return 'its matrix is not float32';
  if (tensor.dims.length !== 2) return 'its constant is not one matrix';
  if ((attributes.get('transA')?.int ?? 0) !== 0) return 'it transposes what it reads';
  if (bias && (attributes.get('beta')?.float ?? 1) !== 1) return 'it scales its bias';
  const isFlipped = isTransposed !== ((attributes.get('transB')?.int ?? 0) !== 0);
  const [rows, columns] = (isFlipped ? tensor.dims.toReversed() : tensor.dims) as [number, number];
  if (Math.min(rows, columns) < LEAST_SIZE) return `its matrix is small (${rows} × ${columns})`;
  const key = `${right.name}/${isFlipped}`;
  const matrix = { key, value: right, tensor, isTransposed: isFlipped, rows, columns };
  return { node, input: left, matrix, factor: attributes.get('alpha')?.float ?? 1, bias };
}
