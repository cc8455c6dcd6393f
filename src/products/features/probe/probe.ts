/** A probe: a small classifier of vectors, and how it was made. */
import { Internals } from '../../../run/model/open/internals.js';
import type { TransformRecord } from '../../../datasets/records/run-record.js';
import { invalidOption, isPlainObject, isText } from '../../../base/checks.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { highest, listLargest } from '../../../onnx/tensor/vectors/largest.js';
import { softmax } from '../../../onnx/tensor/vectors/softmax.js';
import { unitVector } from '../../../onnx/tensor/vectors/unit-vector.js';
import type { ResolvedRequest } from '../../../onnx/graph/rewrite/plan.js';
import type { Evaluation, Suspect } from './fit/evaluate.js';
import { LEAST_NORM, type VectorNorm } from './rows/labelled-rows.js';
import type { ClassScorer } from './rows/linear-scores.js';

export type ProbeKind = 'logistic' | 'ridge' | 'knn' | 'centroid';

export const PROBE_KINDS: readonly ProbeKind[] = ['logistic', 'ridge', 'knn', 'centroid'];

/** A score for each class: weight · vector + bias. */
export interface LinearProbeHead extends ClassScorer {
  readonly type: 'linear';
  /** `softmax` makes probabilities of the scores. */
  readonly activation: 'softmax' | 'none';
}

/** The share of each class among the nearest vectors. */
export interface NeighbourProbeHead {
  readonly type: 'neighbours';
  /** `[rows, elements]`, row-major. */
  readonly vectors: Float32Array;
  /** The class of each vector. */
  readonly labels: Int32Array;
  readonly neighbours: number;
}

export type ProbeHead = LinearProbeHead | NeighbourProbeHead;

/** Where the vectors of a probe come from: what the manifest of its dataset records. */
export interface ProbeSource {
  /** The model file; null if the manifest does not say. */
  readonly model: { readonly file: string; readonly sha256: string } | null;
  /** The requested name and what is computed from the tensor. */
  readonly request: ResolvedRequest | null;
  readonly transform: TransformRecord | null;
}

/** A strength of the penalty, and how well its classifiers predict the folds that they have not seen. */
export interface StrengthResult {
  readonly strength: number;
  readonly accuracy: number;
  /** Mean cross-entropy in nats; null for ridge. */
  readonly logLoss: number | null;
}

/** A row whose label may be wrong, with its path. */
export interface SuspectImage extends Omit<Suspect, 'row' | 'given' | 'suggested'> {
  /** As the dataset records it; null for an image given as bytes. */
  readonly path: string | null;
  /** Row in the features of the dataset. */
  readonly row: number;
  readonly given: string;
  readonly suggested: string;
}

/** The results of a probe on rows that it has not seen: each fold is predicted by a classifier of the others. */
export interface ProbeResults extends Omit<Evaluation, 'suspects'> {
  readonly folds: number;
  /** Labelled rows. */
  readonly rows: number;
  /**
   * Images that a classifier which has not seen them takes for another class than their label, at most 1000. The largest margin between both
   * classes comes first: the ratio of probabilities, the difference of other scores. Wrong labels gather at the top; hard images follow.
   */
  readonly suspects: readonly SuspectImage[];
}

/** A classifier of vectors. Plain data; see {@link trainProbe}, {@link saveProbe} and {@link attachProbe}. */
export interface Probe {
  readonly kind: ProbeKind;
  /** Labels, in the order of the scores. */
  readonly classes: readonly string[];
  /** Output key of the feature, and the dims of one row. */
  readonly key: string;
  readonly dims: readonly number[];
  /** What happens to a vector first. */
  readonly normalize: VectorNorm;
  readonly head: ProbeHead;
  /** scikit-learn's `C` of a logistic probe, its `alpha` of a ridge probe; else null. */
  readonly strength: number | null;
  /** All strengths that were tried. */
  readonly strengths: readonly StrengthResult[];
  /** Null if no folds were held out. */
  readonly results: ProbeResults | null;
  /** Where the labels came from; null for a Map. */
  readonly labels: string | null;
  readonly source: ProbeSource;
  /** What was left out, and what did not converge. */
  readonly warnings: readonly string[];
}

/** A vector's classes. */
export interface ProbePrediction {
  /** The label with the highest score. */
  readonly label: string;
  /** A score for each class: probabilities that sum to 1, unless the kind is ridge or centroid. */
  readonly scores: Float64Array;
}

const probes = new Internals<Probe, never>('probe', 'a probe, as trainProbe or readProbe gives it');

/**
 * Checks that a value, such as parsed JSON, is a probe whose numbers fit its classes and dims.
 *
 * @returns The same value.
 * @throws {@link TapirError} `OPTION_INVALID` for anything else, such as a promise of a probe.
 *
 * @example
 * ```ts
 * import { checkProbe, readProbe } from 'onnx-tapir/features';
 *
 * const given: unknown = await readProbe('probe.json');
 * console.log(checkProbe(given).classes); // ['cat', 'dog']
 * ```
 */
