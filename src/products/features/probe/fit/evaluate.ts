/** What out-of-fold predictions say: accuracy, a table of the classes, confusions, calibration, and suspected labels. */
import { highest } from '../../../../onnx/tensor/vectors/largest.js';
import type { ScoredBlock } from '../rows/linear-scores.js';

/** The scores of each row, by a classifier that has not seen its fold. May be read several times. */
export interface OutOfFold {
  /** Rows of `classes` scores. */
  readonly read: () => AsyncIterable<ScoredBlock>;
  /** Whether the scores are probabilities. */
  readonly isProbability: boolean;
}

/** A class in the table. */
export interface ClassResult {
  readonly label: string;
  /** Number of rows with this label. */
  readonly support: number;
  /** The share of the predictions of this class that are right; null without predictions. */
  readonly precision: number | null;
  /** The share of the rows of this class that are predicted as such. */
  readonly recall: number;
  /** The harmonic mean of both. */
  readonly f1: number;
}

/** Predictions whose confidence is within a range. */
export interface CalibrationBin {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  /** Mean probability of the predicted class. */
  readonly confidence: number;
  /** Share of predictions that are right. */
  readonly accuracy: number;
}

/** Whether probabilities mean what they say. */
export interface Calibration {
  /** Bins with predictions, of equal width. */
  readonly bins: readonly CalibrationBin[];
  /** The mean gap between confidence and accuracy, weighted by the bins' counts (expected calibration error). */
  readonly error: number;
  /** The mean over rows of the sum over classes of (probability − truth)². */
  readonly brier: number;
  /** Mean cross-entropy in nats. */
  readonly logLoss: number;
}

/** A row that a classifier which has not seen it takes for another class than its label. */
export interface Suspect {
  /** Position among the labelled rows. */
  readonly row: number;
  /** Index of the given class, and of the predicted one. */
  readonly given: number;
  readonly suggested: number;
  /** Their probabilities or scores. */
  readonly givenScore: number;
  readonly suggestedScore: number;
}

/** The results of all rows. */
export interface Evaluation {
  readonly accuracy: number;
  /** The mean recall of the classes. */
  readonly balancedAccuracy: number;
  readonly classes: readonly ClassResult[];
  /** By given class, then by predicted class. */
  readonly confusion: readonly (readonly number[])[];
  /** Null if the scores are no probabilities. */
  readonly calibration: Calibration | null;
  /**
   * At most 1000, the largest margin between the predicted and the given class first: the ratio of probabilities, the difference of other
   * scores. Of equal ones the one comes first whose given class usually scores higher in images with its label.
   */
  readonly suspects: readonly Suspect[];
  readonly suspectCount: number;
}

const BINS = 10;
const MOST_SUSPECTS = 1000;
const LEAST_PROBABILITY = 1e-15;

/** Evaluates predictions in two passes: the first counts, and gives each class's usual score; the second lists the suspects. */
export async function evaluate(
  { read, isProbability }: OutOfFold,
  labels: Int32Array,
  classes: readonly string[],
): Promise<Evaluation> {
  const tally = new Tally(classes.length);
  for await (const block of read())
    eachRow(block, classes.length, (row, scores) => tally.add(scores, labels[row]!));
  const list = new SuspectList(isProbability, tally.usualScores());
  for await (const block of read())
    eachRow(block, classes.length, (row, scores) => {
      const suggested = highest(scores);
      const given = labels[row]!;
      if (suggested === given) return;
      list.add({ row, given, suggested, givenScore: scores[given]!, suggestedScore: scores[suggested]! });
    });
  const { confusion } = tally;
  const table = classes.map((label, k) => describeClass(label, k, confusion));
  const present = table.filter(({ support }) => support > 0);
  const right = confusion.reduce((sum, row, k) => sum + row[k]!, 0);
  return {
    accuracy: right / labels.length,
    balancedAccuracy: present.reduce((sum, { recall }) => sum + recall, 0) / present.length,
    classes: table,
    confusion,
    calibration: isProbability ? tally.calibration() : null,
    suspects: list.sorted(),
    suspectCount: list.count,
  };
}

