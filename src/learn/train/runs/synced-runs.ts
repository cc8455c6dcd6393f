/**
 * Gradients with statistics over all rows of a batch, on whatever devices they are: as SyncBatchNorm computes them, and so as one device
 * with the whole batch.
 */
import type { Value } from '../../../onnx/graph/graph.js';
import type { CheckedSizes } from '../../../run/model/open/input-sizes.js';
import type { Replica, Runner } from '../../../run/runtime/replica.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import type { FeedPart } from '../../../onnx/tensor/tensor-part.js';
import type { Piece } from '../../../extract/replicas/batch-pieces.js';
import type { Outputs } from '../../../extract/replicas/dispatch.js';
import {
  closeAll,
  openPartsOnDevices,
  runOn,
  type Place,
} from '../../../extract/replicas/rewrite-sessions.js';
import { gather } from '../ranks/compare-ranks.js';
import type { ProcessGroup } from '../ranks/process-group.js';
import { combineMoments, noMoments, type ChannelMoments } from '../statistics/channel-moments.js';
import type { NormLayer } from '../statistics/norm-layers.js';
import {
  combineTaps,
  feedMoments,
  feedsOf,
  passStage,
  type ForwardStage,
  type Travelling,
} from '../statistics/stage-walk.js';
import {
  addTo,
  floatPart,
  readLoss,
  weightParts,
  type BatchGradients,
  type GradientRuns,
} from './gradient-runs.js';
import { makeSyncedStages, type BackwardStage, type SyncedStage } from './synced-stages.js';
import type { TrainedTensor } from './trained-tensors.js';
import type { LossModel } from './training-graphs.js';

/** A piece on its way through the stages and back. */
interface RoundTrip extends Travelling {
  /** The gradients of what is held, as far as they are known. */
  readonly gradients: Map<string, Float32Array>;
}

/** The gradients of a norm's statistics. */
interface StatisticGradients {
  readonly mean: Float64Array;
  readonly variance: Float64Array;
}

/** Opens the stages on each device. */
export async function openSyncedRuns(
  place: Place,
  loss: LossModel,
  layers: readonly NormLayer[],
  tensors: readonly TrainedTensor[],
  { inputSizes, group }: { readonly inputSizes: CheckedSizes; readonly group: ProcessGroup },
): Promise<GradientRuns> {
  const stages = await makeSyncedStages(loss, layers, tensors, inputSizes);
  const parts = stages.flatMap(({ forward, backward }) => [forward, ...(backward ? [backward] : [])]);
  const replicas = await openPartsOnDevices(place, parts);
  const backwards = stages.flatMap(({ backward }) => backward?.statistics ?? []);
  const differentiated = new Set(backwards.map(({ of }) => of.layer));
  return {
    run: (pieces, seed, signal) =>
      new SyncedRun(replicas, { loss, stages, tensors, pieces, signal, group, differentiated }).run(seed),
    close: () => closeAll(replicas),
  };
}

interface Job {
  readonly loss: LossModel;
  readonly stages: readonly SyncedStage[];
  readonly tensors: readonly TrainedTensor[];
  readonly pieces: readonly Piece[];
  readonly signal: AbortSignal | undefined;
  readonly group: ProcessGroup;
  /** The norms whose statistics have gradients. */
  readonly differentiated: ReadonlySet<NormLayer>;
}

/** One batch on its way. */
class SyncedRun {
  readonly #replicas: readonly Replica[];
  readonly #job: Job;
  readonly #pieces: readonly RoundTrip[];
  readonly #moments = new Map<NormLayer, ChannelMoments>();
  readonly #statistics = new Map<NormLayer, StatisticGradients>();
  readonly #sums = new Map<TrainedTensor, Float32Array>();

  constructor(replicas: readonly Replica[], job: Job) {
    this.#replicas = replicas;
    this.#job = job;
    this.#pieces = job.pieces.map((piece) => ({ ...piece, held: new Map(), gradients: new Map() }));
  }

  async run(seed: number): Promise<BatchGradients> {
    const { loss, stages, tensors } = this.#job;
    // Each stage needs the moments of those before it.
    // oxlint-disable-next-line no-await-in-loop
    for (const { forward } of stages) await this.#forth(forward);
    for (const { gradients } of this.#pieces) gradients.set(loss.loss, Float32Array.of(seed));
    // oxlint-disable-next-line no-await-in-loop
    for (const { forward, backward } of stages.toReversed())
      if (backward) await this.#back(forward, backward);
    const results = this.#pieces.map(({ held }) => [...held.values()]);
    return {
      ...readLoss(loss, results),
      gradients: tensors.map((tensor) => this.#sums.get(tensor) ?? new Float32Array(tensor.values.length)),
      readMoments: () => [this.#moments],
    };
  }

  /** Runs a stage on all pieces, and combines the moments of what its norms normalise. */
  async #forth(forward: ForwardStage): Promise<void> {
    const fixed = this.#fixedFeeds(forward);
    const results = await this.#runAll((replica, piece) =>
      passStage(forward, replica, piece, fixed, this.#job.signal),
    );
    await this.#combine(forward, results);
  }

  /** Combines moments over the pieces of all ranks, in the order of ranks. */
  async #combine(forward: ForwardStage, results: readonly Outputs[]): Promise<void> {
    const { group, signal } = this.#job;
    const own = new Map<NormLayer, ChannelMoments>();
    if (results.length > 0) combineTaps(forward, results, own);
    const layers = [...forward.taps.keys()];
    const sent = layers.flatMap((layer) => {
      const { count, mean, m2 } = own.get(layer) ?? noMoments(layer.channels);
      return [count, ...mean, ...m2];
    });
    const ranks = await gather(group, sent, signal);
    let at = 0;
    for (const layer of layers) {
      const [from, middle, to] = [at + 1, at + 1 + layer.channels, at + 1 + 2 * layer.channels];
      const parts = ranks.map((row): ChannelMoments => ({
        count: row[from - 1]!,
        mean: row.subarray(from, middle),
        m2: row.subarray(middle, to),
      }));
      this.#moments.set(layer, combineMoments(parts));
      at = to;
    }
  }

  /** Adds up the gradients of statistics over ranks, once all readers of the norms have given theirs. */
  async #shareStatistics(norms: readonly NormLayer[]): Promise<void> {
    const { group, signal, differentiated } = this.#job;
    for (const norm of norms.filter((one) => differentiated.has(one))) {
      const { mean, variance } = this.#statisticsOf(norm);
      // oxlint-disable-next-line no-await-in-loop -- ranks make their calls in one order
      if (group.size > 1) await group.sum([mean, variance], signal);
    }
  }

