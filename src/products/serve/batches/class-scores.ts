/** The output of a classifier: its labels, and how its scores become probabilities. */
import { readClassLabels } from '../../../extract/class-labels.js';
import { invalidOption } from '../../../base/checks.js';
import { listLargest } from '../../../onnx/tensor/vectors/largest.js';
import { softmax } from '../../../onnx/tensor/vectors/softmax.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { NodeInfo } from '../../../run/model/open/open-model.js';
import type { ImageFeatures } from './image-batcher.js';
import { listVectorOutputs } from './vector-outputs.js';

export interface ClassScores {
  readonly key: string;
  readonly labels: readonly string[];
  /**
   * What the scores are: `probabilities` as the model computes them; `logits`, whose softmax are the probabilities; or `scores` that
   * only order the classes.
   */
  readonly kind: 'probabilities' | 'logits' | 'scores';
}

/**
 * Finds the output with a score per class, or the reason why the model has no such output. Throws `OPTION_INVALID` for given labels that
 * fit no output.
 *
 * @param given - Labels; undefined for those in the model's metadata.
 */
export async function readClassScores(
  extractor: Extractor,
  given: readonly string[] | undefined,
  sample: ImageFeatures,
): Promise<ClassScores | { readonly problem: string }> {
  const { source } = extractor.model;
  const known = given ? { labels: given } : await readClassLabels(source);
  if ('problem' in known) return known;
  const { labels } = known;
  const [output, ...others] = listVectorOutputs(sample).filter(({ elements }) => elements === labels.length);
  if (output && others.length === 0) {
    const { tensor } = extractor.outputs.find(({ name }) => name === output.key)!;
    return { key: output.key, labels, kind: kindOf(source.nodes, tensor) };
  }
  const problem = `${output ? 'several outputs have' : 'no output has'} as many elements as there are labels, ${labels.length}`;
  if (given) throw invalidOption('labels', 'as many as an output has elements', problem);
  return { problem };
}

/** Operators that leave scores as they are. */
const PASSES: ReadonlySet<string> = new Set(['Identity', 'Cast', 'Reshape', 'Flatten', 'Squeeze']);

/**
 * Softmax or Sigmoid at the end gives probabilities, and so does what names itself `probabilities`; what names itself `scores` are
 * scores (the names that attachProbe gives). Anything else counts as logits.
 */
function kindOf(nodes: readonly NodeInfo[], tensor: string): ClassScores['kind'] {
  if (tensor === 'probabilities' || tensor === 'scores') return tensor;
  const producer = nodes.find(({ outputs }) => outputs.some(({ name }) => name === tensor));
  if (producer === undefined) return 'logits';
  if (PASSES.has(producer.opType)) return kindOf(nodes, producer.inputs[0]!);
  return producer.opType === 'Softmax' || producer.opType === 'Sigmoid' ? 'probabilities' : 'logits';
}

export interface RankedClass {
  readonly label: string;
  /** Position among the labels. */
  readonly index: number;
  /** As the model gives it. */
  readonly score: number;
  /** From 0 to 1; null if the scores only order the classes. */
  readonly probability: number | null;
}

/** The classes with the highest scores, the highest first; the first of equal ones first. */
export function rankClasses(scores: Float32Array, { labels, kind }: ClassScores, top: number): RankedClass[] {
  const probabilities = kind === 'logits' ? softmax(scores) : scores;
  return listLargest(scores, top).map((index) => ({
    label: labels[index]!,
    index,
    score: scores[index]!,
    probability: kind === 'scores' ? null : probabilities[index]!,
  }));
}