export function checkProbe(probe: unknown): Probe {
  if (findProbeFault(probe) !== undefined) throw probes.refuse(probe);
  return probe as Probe;
}

/** Why a value is not a probe whose numbers fit its classes and dims; undefined if it is one. */
export function findProbeFault(probe: unknown): string | undefined {
  if (!isPlainObject(probe)) return 'it is no probe';
  const { kind, key, classes, dims, normalize, head, source, warnings, strengths } = probe;
  const isWhole =
    PROBE_KINDS.includes(kind as ProbeKind) &&
    isText(key) &&
    isListOf(classes, (label) => typeof label === 'string') &&
    isListOf(dims, (size) => Number.isSafeInteger(size) && (size as number) >= 0) &&
    (normalize === 'l2' || normalize === 'none') &&
    isPlainObject(head) &&
    isListOf(warnings, (warning) => typeof warning === 'string') &&
    isListOf(strengths, isPlainObject);
  if (!isWhole) return 'parts of it are missing';
  if (!isSource(source)) return 'it does not say where its vectors come from';
  const elements = elementCount(dims as readonly number[]);
  return fits(head, (classes as readonly string[]).length, elements)
    ? undefined
    : 'its weights do not fit its classes and dims';
}

function isListOf(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && Array.from(value as readonly unknown[]).every(isItem);
}

function isSource(source: unknown): boolean {
  if (!isPlainObject(source)) return false;
  const { model, request } = source;
  return (
    (model === null || (isPlainObject(model) && isText(model['file']) && isText(model['sha256']))) &&
    (request === null || (isPlainObject(request) && isText(request['request']) && isText(request['key'])))
  );
}

function fits(head: Readonly<Record<string, unknown>>, classes: number, elements: number): boolean {
  const { type, weight, bias, vectors, labels, neighbours } = head;
  if (type === 'linear') return isNumbers(weight, classes * elements) && isNumbers(bias, classes);
  return (
    type === 'neighbours' &&
    labels instanceof Int32Array &&
    labels.every((label) => label >= 0 && label < classes) &&
    isNumbers(vectors, labels.length * elements) &&
    Number.isSafeInteger(neighbours)
  );
}

function isNumbers(value: unknown, length: number): boolean {
  const isArray = value instanceof Float64Array || value instanceof Float32Array;
  return isArray && value.length === length;
}

/** Whether the scores of a probe are probabilities. */
export function givesProbabilities({ head }: Pick<Probe, 'head'>): boolean {
  return head.type === 'neighbours' || head.activation === 'softmax';
}

/**
 * Classifies a vector, in double precision.
 *
 * @param vector - As many numbers as a row of the probe's feature has.
 * @throws {@link TapirError} `OPTION_INVALID` for a vector of another length.
 *
 * @example
 * ```ts
 * import { readProbe, predictProbe } from 'onnx-tapir/features';
 *
 * const probe = await readProbe('probe.json');
 * const { label, scores } = predictProbe(probe, new Float32Array(2048));
 * console.log(label, Math.max(...scores)); // cat 0.93
 * ```
 */
export function predictProbe(probe: Probe, vector: Float32Array | readonly number[]): ProbePrediction {
  checkProbe(probe);
  const isVector = vector instanceof Float32Array || Array.isArray(vector);
  if (!isVector) throw invalidOption('vector', 'a Float32Array or a list of numbers', vector);
  const given = Float32Array.from(vector);
  const elements = elementCount(probe.dims);
  if (given.length !== elements)
    throw invalidOption('vector', `${elements} numbers`, `${given.length} numbers`);
  if (probe.normalize === 'l2') unitVector(given, LEAST_NORM, given);
  const scores = scoreVector(probe, given);
  return { label: probe.classes[highest(scores)]!, scores };
}

function scoreVector({ head, classes }: Probe, vector: Float32Array): Float64Array {
  if (head.type === 'neighbours') return vote(head, vector, classes.length);
  const scores = head.bias.slice();
  for (let k = 0, at = 0; k < scores.length; k++)
    for (const value of vector) scores[k]! += head.weight[at++]! * value;
  return head.activation === 'softmax' ? softmax(scores, scores) : scores;
}

function vote(
  { vectors, labels, neighbours }: NeighbourProbeHead,
  vector: Float32Array,
  classes: number,
): Float64Array {
  const closeness = Array.from(labels, (_, row) => {
    let sum = 0;
    for (let i = 0, at = row * vector.length; i < vector.length; i++)
      sum -= (vector[i]! - vectors[at++]!) ** 2;
    return sum;
  });
  const nearest = listLargest(closeness, neighbours);
  const scores = new Float64Array(classes);
  for (const row of nearest) scores[labels[row]!]! += 1 / nearest.length;
  return scores;
}