function eachRow(
  { first, rows, scores }: ScoredBlock,
  classes: number,
  visit: (row: number, scores: Float64Array) => void,
): void {
  for (let i = 0; i < rows; i++) visit(first + i, scores.subarray(i * classes, (i + 1) * classes));
}

/** Counts of one pass. */
class Tally {
  readonly confusion: number[][];
  readonly #own: Float64Array;
  readonly #bins = Array.from({ length: BINS }, () => ({ count: 0, confidence: 0, right: 0 }));
  #rows = 0;
  #brier = 0;
  #logLoss = 0;

  constructor(classes: number) {
    this.confusion = Array.from({ length: classes }, () => Array.from({ length: classes }, () => 0));
    this.#own = new Float64Array(classes);
  }

  add(scores: Float64Array, label: number): void {
    const predicted = highest(scores);
    const confidence = scores[predicted]!;
    this.confusion[label]![predicted]!++;
    this.#own[label]! += scores[label]!;
    this.#rows++;
    const bin = this.#bins[Math.max(0, Math.min(BINS - 1, Math.ceil(confidence * BINS) - 1))]!;
    bin.count++;
    bin.confidence += confidence;
    if (predicted === label) bin.right++;
    for (let k = 0; k < scores.length; k++) this.#brier += (scores[k]! - (k === label ? 1 : 0)) ** 2;
    this.#logLoss -= Math.log(Math.max(scores[label]!, LEAST_PROBABILITY));
  }

  /** The mean score of each class over the rows with its label. */
  usualScores(): Float64Array {
    return this.#own.map((sum, k) => sum / this.confusion[k]!.reduce((all, own) => all + own, 0));
  }

  calibration(): Calibration {
    const all = this.#bins.map(({ count, confidence, right }, at) => ({
      from: at / BINS,
      to: (at + 1) / BINS,
      count,
      confidence: confidence / count,
      accuracy: right / count,
    }));
    const bins = all.filter(({ count }) => count > 0);
    const gaps = bins.map((bin) => (bin.count / this.#rows) * Math.abs(bin.confidence - bin.accuracy));
    return {
      bins,
      error: gaps.reduce((sum, gap) => sum + gap, 0),
      brier: this.#brier / this.#rows,
      logLoss: this.#logLoss / this.#rows,
    };
  }
}

/** Keeps the most suspicious rows. */
class SuspectList {
  #kept: Suspect[] = [];
  count = 0;
  readonly #isProbability: boolean;
  readonly #usual: Float64Array;

  constructor(isProbability: boolean, usualScores: Float64Array) {
    this.#isProbability = isProbability;
    this.#usual = usualScores;
  }

  add(suspect: Suspect): void {
    this.count++;
    this.#kept.push(suspect);
    if (this.#kept.length > 4 * MOST_SUSPECTS) this.#kept = [...this.sorted()];
  }

  sorted(): readonly Suspect[] {
    return this.#kept.toSorted((a, b) => this.#compare(a, b)).slice(0, MOST_SUSPECTS);
  }

  #compare(a: Suspect, b: Suspect): number {
    return (
      (this.#isProbability ? descending(ratioOf(a), ratioOf(b)) : 0) ||
      descending(differenceOf(a), differenceOf(b)) ||
      descending(this.#usual[a.given]!, this.#usual[b.given]!) ||
      a.row - b.row
    );
  }
}

/** The margin of a softmax's scores, before the softmax: the logarithm of this ratio. */
function ratioOf({ givenScore, suggestedScore }: Suspect): number {
  return suggestedScore / givenScore;
}

function differenceOf({ givenScore, suggestedScore }: Suspect): number {
  return suggestedScore - givenScore;
}

/** The greater one first; infinities are equal. */
function descending(a: number, b: number): number {
  return a === b ? 0 : a > b ? -1 : 1;
}

function describeClass(label: string, k: number, confusion: readonly (readonly number[])[]): ClassResult {
  const right = confusion[k]![k]!;
  const support = confusion[k]!.reduce((sum, count) => sum + count, 0);
  const predicted = confusion.reduce((sum, row) => sum + row[k]!, 0);
  return {
    label,
    support,
    precision: predicted === 0 ? null : right / predicted,
    recall: support === 0 ? 0 : right / support,
    f1: support + predicted === 0 ? 0 : (2 * right) / (support + predicted),
  };
}
