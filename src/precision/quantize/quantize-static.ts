/** A rewrite in float32 → the same one with layers in 8 bits and fixed scales, chosen on samples. */
import { withQdqSwitches, type Unit } from '../../graph/quantize/with-qdq-switches.js';
import type { Rounding } from '../../graph/quantize/with-qdq.js';
import { layOutRewrite, type Naming } from '../../graph/rewrite/lay-out.js';
import type { Node } from '../../graph/graph.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import { modelInternals } from '../../model/open/model-state.js';
import type { OnnxModel } from '../../model/open/open-model.js';
import { SessionHolder } from '../../model/oracle/session-holder.js';
import { WireReader } from '../../onnx/wire/wire.js';
import { sizeWithWeights, type Lowered } from '../lower-rewrite.js';
import { makeQdq } from './make-qdq.js';
import { RANGE_RULES, roundingBy, type RangeRule } from './search/activation-range.js';
import { calibrate, withOutputs, type Calibration } from './search/calibrate.js';
import { isHeldBack, readSamples, type Sample } from './search/photo-rows.js';
import { searchUnits, type Bars, type SearchResult } from './search/search-units.js';
import { SwitchBench } from './search/switch-bench.js';
import { describeStatic, type StaticReport } from './static-report.js';
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
}

/** A rewrite with fixed scales, with the pieces of its file. */
export interface StaticLowered extends Lowered {
  readonly report: Omit<StaticReport, 'speeds'>;
  /** A sample to measure speeds on. */
  readonly sample: Sample;
}

/**
 * Quantises a rewrite with fixed scales.
 *
 * @throws {@link TapirError} `PRECISION_UNSUPPORTED` if there is nothing to quantise; `PRECISION_TOO_LOW` if no choice of layers passes;
 * `OPTION_INVALID` for samples that do not suffice.
 */
export async function quantizeStatic(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
  { keep, samples: given, minCosine, minNeighbours, seconds, signal }: StaticSetup,
): Promise<StaticLowered> {
  const state = modelInternals.of(model);
  const subject = await readSubject(state, rewrite, keep);
  const samples = await readSamples(rewrite, given);
  const bars = { minCosine, minNeighbours };
  const deadline = Date.now() + seconds * 1000;
  const sessions = new SessionHolder(model);
  try {
    const calibration = await calibrateSubject(subject, samples, sessions, signal);
    const made = await makeUnits(subject, calibration);
    const levels = levelsOf(made.units, calibration);
    const search = await searchChoice(
      { subject, made, levels, samples, calibration, sessions, signal },
      { ...bars, deadline },
    );
    const chosen = [...made.units.entries()].flatMap(([place, unit]) =>
      search.best?.chosen.has(place) ? [{ ...unit, correction: search.corrections.get(place) }] : [],
    );
    const qdq = await makeQdq(subject, chosen, levels.get(search.rule)!);
    const { chunks, before } = await state.withSource((source) => ({
      chunks: layOutRewrite(qdq.rewrite, naming, new WireReader(source)),
      before: layOutRewrite(rewrite, naming, new WireReader(source)),
    }));
    const report = describeStatic({
      rewrite,
      reasons: withLossy(made, chosen),
      search,
      bars,
      layers: qdq.layers,
      rows: samples.map((sample) => sample[0]!.dims[0] ?? 1),
      bytes: [sizeWithWeights(rewrite, before), sizeWithWeights(qdq.rewrite, chunks)],
    });
    return { rewrite: qdq.rewrite, chunks, report, sample: samples[0]! };
  } finally {
    await sessions.close();
  }
}

function calibrateSubject(
  { rewrite, candidates, joins }: StaticSubject,
  samples: readonly Sample[],
  sessions: SessionHolder,
  signal: AbortSignal | undefined,
): Promise<Calibration> {
  const request = {
    tensors: new Set([...candidates, ...joins.flat()].map(({ tensor }) => tensor)),
    nodes: candidates.map(({ node }) => node),
    isForRanges: (sample: number) => !isHeldBack(sample),
    signal,
  };
  return calibrate(rewrite, samples, request, sessions);
}

/** By rule and tensor, in the order in which units read them. */
function levelsOf(units: readonly Unit[], { ranges }: Calibration): ChoiceSetup['levels'] {
  const tensors = new Set(units.flatMap(({ reads }) => reads.map(({ tensor }) => tensor)));
  const by = (rule: RangeRule): Map<string, Rounding> =>
    new Map(Array.from(tensors, (tensor) => [tensor, roundingBy(rule, ranges.get(tensor)!)]));
  return new Map(RANGE_RULES.map((rule) => [rule, by(rule)]));
}

interface ChoiceSetup {
  readonly subject: StaticSubject;
  readonly made: StaticUnits;
  readonly levels: ReadonlyMap<RangeRule, ReadonlyMap<string, Rounding>>;
  readonly samples: readonly Sample[];
  readonly calibration: Calibration;
  readonly sessions: SessionHolder;
  readonly signal: AbortSignal | undefined;
}

/** Searches in one session that has both forms of each unit. */
async function searchChoice(
  { subject: { rewrite }, made, levels, samples, calibration, sessions, signal }: ChoiceSetup,
  bars: Bars,
): Promise<SearchResult> {
  const { units, savings } = made;
  const tensors = [...levels.get(RANGE_RULES[0])!.keys()];
  const switched = withQdqSwitches(rewrite, units, tensors);
  const results = new Map(
    Array.from(switched.places.keys(), (unit) => [unit, writtenName(rewrite, units[unit]!.reads[0]!.node)]),
  );
  const fetches = [...new Set(rewrite.outputs.map(({ tensor }) => tensor))];
  const more = [...results.values()].filter((name) => !fetches.includes(name));
  const form = { rewrite: withOutputs(switched.rewrite, more), graphOptimizationLevel: 'all' } as const;
  const bench = new SwitchBench(await sessions.open(form), switched, units.length, fetches, signal);
  const inOrder = new Map(Array.from(levels, ([rule, of]) => [rule, [...of.values()]]));
  const { exact } = calibration;
  return searchUnits({ bench, samples, exact, savings, results, levels: inOrder }, bars);
}

/** The name of a node's result in the rewritten graph. */
function writtenName({ patches }: Rewrite, node: Node): string {
  return patches.get(node)?.outputs.get(0) ?? node.outputs[0]!.name;
}

/** Why layers stay in float32, with those that the search left out. */
function withLossy({ units, reasons }: StaticUnits, chosen: readonly Unit[]): ReadonlyMap<Node, string> {
  const all = new Map(reasons);
  const isChosen = new Set(chosen.map(({ rounded }) => rounded));
  for (const { rounded } of units)
    if (rounded && !isChosen.has(rounded))
      all.set(rounded.layer.node, 'in 8 bits it loses too much on the photos');
  return all;
}
