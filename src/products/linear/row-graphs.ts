/** The graphs of this room: products of rows with a matrix or with each other, and sums over rows. D is the number of elements of a row. */
import { ELEMENT_TYPE } from '../../onnx/file/wire/schema.js';
import type { Constant, RowGraph, Step } from './row-graph.js';

/** The rows in double precision, as `x`. */
const WIDEN: Step = ['x', 'Cast', ['rows'], { to: ELEMENT_TYPE.float64 }];

/** 1 where a row has a label, `hot` `[R, C]`. It takes the constants {@link labelConstants}. */
const HOT: readonly Step[] = [
  ['labelColumn', 'Unsqueeze', ['labels', 'one']],
  ['isLabel', 'Equal', ['labelColumn', 'classNumbers']],
  ['hot', 'Cast', ['isLabel'], { to: ELEMENT_TYPE.float64 }],
];

function labelConstants(classes: number): { one: number[]; classNumbers: number[] } {
  return { one: [1], classNumbers: Array.from({ length: classes }, (_, index) => index) };
}

const PRODUCTS: readonly Step[] = [
  ['rowWeights', 'ReduceSum', ['weightedHot', 'one'], { keepdims: 1 }],
  ['weighted', 'Mul', ['centred', 'rowWeights']],
  ['products', 'Gemm', ['weighted', 'centred'], { transA: 1 }],
];

/** The sum of the squares of each row of a tensor. */
function sumSquares(of: string): Step {
  return ['squares', 'ReduceSumSquare', [of], { axes: [1], keepdims: 0 }];
}

/** Rows compared with queries, in float32. */
export interface QueryScores {
  /** The product of each row with each query: `[R, Q]`. */
  readonly dots: Float32Array;
  /** The sum of the squares of each row: `[R]`. */
  readonly squares: Float32Array;
}

/**
 * Compares rows `[R, D]` with queries.
 *
 * @param queries - `[Q, D]`; part of the graph, as its second factor, so that ONNX Runtime packs it once.
 */
export function queryGraph(queries: Float32Array, elements: number): RowGraph<QueryScores> {
  const count = queries.length / elements;
  return {
    inputs: { rows: ['float32', 'R', elements] },
    constants: { queries: { dims: [count, elements], data: queries } },
    steps: [['dots', 'Gemm', ['rows', 'queries'], { transB: 1 }], sumSquares('rows')],
    outputs: { dots: ['float32', 'R', count], squares: ['float32', 'R'] },
  };
}

/** The queries that are nearest to rows. */
export interface NearestQueries {
  /** The largest products of each row with queries, the largest first: `[R, K]`. */
  readonly most: Float32Array;
  /** The queries of these products; of equal ones the first comes first: `[R, K]`. */
  readonly places: BigInt64Array;
  /** The sum of the squares of each row: `[R]`. */
  readonly squares: Float32Array;
}

/** As {@link queryGraph}, of the products only the `count` largest of each row. */
export function nearestGraph(
  queries: Float32Array,
  elements: number,
  count: number,
): RowGraph<NearestQueries> {
  const { inputs, constants, steps } = queryGraph(queries, elements);
  return {
    inputs,
    constants: { ...constants, count: [count] },
    steps: [...steps, [['most', 'places'], 'TopK', ['dots', 'count']]],
    outputs: { most: ['float32', 'R', count], places: ['int64', 'R', count], squares: ['float32', 'R'] },
  };
}

/** Rows that lie in files, one after the other: `[R, D]` of any numbers. */
export type StoredRows = readonly Exclude<Constant, readonly number[]>[];

