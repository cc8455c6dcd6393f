/** A rewrite in float32 → the same one with layers in 8 bits and fixed scales, chosen on samples. */
import type { BeginStep } from '../../../../base/progress.js';
import type { Unit } from '../../graph/quantize/with-qdq.js';
import type { Rounding } from '../../graph/quantize/roundings.js';
import type { Naming } from '../../../../onnx/graph/rewrite/lay-out.js';
import type { Node } from '../../../../onnx/graph/graph.js';
import type { Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { modelInternals } from '../../../../run/model/open/model-state.js';
import type { OnnxModel } from '../../../../run/model/open/open-model.js';
import { SessionHolder } from '../../../../run/model/oracle/session-holder.js';
import { ChoiceBench } from './choice-bench.js';
import { findSmoothable, smoothSubject } from './smooth-subject.js';
import { layOutLowered, type Lowered } from '../lower-rewrite.js';
import { RANGE_RULES, roundingBy } from '../search/activation-range.js';
import { calibrate, type Calibration } from '../search/calibrate.js';
import { readSamples, type Sample } from '../run-samples.js';
import { isHeldBack } from '../search/photo-rows.js';
import { searchUnits, type Bars, type Form } from '../search/search-units.js';
import { describeStatic, type CalibratedReport } from './static-report.js';
import { readSubject, type StaticSubject } from './static-subject.js';
import { makeUnits, type StaticUnits } from './static-units.js';

/** What is asked for. */
export interface StaticSetup extends Omit<Bars, 'deadline'> {
  /** Operators, and names of nodes, that stay in float32. */
  readonly keep: ReadonlySet<string>;
  readonly samples: Iterable<unknown> | AsyncIterable<unknown>;
  /** The longest time of the search. */
  readonly seconds: number;
  readonly signal: AbortSignal | undefined;
  /** Tells how far the work is. */
  readonly begin: BeginStep;
}

/** A rewrite with fixed scales, with the pieces of its file. */
export interface StaticLowered extends Lowered {
  readonly report: CalibratedReport;
  /** A sample to measure speeds on. */
  readonly sample: Sample;
}

/**
 * Quantises a rewrite with fixed scales. Throws `PRECISION_UNSUPPORTED` if there is nothing to quantise; `PRECISION_TOO_LOW` if no choice
 * of layers passes; `OPTION_INVALID` for samples that do not suffice.
 */
export async function quantizeStatic(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
  { keep, samples: given, minCosine, minNeighbours, seconds, signal, begin }: StaticSetup,
): Promise<StaticLowered> {
  const state = modelInternals.of(model);
  const subject = await readSubject(state, rewrite, keep);
  // One to find ranges on, and one to judge.
  const two = 'two or more: ranges come from one half, and the other half judges them';
  const samples = await readSamples(rewrite, given, 2, two);
  const bars = { minCosine, minNeighbours, deadline: Date.now() + seconds * 1000 };
  await using sessions = new SessionHolder(model);
  begin('measuring ranges');
  const calibration = await calibrateSubject(subject, samples, sessions, signal);
  const made = await makeUnits(subject, calibration);
  const forms = listForms(made.units, calibration);
  const again = await smoothSubject(subject, calibration, samples, sessions, signal);
  const scaled = again && (await makeUnits(subject, again)).units;
  // Scaling may rule a unit out.
  const isComplete = scaled?.length === made.units.length;
  const smoothed = isComplete ? listForms(scaled, again!, ', smoothed') : [];
  const bench = new ChoiceBench(subject, forms[0]!, sessions, signal);
  const known = { exact: calibration.exact, savings: made.savings };
  const search = await searchUnits({ bench, samples, ...known, forms, smoothed, begin }, bars);
  const chosen = search.best?.chosen ?? new Set();
  const qdq = bench.make(chosen);
  const { chunks, ...bytes } = await layOutLowered(state, rewrite, qdq.rewrite, naming);
  const report = describeStatic({
    rewrite,
    reasons: withLossy(made, chosen),
    search,
    bars,
    seconds,
    layers: qdq.layers,
    rows: samples.map((sample) => sample[0]!.dims[0] ?? 1),
    bytes,
  });
  return { rewrite: qdq.rewrite, chunks, report, sample: samples[0]! };
}

function calibrateSubject(
  subject: StaticSubject,
  samples: readonly Sample[],
  sessions: SessionHolder,
  signal: AbortSignal | undefined,
): Promise<Calibration> {
  const { rewrite, candidates, joins } = subject;
  const request = {
    tensors: new Set([...candidates, ...joins.flat()].map(({ tensor }) => tensor)),
    channels: new Set(findSmoothable(subject).keys()),
    factors: new Map(),
    results: candidates.map(({ result }) => result.name),
    isForRanges: (sample: number) => !isHeldBack(sample),
    signal,
  };
  return calibrate(rewrite, samples, request, sessions);
}

/** All ways to choose ranges. */
function listForms(units: readonly Unit[], { ranges, factors }: Calibration, note = ''): Form[] {
  const tensors = new Set(units.flatMap(({ reads }) => reads.map(({ tensor }) => tensor)));
  return RANGE_RULES.map((rule) => {
    const levels = Array.from(tensors, (tensor): [string, Rounding] => {
      const own = factors.get(tensor);
      return [tensor, { ...roundingBy(rule, ranges.get(tensor)!), ...(own && { factors: own }) }];
    });
    return { rule: `${rule}${note}`, units, levels: new Map(levels) };
  });
}

/** Why layers stay in float32, with those that the search left out. */
function withLossy({ units, reasons }: StaticUnits, chosen: ReadonlySet<number>): ReadonlyMap<Node, string> {
  const all = new Map(reasons);
  for (const [place, { rounded }] of units.entries())
    if (rounded && !chosen.has(place))
      all.set(rounded.layer.node, 'in 8 bits it loses too much on the photos');
  return all;
}
