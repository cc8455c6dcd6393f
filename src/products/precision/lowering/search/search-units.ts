/** Searches the units that are computed in 8 bits: by a linear model of the vectors, checked by runs of all samples. */
import type { BeginStep } from '../../../../base/progress.js';
import type { Rounding } from '../../graph/quantize/roundings.js';
import type { Unit } from '../../graph/quantize/with-qdq.js';
import type { Calibration } from './calibrate.js';
import { chooseUnits, LossModel, type UnitErrors } from './choose-units.js';
import { compareRows, isHeldBack, joinRows, keptNeighbours, type Vectors } from './photo-rows.js';
import type { Sample } from '../run-samples.js';

/** What is asked of a choice. */
export interface Bars {
  readonly minCosine: number;
  readonly minNeighbours: number;
  /** When the search ends, in milliseconds since 1970. */
  readonly deadline: number;
}

/** What a choice gives. */
export interface Judgement {
  readonly chosen: ReadonlySet<number>;
  /** For each output, over the rows that are held back. */
  readonly cosines: readonly { readonly least: number; readonly mean: number; readonly rows: number }[];
  /** For each output; undefined with too few rows. */
  readonly neighbours: readonly (number | undefined)[];
}

/** What the search found. */
export interface SearchResult {
  readonly rule: string;
  /** All choices that were measured, in their order. */
  readonly curve: readonly Judgement[];
  /** The cheapest that passes; undefined if no choice does. */
  readonly best: Judgement | undefined;
  /** Whether the time ended before the search. */
  readonly isCut: boolean;
  /** How many units were run alone in 8 bits: all, unless the time ended or everything passed. */
  readonly tried: number;
}

/** The samples that errors of single units are measured on. */
const PROBED_ROWS = 8;
/** Longer vectors are thinned for the linear model. */
const MOST_ELEMENTS = 4096;
const MOST_STEPS = 10;
const MOST_RETURNS = 6;

/** A way to round everything. */
export interface Form {
  /** How ranges are chosen. */
  readonly rule: string;
  readonly units: readonly Unit[];
  /** The levels of the tensors. */
  readonly levels: ReadonlyMap<string, Rounding>;
}

/** Runs samples with any choice of units in 8 bits. */
export interface Bench {
  form: Form;
  /** What is taken from the biases of layers in 8 bits, by unit. */
  corrections: ReadonlyMap<number, Float32Array>;
  /** The vectors of each sample. */
  run(chosen: ReadonlySet<number>, samples: readonly Sample[]): Promise<Vectors[]>;
  /** What rounding each layer that has a bias adds to its results, for each channel, on average over samples: by unit. */
  meanErrors(samples: readonly Sample[]): Promise<ReadonlyMap<number, Float32Array>>;
}

/** What a search looks at. */
export interface SearchSubject {
  readonly bench: Bench;
  readonly samples: readonly Sample[];
  readonly exact: Calibration['exact'];
  /** What each unit saves. */
  readonly savings: readonly number[];
  /** The same units with different ranges. */
  readonly forms: readonly Form[];
  /** Each form with large channels moved into the weights that read them; empty if no product gains by that. */
  readonly smoothed: readonly Form[];
  readonly begin: BeginStep;
}

/** Searches the cheapest choice that passes. The bench has the form and the corrections of the result then. */
export async function searchUnits(subject: SearchSubject, bars: Bars): Promise<SearchResult> {
  const { bench, savings } = subject;
  const judge = new Judge(subject, bars);
  const everything = new Set(savings.keys());
  subject.begin('judging 8 bits in every layer');
  const { form, loss } = await chooseForm(subject, everything);
  bench.form = form;
  await correctBiases(subject, everything, loss);
  const all = await judge.measure(everything);
  if (judge.passes(all)) return { rule: form.rule, curve: judge.curve, best: all, isCut: false, tried: 0 };
  const probe = await probeUnits(subject, bars.deadline);
  const model = new LossModel(probe);
  const known = probe.errors.length;
  const worth = savings.slice(0, known);
  // The limit of the modelled loss, by bisection: what the model leaves out is in what the runs measure.
  let limit = 1 - bars.minCosine;
  subject.begin('choosing layers');
  let [passing, failing] = [0, Infinity];
  let best: Judgement | undefined;
  const isLate = (): boolean => Date.now() > bars.deadline;
  for (let step = 0; step < MOST_STEPS && !isLate(); step++) {
    const chosen = chooseUnits(model, worth, limit);
    if (chosen.size === 0 && step > 0) break;
    const seen = judge.curve.find((one) => isSameSet(one.chosen, chosen));
    // oxlint-disable-next-line no-await-in-loop -- each measurement decides about the next
    const judged = seen ?? (await judge.measure(chosen));
    if (judge.passes(judged)) {
      passing = limit;
      if (!best || saved(savings, judged.chosen) > saved(savings, best.chosen)) best = judged;
    } else failing = limit;
    if (failing / passing < 1.1) break;
    limit = passing === 0 ? failing / 3 : failing === Infinity ? passing * 3 : Math.sqrt(passing * failing);
  }
  // Single units may still fit: the model is only nearly right.
  if (best) {
    const left = [...everything]
      .filter((unit) => !best!.chosen.has(unit))
      .toSorted((a, b) => savings[b]! - savings[a]!);
    for (const unit of left.slice(0, MOST_RETURNS)) {
      if (isLate()) break;
      // oxlint-disable-next-line no-await-in-loop -- each measurement decides about the next
      const judged = await judge.measure(new Set([...best.chosen, unit]));
      if (judge.passes(judged)) best = judged;
    }
  }
  return { rule: form.rule, curve: judge.curve, best, isCut: isLate(), tried: known };
}