  /** Runs the backward pass through a stage on all pieces. All readers of what the stage computes have done so. */
  async #back({ stage }: ForwardStage, backward: BackwardStage): Promise<void> {
    const { rewrite, seeds, takes, tensors, statistics } = backward;
    const fixed = this.#fixedFeeds(backward);
    await this.#shareStatistics(stage.norms as readonly NormLayer[]);
    const isFixed = new Set(fixed.map(({ name }) => name));
    const taken = rewrite.cut.inputs.map(({ name }) => name).filter((name) => !isFixed.has(name));
    const fetches = [...takes, ...tensors, ...statistics].map(({ key }) => key);
    const results = await this.#runAll(async (replica, piece) => {
      const given = [...seeds].map(([value, name]) =>
        this.#seed(stage.norms as readonly NormLayer[], piece, value, name),
      );
      const own = feedsOf(piece, taken);
      return replica.run([...own, ...given, ...fixed], fetches, { signal: this.#job.signal });
    });
    for (const [i, outputs] of results.entries()) {
      const byKey = new Map(outputs.map(({ name, data }) => [name, data as Float32Array]));
      for (const { key, of } of takes) addTo(this.#pieces[i]!.gradients, of.name, byKey.get(key)!);
      for (const { key, of } of tensors) addTo(this.#sums, of, byKey.get(key)!);
      for (const { key, of } of statistics) this.#addStatistic(of.layer, of.what, byKey.get(key)!);
    }
  }

  #addStatistic(layer: NormLayer, what: 'mean' | 'variance', values: Float32Array): void {
    const sums = this.#statisticsOf(layer);
    for (const [c, value] of values.entries()) sums[what][c]! += value;
  }

  #statisticsOf(layer: NormLayer): StatisticGradients {
    const none = (): Float64Array => new Float64Array(layer.channels);
    const sums = this.#statistics.get(layer) ?? { mean: none(), variance: none() };
    this.#statistics.set(layer, sums);
    return sums;
  }

  /**
   * The gradient of what a stage computed. What a norm normalises also acts through the moments: with n values per channel, the mean grows
   * by 1/n with each, and the variance by 2(x − mean)/n.
   */
  #seed(
    norms: readonly NormLayer[],
    { held, gradients }: RoundTrip,
    { name: of }: Value,
    name: string,
  ): FeedPart {
    const { dims, data } = held.get(of)!;
    const seed = gradients.get(of) ?? new Float32Array(data.length);
    for (const norm of norms) {
      const statistics = this.#statistics.get(norm);
      if (norm.input.name === of && statistics)
        addThroughMoments(seed, { dims, data: data as Float32Array }, statistics, this.#moments.get(norm)!);
    }
    return floatPart(name, dims, seed);
  }

  /** The weights, and the statistics of norms. */
  #fixedFeeds({ rewrite, feeds }: ForwardStage | BackwardStage): FeedPart[] {
    const needed = new Set([...rewrite.inputs, ...rewrite.cut.inputs].map(({ name }) => name));
    const statistics = feedMoments(feeds, this.#moments).filter(({ name }) => needed.has(name));
    return [...weightParts(this.#job.tensors, needed), ...statistics];
  }

  #runAll(run: (replica: Runner, piece: RoundTrip) => Promise<Outputs>): Promise<Outputs[]> {
    return runOn(this.#replicas, this.#pieces, run, this.#job.signal);
  }
}

function addThroughMoments(
  seed: Float32Array,
  { dims, data }: { readonly dims: readonly number[]; readonly data: Float32Array },
  { mean: byMean, variance: byVariance }: StatisticGradients,
  { count, mean }: ChannelMoments,
): void {
  const channels = mean.length;
  const places = elementCount(dims.slice(2));
  for (let at = 0; at < seed.length; at += places) {
    const c = (at / places) % channels;
    const [shift, slope, centre] = [byMean[c]! / count, (2 * byVariance[c]!) / count, mean[c]!];
    for (let i = at; i < at + places; i++) seed[i]! += shift + slope * (data[i]! - centre);
  }
}
