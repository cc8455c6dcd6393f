/** A rewrite in float32 → the same one with matrix products in 8 bits, and a report. */
import { TapirError } from '../../../base/errors.js';
import type { Node } from '../../../onnx/graph/graph.js';
import { opsetOf } from '../../../onnx/graph/operator-sets.js';
import type { Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import { constantTensor, isConstant, listFloats } from '../graph/constants.js';
import { halfForm } from '../graph/half-forms.js';
import { findProducts, type Product } from '../graph/products.js';
import { INT8_OPSET, withInt8, type Int8Matrix } from '../graph/with-int8.js';
import { roundWeights } from '../graph/quantize/roundings.js';
import { readInt8Facts } from '../../../onnx/graph/rewrite/int8-facts.js';
import { describeNode } from '../../../onnx/graph/rewrite/prune.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { modelInternals, type ModelState } from '../../../run/model/open/model-state.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { chooseProducts, type ProductSamples } from './choose-products.js';
import { layOutLowered, type Lowered } from './lower-rewrite.js';
import { readAllAttributes, readConstant } from './read-layers.js';
import { listKept, type LoweringReport } from './report.js';

/** What is asked for. */
export interface Int8Setup {
  /** Operators, and names of nodes, that stay in float32. */
  readonly keep: ReadonlySet<string>;
  /** Undefined to compute all products in 8 bits, unmeasured. */
  readonly samples: ProductSamples | undefined;
}

/** With a smaller share of the weights in 8 bits, the model hardly changes in size or speed. */
const LEAST_SHARE = 0.5;

/**
 * Computes products with constant matrices in 8 bits. Throws `PRECISION_UNSUPPORTED` if less than half of the weights are in such products,
 * or the operator set is older than 11; `PRECISION_TOO_LOW` if no choice of products is near enough to float32 on the samples.
 */
export async function lowerToInt8(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
  { keep, samples }: Int8Setup,
): Promise<Lowered> {
  const state = modelInternals.of(model);
  const opset = opsetOf(rewrite.cut.graph);
  if (opset < INT8_OPSET)
    throw unsupported(
      `it uses operator set ${opset}, and 8 bits need ${INT8_OPSET}; convert it first (onnx.version_converter)`,
    );
  if (readInt8Facts(rewrite.cut).isInt8)
    throw unsupported('its weights are in 8 bits already; take the float32 model that it was made of');
  const found = await searchProducts(state, rewrite, keep);
  checkShare(rewrite, found.products);
  const { matrices, products, kept } = await readMatrices(state, found.products);
  const choice = samples && (await chooseProducts(model, rewrite, products, matrices, samples));
  const chosen = choice?.chosen ?? products;
  const lossy = choice?.kept ?? new Map<Node, number>();
  const reasons = new Map([
    ...found.kept,
    ...kept,
    ...[...lossy.keys()].map((node): [Node, string] => [node, 'in 8 bits it loses too much on the samples']),
  ]);
  const made = withInt8(rewrite, chosen, matrices);
  const share = `${chosen.length} of ${chosen.length + reasons.size} products with constants`;
  const note = `int8: ${share} compute in 8 bits, with a scale per column of weights and per row of activations`;
  const lowered = { ...made, notes: [...made.notes, note] };
  const { chunks, ...bytes } = await layOutLowered(state, rewrite, lowered, naming);
  const report: LoweringReport = {
    precision: 'int8',
    tensors: listFloats(rewrite.cut).length,
    converted: new Set(chosen.map(({ matrix }) => matrix.tensor)).size,
    nodes: chosen.length,
    kept: listKept(reasons, lossy),
    overflows: [],
    underflows: [],
    ...bytes,
    casts: 0,
    measured: choice?.measured ?? null,
  };
  return { rewrite: lowered, chunks, report };
}

async function searchProducts(
  state: ModelState,
  rewrite: Rewrite,
  keep: ReadonlySet<string>,
): Promise<{ readonly products: readonly Product[]; readonly kept: ReadonlyMap<Node, string> }> {
  const { products, kept } = findProducts(rewrite, await readAllAttributes(state, rewrite));
  const reasons = new Map(kept);
  const isKept = ({ node }: Product): boolean => keep.has(node.opType) || keep.has(describeNode(node));
  for (const { node } of products.filter(isKept)) reasons.set(node, 'you keep it (keep)');
  return { products: products.filter((product) => !isKept(product)), kept: reasons };
}

/** Reads the matrices, one in float32 at a time. */
async function readMatrices(
  state: ModelState,
  products: readonly Product[],
): Promise<{
  readonly matrices: ReadonlyMap<string, Int8Matrix>;
  readonly products: readonly Product[];
  readonly kept: ReadonlyMap<Node, string>;
}> {
  const matrices = new Map<string, Int8Matrix | undefined>();
  for (const { matrix } of products)
    if (!matrices.has(matrix.key))
      // oxlint-disable-next-line no-await-in-loop -- one matrix in float32 at a time
      matrices.set(matrix.key, roundWeights(await readConstant(state, matrix), 1, undefined, 1));
  const isFinite = ({ matrix }: Product): boolean => matrices.get(matrix.key) !== undefined;
  const broken = products.filter((product) => !isFinite(product));
  return {
    matrices: new Map([...matrices].flatMap(([key, matrix]) => (matrix ? [[key, matrix]] : []))),
    products: products.filter(isFinite),
    kept: new Map(broken.map(({ node }) => [node, 'its matrix has values that are not finite'])),
  };
}

/** Refuses a model in which other weights count more: those of convolutions. */
function checkShare({ cut }: Rewrite, products: readonly Product[]): void {
  const inProducts = new Set(products.map(({ matrix }) => matrix.tensor));
  let [small, all] = [0, 0];
  const seen = new Set<unknown>();
  for (const { domain, opType, inputs } of cut.nodes) {
    if (domain !== '' || halfForm(opType) !== 'computes') continue;
    for (const value of inputs) {
      const source = value?.producer?.opType === 'Transpose' ? value.producer.inputs[0] : value;
      const tensor = source && isConstant(source) ? constantTensor(source) : undefined;
      if (!tensor || seen.has(tensor)) continue;
      seen.add(tensor);
      const weights = elementCount(tensor.dims);
      all += weights;
      if (inProducts.has(tensor)) small += weights;
    }
  }
  if (all > 0 && small / all >= LEAST_SHARE) return;
  const percent = all === 0 ? 0 : Math.round((100 * small) / all);
  throw unsupported(
    `only ${percent} % of the weights that it computes with are in products of matrices in float32, and convolutions gain too little from a scale per row for what they lose (tapir quantize --set activations=static may help)`,
  );
}

function unsupported(reason: string): TapirError<'PRECISION_UNSUPPORTED'> {
  return new TapirError(
    'PRECISION_UNSUPPORTED',
    `precision "int8" does not help this model: ${reason}; choose precision "float32", "float16" on a GPU, or engine "openvino" with "bfloat16"`,
    { details: { precision: 'int8', engine: 'onnxruntime', reason } },
  );
}