function saved(savings: readonly number[], chosen: ReadonlySet<number>): number {
  return [...chosen].reduce((sum, unit) => sum + savings[unit]!, 0);
}

function isSameSet(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return a.size === b.size && [...a].every((unit) => b.has(unit));
}

/** Measures choices on all samples. */
class Judge {
  readonly curve: Judgement[] = [];
  readonly #subject: SearchSubject;
  readonly #bars: Bars;
  readonly #exact: Vectors;
  readonly #heldBack: Vectors;

  constructor(subject: SearchSubject, bars: Bars) {
    this.#subject = subject;
    this.#bars = bars;
    this.#exact = joinRows(subject.exact);
    this.#heldBack = joinRows(subject.exact.filter((_, sample) => isHeldBack(sample)));
  }

  async measure(chosen: ReadonlySet<number>): Promise<Judgement> {
    const { bench, samples } = this.#subject;
    const runs = await bench.run(chosen, samples);
    const rounded = joinRows(runs);
    const judged: Judgement = {
      chosen,
      cosines: compareRows(joinRows(runs.filter((_, sample) => isHeldBack(sample))), this.#heldBack),
      neighbours: this.#exact.map((rows, output) => keptNeighbours(rounded[output]!, rows)),
    };
    this.curve.push(judged);
    return judged;
  }

  passes({ chosen, cosines, neighbours }: Judgement): boolean {
    const { minCosine, minNeighbours } = this.#bars;
    const { savings } = this.#subject;
    return (
      chosen.size > 0 &&
      saved(savings, chosen) > 0 &&
      cosines.every(({ least }) => least >= minCosine) &&
      neighbours.every((kept) => kept === undefined || kept >= minNeighbours)
    );
  }
}

/** The plain form with the least mean loss when everything is in 8 bits, on samples that ranges come from; smoothed, if that helps. */
async function chooseForm(
  subject: SearchSubject,
  everything: ReadonlySet<number>,
): Promise<{ readonly form: Form; readonly loss: number }> {
  const { bench, forms, smoothed } = subject;
  let [best, least] = [0, Infinity];
  for (const [place, form] of forms.entries()) {
    bench.form = form;
    // oxlint-disable-next-line no-await-in-loop -- one session at a time
    const loss = await meanLoss(subject, everything);
    if (loss < least) [best, least] = [place, loss];
  }
  const other = smoothed[best];
  if (other) {
    bench.form = other;
    const loss = await meanLoss(subject, everything);
    if (loss < SMOOTHED_SHARE * least) return { form: other, loss };
  }
  return { form: forms[best]!, loss: least };
}

/** Smoothing must lower the loss to this share: other photos gain less by it. */
const SMOOTHED_SHARE = 0.8;

/** The mean of 1 - cosine of the worst output, on the samples that ranges come from. */
async function meanLoss(
  { bench, samples, exact }: SearchSubject,
  chosen: ReadonlySet<number>,
): Promise<number> {
  const own = takeRowsOf(samples, exact, Infinity);
  const compared = compareRows(joinRows(await bench.run(chosen, own.samples)), own.exact);
  return compared.reduce((most, { mean }) => Math.max(most, 1 - mean), 0);
}

/** Takes from each bias the mean error that rounding its layer makes in its result (Nagel and others, 2019), if that lowers the loss. */
async function correctBiases(
  subject: SearchSubject,
  everything: ReadonlySet<number>,
  loss: number,
): Promise<void> {
  const { bench, samples, exact } = subject;
  bench.corrections = await bench.meanErrors(takeRowsOf(samples, exact, PROBED_ROWS).samples);
  if (bench.corrections.size > 0 && (await meanLoss(subject, everything)) >= loss)
    bench.corrections = new Map();
}

/** The first samples that ranges come from, with so many rows or a little more. */
function takeRowsOf(
  samples: readonly Sample[],
  exact: Calibration['exact'],
  most: number,
): { readonly samples: readonly Sample[]; readonly exact: Vectors } {
  const taken: number[] = [];
  let rows = 0;
  for (const place of samples.keys()) {
    if (isHeldBack(place) || rows >= most) continue;
    taken.push(place);
    rows += exact[place]![0]!.length;
  }
  return {
    samples: taken.map((place) => samples[place]!),
    exact: joinRows(taken.map((place) => exact[place]!)),
  };
}

/** Runs each unit alone in 8 bits. Ends early at the deadline: what is not known then stays in float32. */
async function probeUnits(
  { bench, samples, exact, savings, begin }: SearchSubject,
  deadline: number,
): Promise<UnitErrors> {
  const own = takeRowsOf(samples, exact, PROBED_ROWS);
  const truth = thin(own.exact);
  const errors: Float32Array[][] = [];
  const tell = begin('trying each layer in 8 bits', 'nodes', savings.length);
  for (const unit of savings.keys()) {
    if (Date.now() > deadline) break;
    tell(unit);
    // oxlint-disable-next-line no-await-in-loop -- one session at a time
    const rows = thin(joinRows(await bench.run(new Set([unit]), own.samples)));
    errors.push(rows.map((row, k) => row.map((x, i) => x - truth[k]![i]!)));
  }
  return { exact: truth, errors, savings };
}

/** All rows of all outputs, with at most {@link MOST_ELEMENTS} elements each. */
function thin(vectors: Vectors): Float32Array[] {
  return vectors.flat().map((row) => {
    const step = Math.ceil(row.length / MOST_ELEMENTS);
    return step < 2 ? row : row.filter((_, i) => i % step === 0);
  });
}
