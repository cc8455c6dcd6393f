/** A classifier of vectors after an output: the output then holds its probabilities or scores. */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import { tensorType } from '../graph.js';
import { opsetOf } from '../operator-sets.js';
import { withLinearHead, type LinearHead } from './linear-head.js';
import { NodeBuilder } from './node-builder.js';
import { replaceOutput, type Rewrite, type RewriteOutput } from './rewrite.js';

/** A linear classifier, and what stands before and after it. */
export interface ClassifierHead extends LinearHead {
  /** Divide each vector by its Euclidean norm, at least 1e-12. */
  readonly l2Normalize: boolean;
  /** Turn the scores into probabilities. */
  readonly softmax: boolean;
}

/** The share of each class among the nearest vectors. */
export interface NeighbourHead {
  /** `[rows, features]`, row-major. */
  readonly vectors: Float32Array;
  /** The class of each vector. */
  readonly labels: Int32Array;
  readonly classes: number;
  readonly neighbours: number;
  readonly l2Normalize: boolean;
}

const LEAST_NORM = 1e-12;
/** Since this operator set, Max broadcasts and TopK reads its count from an input. */
const NEEDED_OPSET = 10;

/**
 * Adds a linear classifier after an output: `[N, …]` becomes `[N, classes]`.
 *
 * @param key - The key of the result, in place of the output's.
 * @throws {@link TapirError} `OUTPUT_MISFIT` for another number of features, or an operator set before 10.
 */
export function withClassifierHead(
  rewrite: Rewrite,
  output: RewriteOutput,
  key: string,
  { l2Normalize, softmax, ...linear }: ClassifierHead,
): Rewrite {
  checkOpset(rewrite, output);
  const features = linear.weight.length / linear.bias.length;
  const prepared = withVectors(rewrite, output, l2Normalize, features);
  const headed = withLinearHead(prepared, outputOf(prepared, output.key), key, linear);
  if (!softmax) return headed;
  return withLast(headed, key, linear.bias.length, 'softmax', (nodes, tensor) =>
    nodes.add('Softmax', [tensor], { axis: 1 }),
  );
}

/** Adds a vote of the nearest vectors: `[N, …]` becomes `[N, classes]`, shares that sum to 1. Throws as {@link withClassifierHead}. */
export function withNeighbourHead(
  rewrite: Rewrite,
  output: RewriteOutput,
  key: string,
  { vectors, labels, classes, neighbours, l2Normalize }: NeighbourHead,
): Rewrite {
  checkOpset(rewrite, output);
  const rows = labels.length;
  const features = vectors.length / rows;
  const prepared = withVectors(rewrite, output, l2Normalize, features);
  // 2·v·x − ‖v‖² is larger for nearer vectors.
  const bias = new Float32Array(rows);
  for (let i = 0; i < vectors.length; i++) bias[Math.floor(i / features)]! -= vectors[i]! ** 2;
  const nearness = { weight: vectors.map((value) => 2 * value), bias };
  const compared = withLinearHead(prepared, outputOf(prepared, output.key), key, nearness);
  const hot = new Float32Array(rows * classes);
  for (const [row, label] of labels.entries()) hot[row * classes + label] = 1;
  const taken = Math.min(neighbours, rows);
  return withLast(compared, key, classes, 'neighbours', (nodes, tensor) => {
    const [, nearest] = nodes.addSeveral('TopK', [tensor, nodes.integers([taken])], 2, { axis: 1 });
    const votes = nodes.add('Gather', [nodes.floats([rows, classes], hot), nearest!], { axis: 0 });
    return nodes.reduce('ReduceMean', votes, [1], false);
  });
}

/** Flattens an output to float32 vectors, and normalises them if asked. */
function withVectors(
  rewrite: Rewrite,
  output: RewriteOutput,
  l2Normalize: boolean,
  features: number,
): Rewrite {
  const stated = output.type ?? tensorType(output.value);
  const isFloat = stated?.elemType === ELEMENT_TYPE.float32;
  if (isFloat && !l2Normalize) return rewrite;
  const nodes = new NodeBuilder(rewrite.names, 'head', opsetOf(rewrite.cut.graph));
  let tensor = output.tensor;
  if (!isFloat) tensor = nodes.add('Cast', [tensor], { to: ELEMENT_TYPE.float32 });
  if (l2Normalize) {
    tensor = nodes.add('Flatten', [tensor], { axis: 1 });
    const norm = nodes.reduce('ReduceL2', tensor, [1], true);
    const least = nodes.add('Max', [norm, nodes.floats([], [LEAST_NORM])]);
    tensor = nodes.add('Div', [tensor, least]);
  }
  const dims = l2Normalize ? [stated?.dims?.[0] ?? null, features] : (stated?.dims ?? null);
  const type = { elemType: ELEMENT_TYPE.float32, dims };
  return replaceOutput(rewrite, output, { ...output, tensor, type, layout: undefined }, nodes);
}

/** Adds nodes after the output of a key, which then has so many classes. */
function withLast(
  rewrite: Rewrite,
  key: string,
  classes: number,
  word: string,
  add: (nodes: NodeBuilder, tensor: string) => string,
): Rewrite {
  const output = outputOf(rewrite, key);
  const nodes = new NodeBuilder(rewrite.names, 'head', opsetOf(rewrite.cut.graph));
  const tensor = add(nodes, output.tensor);
  const type = { ...output.type!, dims: [output.type!.dims![0]!, classes] };
  const made = { ...output, tensor, type, computed: [...output.computed, word] };
  return replaceOutput(rewrite, output, made, nodes);
}

function outputOf({ outputs }: Rewrite, key: string): RewriteOutput {
  return outputs.find((output) => output.key === key)!;
}

function checkOpset({ cut }: Rewrite, { request }: RewriteOutput): void {
  const opset = opsetOf(cut.graph);
  if (opset >= NEEDED_OPSET) return;
  const [actual, reason] = [`operator set ${opset}`, `a classifier needs operator set ${NEEDED_OPSET}`];
  throw new TapirError('OUTPUT_MISFIT', `"${request}" is of ${actual}, but ${reason}`, {
    details: { output: request, actual, reason },
  });
}
