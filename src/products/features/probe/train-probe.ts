/** Labels + vectors → a classifier, and what it tells about both. */
import { hasParts, readInputOfRows, readPaths } from '../../../datasets/labels/live-rows.js';
import { noteAssumed } from '../../../datasets/embed/recorded-model.js';
import { readLabels, type ProbeLabels } from '../../../datasets/labels/labels.js';
import { readRowsWhere, WHERE } from '../../../datasets/labels/where.js';
import {
  callback,
  checkedBy,
  integer,
  oneOf,
  positive,
  readOptions,
  refuseUnused,
  signal,
  type Fields,
} from '../../../base/options.js';
import { checkInteger, invalidOption, type Options } from '../../../base/checks.js';
import { countSteps, type Progress, type Tell } from '../../../base/progress.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { checkDataset, chooseKey, KEY } from '../search/search-dataset.js';
import { evaluate, type OutOfFold } from './fit/evaluate.js';
import { fitProbe } from './fit-probe.js';
import { dealFolds, type Deal } from './fit/folds.js';
import { openLabelledRows, type LabelledRows } from './rows/labelled-rows.js';
import { PROBE_KINDS, type Probe, type ProbeKind, type ProbeResults, type ProbeSource } from './probe.js';

/** Options of {@link trainProbe}. */
export interface TrainProbeOptions {
  /**
   * `logistic` regression, `ridge` regression on targets of ±1, `knn` (shares of the nearest neighbours) or nearest `centroid`.
   * @default 'logistic'
   */
  readonly kind: ProbeKind;
  /**
   * Output key of the features. You may leave it out if the dataset has one output.
   * @default undefined
   */
  readonly key: string | undefined;
  /**
   * Only images of this label: a source of labels as the probe's, `=`, and the label. `column:keep=yes`, `by-folder=sea`.
   * @default undefined, which is all images
   */
  readonly where: string | undefined;
  /**
   * Strength of the penalty: scikit-learn's `C` for `logistic` (smaller is stronger), its `alpha` for `ridge` (larger is stronger).
   * `'auto'` chooses the one that predicts held-out folds best. Other kinds have none.
   * @default 'auto'
   */
  readonly strength: number | 'auto';
  /**
   * `balanced` gives all classes the same total weight (`logistic` and `ridge`), as scikit-learn does.
   * @default 'equal'
   */
  readonly classWeights: 'equal' | 'balanced';
  /**
   * `l2` divides each vector by its Euclidean norm first; neighbours and centroids then compare angles. `standardize` takes each
   * element in units of its standard deviation (`logistic` and `ridge`); the finished weights are for plain vectors again.
   * @default 'none'
   */
  readonly normalize: 'none' | 'l2' | 'standardize';
  /**
   * The number of neighbours of `knn`, an integer from 1 to 1000.
   * @default 5
   */
  readonly neighbours: number;
  /**
   * The number of folds for the results, from 2 to 100; 0 gives no results, and is the fastest.
   * @default 5
   */
  readonly folds: number;
  /**
   * Chooses the folds: an integer from 0 to 2^32 − 1.
   * @default 0
   */
  readonly seed: number;
  /**
   * `logistic` stops when no element of the gradient of the mean loss is larger, in coordinates of about unit curvature. The default gives
   * weights within 1e-3 of the optimum, also on separable classes with a weak penalty (`strength` of 100), where the loss is flat. A
   * tolerance of 1e-6 gives the same loss to 1e-6 in half the passes or less. The classifiers of the folds, which only predict, stop at
   * 1e-7 or the tolerance, whichever is larger. If rows × elements × classes are more than 2 million, they stop at 1e-4, and those that
   * choose a strength at 1e-3.
   * @default 1e-8
   */
  readonly tolerance: number;
  /**
   * The most iterations of `logistic`, an integer from 1 to 1000000.
   * @default 10000
   */
  readonly maxIterations: number;
  /**
   * Stops the training when it fires; the call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called as each step begins, with its description as `what`.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

export const TRAIN_PROBE_FIELDS: Fields<TrainProbeOptions> = {
  kind: oneOf(PROBE_KINDS, 'logistic', 'kind of classifier'),
  key: KEY,
  where: WHERE,
  strength: checkedBy(
    checkStrength,
    'auto',
    'C of logistic, alpha of ridge, as in scikit-learn; auto chooses by held-out folds',
    (text) => Number(text) || text,
  ),
  classWeights: oneOf(['equal', 'balanced'], 'equal', 'balanced gives all classes the same total weight'),
  normalize: oneOf(
    ['none', 'l2', 'standardize'],
    'none',
    'l2 divides vectors by their length; standardize, elements by their deviation',
  ),
  neighbours: integer(1, 1000, 5, 'neighbours of knn'),
  folds: checkedBy(checkFolds, 5, 'held-out folds for the results; 0 for no results', 'count'),
  seed: integer(0, 2 ** 32 - 1, 0, 'chooses the folds'),
  tolerance: positive(1e-8),
  maxIterations: integer(1, 1_000_000, 10_000),
  signal,
  onProgress: callback(),
};

/**
 * Trains a classifier on the vectors of a dataset. Its results come from photos that it has not seen: stratified folds are held out one
 * after the other, and the rows of a photo (crops, tiles, clips) stay together.
 *
 * @remarks Logistic regression finds the unique optimum of scikit-learn's objective, by L-BFGS in double precision; of at most 1,024
 * rows with more elements than that, in the space that the rows span. The rows are read block by block; up to 256 MiB of them stay in
 * memory. All folds and strengths share each pass over the rows. `knn` compares all rows with each other, at most 100000.
 *
 * @param dataset - From {@link openDataset}.
 * @param labels - See {@link ProbeLabels}. Images without a label are left out; `warnings` of the probe says how many.
 * @param given - See {@link TrainProbeOptions}.
 * @returns The probe with its results: plain data.
 * @throws {@link TapirError} `OPTION_INVALID`, also for labels of fewer than two classes; `DATASET_INVALID`, also for NaN or infinite
 * features, naming the image; `SOURCE_INVALID` for a table of labels that cannot be read.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 * import { trainProbe } from 'onnx-tapir/features';
 *
 * const probe = await trainProbe(await openDataset('vectors'), 'by-folder', { kind: 'logistic' });
 * console.log(probe.classes, probe.results?.accuracy); // ['cat', 'dog'] 0.97
 * for (const { path, given, suggested } of probe.results?.suspects ?? []) console.log(path, given, suggested); // cat/7.jpg cat dog
 * ```
 */
export async function trainProbe(
  dataset: Dataset,
  labels: ProbeLabels,
  given: Options<TrainProbeOptions> = {},
): Promise<Probe> {
  checkDataset(dataset);
  const options = readOptions(TRAIN_PROBE_FIELDS, given, 'trainProbe');
  checkTogether(options);
  const { kind, folds, seed, normalize, signal } = options;
  const begin = countSteps(options.onProgress);
  const key = chooseKey(dataset, options.key);
  begin('reading the labels');
  const { classes, ofRow, warnings } = await readLabels(
    dataset,
    labels,
    'labels',
    options.where === undefined ? undefined : await readRowsWhere(dataset, options.where),
  );
  const norm = normalize === 'l2' ? 'l2' : 'none';
  const rows = await openLabelledRows(dataset, key, { classes, ofRow, warnings }, norm, begin);
  const say = (phase: string): Tell => (rows.onRows = begin(phase, 'rows', rows.count));
  signal?.throwIfAborted();
  const photos = folds === 0 ? undefined : await readPhotos(dataset, rows);
  const deal = { labels: rows.labels, classes: classes.length, photos };
  const foldOf = folds === 0 ? new Uint8Array(rows.count) : dealFolds(deal, folds, seed);
  // A constant element is left as it is, as scikit-learn's StandardScaler does.
  const penalty = rows.deviation.map((deviation) =>
    normalize === 'standardize' && deviation > 0 ? deviation ** 2 : 1,
  );
  const fitting = { ...options, rows, classes, foldOf, penalty, say };
  const { outOfFold, warnings: ofFit, ...fit } = await fitProbe(kind, fitting);
  say('evaluating');
  return {
    kind,
    classes,
    key,
    dims: dataset.manifest.features[key]!.dims,
    normalize: norm,
    ...fit,
    results: outOfFold ? await describeResults(dataset, rows, classes, folds, outOfFold) : null,
    labels: typeof labels === 'string' ? labels : null,
    source: sourceOf(dataset, key),
    warnings: [...noteAssumed(dataset), ...warnings, ...warnOfSingles(deal, classes, folds), ...ofFit],
  };
}

function checkStrength(option: string, value: unknown): number | 'auto' {
  if (value === 'auto' || (typeof value === 'number' && value > 0 && value < Infinity)) return value;
  throw invalidOption(option, '"auto" or a number above 0', value);
}

function checkFolds(option: string, value: unknown): number {
  if (value === 1) throw invalidOption(option, '0, or an integer from 2 to 100', value);
  return checkInteger(option, value, 0, 100);
}

/** The options that only some kinds use. */
const UNUSED: Readonly<Record<ProbeKind, readonly (keyof TrainProbeOptions)[]>> = {
  logistic: ['neighbours'],
  ridge: ['neighbours', 'tolerance', 'maxIterations'],
  knn: ['strength', 'classWeights', 'tolerance', 'maxIterations'],
  centroid: ['strength', 'classWeights', 'neighbours', 'tolerance', 'maxIterations'],
};

function checkTogether(options: TrainProbeOptions): void {
  const { kind, strength, normalize, folds } = options;
  refuseUnused(TRAIN_PROBE_FIELDS, options, UNUSED[kind], `kind "${kind}"`);
  const isPenalised = kind === 'logistic' || kind === 'ridge';
  if (strength === 'auto' && isPenalised && folds === 0)
    throw invalidOption('strength', 'a number, as no folds are held out to choose it', strength);
  if (normalize === 'standardize' && !isPenalised)
    throw invalidOption('normalize', `"none" or "l2" for kind "${kind}"`, normalize);
}

async function describeResults(
  dataset: Dataset,
  rows: LabelledRows,
  classes: readonly string[],
  folds: number,
  outOfFold: OutOfFold,
): Promise<ProbeResults> {
  const { suspects, ...evaluation } = await evaluate(outOfFold, rows.labels, classes);
  const numberOf = (row: number): number => rows.numbers[row]!;
  const paths = await readPaths(dataset, new Set(suspects.map(({ row }) => numberOf(row))));
  const named = suspects.map(({ row, given, suggested, ...scores }) => {
    const path = paths.get(numberOf(row)) ?? null;
    const labels = { given: classes[given]!, suggested: classes[suggested]! };
    return Object.assign({ path, row: numberOf(row) }, labels, scores);
  });
  return { folds, rows: rows.count, ...evaluation, suspects: named };
}

/** The photo of each row; undefined where each row is a photo. */
async function readPhotos(dataset: Dataset, { numbers }: LabelledRows): Promise<Int32Array | undefined> {
  if (!hasParts(dataset)) return undefined;
  const inputOf = await readInputOfRows(dataset);
  return numbers.map((row) => inputOf[row]!);
}

/** A class with one photo is unknown to the classifier that predicts that photo. */
function warnOfSingles({ labels, photos }: Deal, classes: readonly string[], folds: number): string[] {
  const seen = classes.map(() => new Set<number>());
  for (const [row, label] of labels.entries())
    if (seen[label]!.size < 2) seen[label]!.add(photos?.[row] ?? row);
  const single = classes.filter((_, k) => seen[k]!.size === 1);
  if (folds === 0 || single.length === 0) return [];
  const list = single.slice(0, 5).join(', ') + (single.length > 5 ? ', …' : '');
  return [
    `${single.length} classes have one image, which counts as wrong: no other one shows the class (${list})`,
  ];
}

function sourceOf({ manifest }: Dataset, key: string): ProbeSource {
  // Opening the dataset has checked only what reading features needs.
  const { model, request, transform } = manifest as Partial<Dataset['manifest']>;
  const isModel = typeof model?.file === 'string' && typeof model.sha256 === 'string';
  return {
    model: isModel ? { file: model.file, sha256: model.sha256 } : null,
    request: (Array.isArray(request) ? request.find((one) => one?.key === key) : undefined) ?? null,
    transform: transform ?? null,
  };
}