/** As {@link queryGraph}, with the rows as constants and queries `[Q, D]` as input: rows that stay where they are are asked again and again. */
export function storedGraph(rows: StoredRows, elements: number): RowGraph<QueryScores> {
  const steps = rows.flatMap((constant, i): Step[] => {
    const isFloat = 'data' in constant || constant.dtype === 'float32';
    const read = isFloat ? `rows${i}` : `wide${i}`;
    return [
      ...(isFloat ? [] : [[read, 'Cast', [`rows${i}`], { to: ELEMENT_TYPE.float32 }] as const]),
      [`dots${i}`, 'Gemm', [read, 'queries'], { transB: 1 }],
      [`squares${i}`, 'ReduceSumSquare', [read], { axes: [1], keepdims: 0 }],
    ];
  });
  const joined = (name: string): Step => [name, 'Concat', rows.map((_, i) => `${name}${i}`), { axis: 0 }];
  return {
    inputs: { queries: ['float32', 'Q', elements] },
    constants: Object.fromEntries(rows.map((constant, i) => [`rows${i}`, constant])),
    steps: [...steps, joined('dots'), joined('squares')],
    outputs: { dots: ['float32', 'R', 'Q'], squares: ['float32', 'R'] },
  };
}

/** The products of two blocks of rows, in float32. */
export interface PairProducts {
  /** `[L, R]`. */
  readonly dots: Float32Array;
  /** The largest of each row on the left: `[L]`. Few rows have a near-duplicate, and only these need to be looked through. */
  readonly most: Float32Array;
}

/** Multiplies left `[L, D]` by right `[R, D]`. */
export function pairGraph(elements: number): RowGraph<PairProducts> {
  return {
    inputs: { left: ['float32', 'L', elements], right: ['float32', 'R', elements] },
    steps: [
      ['dots', 'Gemm', ['left', 'right'], { transB: 1 }],
      ['most', 'ReduceMax', ['dots'], { axes: [1], keepdims: 0 }],
    ],
    outputs: { dots: ['float32', 'L', 'R'], most: ['float32', 'L'] },
  };
}

/** rows `[R, W]` float64 → `products` `[R, R]` of all pairs of them. */
export function gramGraph(): RowGraph<{ readonly products: Float64Array }> {
  return {
    inputs: { rows: ['float64', 'R', 'W'] },
    steps: [['products', 'Gemm', ['rows', 'rows'], { transB: 1 }]],
    outputs: { products: ['float64', 'R', 'R'] },
  };
}

/** rows `[R, D]` float64 → `y` `[R, D]`, rows · matrix. The matrix `[D, D]` is part of the graph. */
export function matrixGraph(matrix: Float64Array, elements: number): RowGraph<{ readonly y: Float64Array }> {
  return {
    inputs: { rows: ['float64', 'R', elements] },
    constants: { matrix: { dims: [elements, elements], data: matrix } },
    steps: [['y', 'MatMul', ['rows', 'matrix']]],
    outputs: { y: ['float64', 'R', elements] },
  };
}

/** rows `[R, D]` float32, weight `[K, D]`, bias `[K]` → `scores` `[R, K]`, rows · weightᵀ + bias. */
export function scoreGraph(elements: number): RowGraph<{ readonly scores: Float64Array }> {
  return {
    inputs: { rows: ['float32', 'R', elements], weight: ['float64', 'K', elements], bias: ['float64', 'K'] },
    steps: [WIDEN, ['scores', 'Gemm', ['x', 'weight', 'bias'], { transB: 1 }]],
    outputs: { scores: ['float64', 'R', 'K'] },
  };
}

/**
 * rows `[R, D]` float32, queries `[Q, D]` float64 → `distances` `[Q, R]`: ‖row‖² − 2·query·row, the squared distance less a number that
 * the rows share.
 */
export function distanceGraph(elements: number): RowGraph<{ readonly distances: Float64Array }> {
  return {
    inputs: { rows: ['float32', 'R', elements], queries: ['float64', 'Q', elements] },
    steps: [
      WIDEN,
      sumSquares('x'),
      ['distances', 'Gemm', ['queries', 'x', 'squares'], { transB: 1, alpha: { float: -2 } }],
    ],
    outputs: { distances: ['float64', 'Q', 'R'] },
  };
}

/** Weighted sums over a block of rows, which are taken from a mean. */
export interface BlockMoments {
  /** The sum of the rows of each class: `[C, D]`. */
  readonly sums: Float64Array;
  /** The sums of the products of all pairs of elements, if they are wanted: `[D, D]`. */
  readonly products?: Float64Array;
}

