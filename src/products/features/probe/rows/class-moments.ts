/** Sums over the rows of each fold: of each class, and of the products of all pairs of elements. */
import { groupBy } from '../../../../base/group-by.js';
import { mapInOrder } from '../../../../base/map-in-order.js';
import { momentGraph } from '../../../linear/row-graphs.js';
import { openRowSession, rowsTensor, vectorTensor } from '../../../linear/row-session.js';
import type { LabelledBlock, RowBlocks } from './labelled-rows.js';

/** Weighted sums over rows. Elements are taken from the mean of all rows, so that little is lost to rounding. */
export interface Moments {
  /** Sum of the weights of each class. */
  readonly weights: Float64Array;
  /** `[classes, elements]`. */
  readonly sums: Float64Array;
  /** `[elements, elements]`; empty if products were not asked for. */
  readonly products: Float64Array;
}

/** What the sums are over. */
export interface MomentsRequest {
  readonly rows: RowBlocks;
  readonly classWeights: readonly number[];
  /** The fold of each row. */
  readonly foldOf: Uint8Array;
  readonly folds: number;
  readonly withProducts: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Adds up the rows of each fold, in one pass. */
export async function addUpFolds(request: MomentsRequest): Promise<Moments[]> {
  const { rows, classWeights, foldOf, folds, withProducts, signal } = request;
  const { elements, mean } = rows;
  const classes = classWeights.length;
  const moments = Array.from({ length: folds }, () => emptyMoments(classes, elements, withProducts));
  const graph = momentGraph(classes, elements, withProducts);
  await using session = await openRowSession(graph, { isQuiet: true, signal });
  const weights = vectorTensor(Float64Array.from(classWeights));
  const run = async (block: LabelledBlock): Promise<LabelledBlock> => {
    for (const { fold, part, labels } of cutByFold(block, rows.labels, foldOf, elements)) {
      const target = moments[fold]!;
      for (const label of labels) target.weights[Number(label)]! += classWeights[Number(label)]!;
      const feeds = {
        rows: rowsTensor(part.data, elements),
        mean: vectorTensor(mean),
        weights,
        labels: { dtype: 'int64', dims: [part.rows], data: labels },
      } as const;
      // oxlint-disable-next-line no-await-in-loop -- a session runs one after the other
      const { sums, products } = await session.run(feeds);
      addTo(target.sums, sums);
      if (products) addTo(target.products, products);
    }
    return block;
  };
  for await (const done of mapInOrder(rows.pass(), 2, run)) void done;
  return moments;
}

function emptyMoments(classes: number, elements: number, withProducts: boolean): Moments {
  return {
    weights: new Float64Array(classes),
    sums: new Float64Array(classes * elements),
    products: new Float64Array(withProducts ? elements * elements : 0),
  };
}

/** The moments of all folds but one; of all folds for null. */
export function joinFolds(folds: readonly Moments[], heldOut: number | null): Moments {
  const sumOf = (part: keyof Moments): Float64Array => {
    const sum = new Float64Array(folds[0]![part].length);
    for (const [fold, moments] of folds.entries()) if (fold !== heldOut) addTo(sum, moments[part]);
    return sum;
  };
  return { weights: sumOf('weights'), sums: sumOf('sums'), products: sumOf('products') };
}

/** The rows of a block by fold. */
function* cutByFold(
  { first, rows, data }: LabelledBlock,
  labels: Int32Array,
  foldOf: Uint8Array,
  elements: number,
) {
  const places = groupBy(Array.from({ length: rows }).keys(), (i) => foldOf[first + i]!);
  for (const [fold, own] of places) {
    const part = new Float32Array(own.length * elements);
    for (const [at, i] of own.entries())
      part.set(data.subarray(i * elements, (i + 1) * elements), at * elements);
    const ownLabels = BigInt64Array.from(own, (i) => BigInt(labels[first + i]!));
    yield { fold, part: { rows: own.length, data: part }, labels: ownLabels };
  }
}

/** Adds numbers to sums, in place. */
export function addTo(sums: Float64Array, more: Float64Array): void {
  for (let i = 0; i < sums.length; i++) sums[i]! += more[i]!;
}