/** Adds up rows `[R, D]`, taken from the mean `[D]`, by their labels `[R]` and with the weights of the classes `[C]`. */
export function momentGraph(
  classes: number,
  elements: number,
  withProducts: boolean,
): RowGraph<BlockMoments> {
  return {
    inputs: {
      rows: ['float32', 'R', elements],
      mean: ['float64', elements],
      weights: ['float64', classes],
      labels: ['int64', 'R'],
    },
    constants: labelConstants(classes),
    steps: [
      WIDEN,
      ['centred', 'Sub', ['x', 'mean']],
      ...HOT,
      ['weightedHot', 'Mul', ['hot', 'weights']],
      ['sums', 'Gemm', ['weightedHot', 'centred'], { transA: 1 }],
      ...(withProducts ? PRODUCTS : []),
    ],
    outputs: {
      sums: ['float64', classes, elements],
      ...(withProducts ? { products: ['float64', elements, elements] } : {}),
    },
  };
}

/** Logistic regression over a block of rows: the loss of P problems, and its gradients. */
export interface BlockObjective {
  /** The sum of the weighted cross-entropies: `[P]`. */
  readonly loss: Float64Array;
  /** `[P·K, D]`. */
  readonly weightGradient: Float64Array;
  /** `[P·K]`. */
  readonly biasGradient: Float64Array;
}

/**
 * Evaluates P problems of C classes over rows `[R, D]`, with weight `[P·K, D]`, bias `[P·K]`, labels `[R]`, and importance `[R, P]`, the
 * weight of a row in a problem. A problem has K rows of weights: one for each class, or one for two classes, whose first class then
 * has the logit 0.
 */
export function objectiveGraph(classes: number, elements: number): RowGraph<BlockObjective> {
  const columns = columnsOf(classes);
  const isBinary = columns === 1;
  const ofTwo = (...steps: Step[]): Step[] => (isBinary ? steps : []);
  return {
    inputs: {
      rows: ['float32', 'R', elements],
      weight: ['float64', 'K', elements],
      bias: ['float64', 'K'],
      labels: ['int64', 'R'],
      importance: ['float64', 'R', 'P'],
    },
    constants: {
      ...labelConstants(classes),
      byProblem: [0, -1, columns],
      byColumn: [0, -1],
      zero: [0],
      two: [2],
      ...(isBinary ? { pair: { dims: [2], data: Float64Array.of(0, 1) } } : {}),
    },
    steps: [
      WIDEN,
      ['flat', 'Gemm', ['x', 'weight', 'bias'], { transB: 1 }],
      [isBinary ? 'single' : 'logits', 'Reshape', ['flat', 'byProblem']],
      // The logits 0 and z of two classes.
      ...ofTwo(['logits', 'Mul', ['single', 'pair']]),
      ['logs', 'LogSoftmax', ['logits'], { axis: 2 }],
      ...HOT,
      ['hots', 'Unsqueeze', ['hot', 'one']],
      ['ownLogs', 'Mul', ['logs', 'hots']],
      ['likelihood', 'ReduceSum', ['ownLogs', 'two'], { keepdims: 0 }],
      ['weighted', 'Mul', ['likelihood', 'importance']],
      ['gain', 'ReduceSum', ['weighted', 'zero'], { keepdims: 0 }],
      ['loss', 'Neg', ['gain']],
      ['probabilities', 'Exp', ['logs']],
      ['residual', 'Sub', ['probabilities', 'hots']],
      ['importances', 'Unsqueeze', ['importance', 'two']],
      ['weightedResidual', 'Mul', ['residual', 'importances']],
      ...ofTwo(
        ['second', 'Mul', ['weightedResidual', 'pair']],
        ['slopes', 'ReduceSum', ['second', 'two'], { keepdims: 1 }],
      ),
      ['slope', 'Reshape', [isBinary ? 'slopes' : 'weightedResidual', 'byColumn']],
      ['weightGradient', 'Gemm', ['slope', 'x'], { transA: 1 }],
      ['biasGradient', 'ReduceSum', ['slope', 'zero'], { keepdims: 0 }],
    ],
    outputs: {
      loss: ['float64', 'P'],
      weightGradient: ['float64', 'K', elements],
      biasGradient: ['float64', 'K'],
    },
  };
}

/** Rows of weights of a problem: two classes need one. */
export function columnsOf(classes: number): number {
  return classes === 2 ? 1 : classes;
}
