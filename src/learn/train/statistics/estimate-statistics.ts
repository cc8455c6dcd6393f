/** BatchNorm statistics of a model, re-estimated from batches of tensors. */
import { checkList, isPlainObject } from '../../../base/checks.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import type { BatchSource } from '../../../extract/replicas/batch-pieces.js';
import { readPlace, type PlaceOptions } from '../../../extract/replicas/place-options.js';
import type { Place } from '../../../extract/replicas/rewrite-sessions.js';
import {
  combineMoments,
  populationStatistics,
  RunningStatistics,
  type ChannelMoments,
  type ChannelStatistics,
  type Momentum,
} from './channel-moments.js';
import { checkMode, readFolded, type EstimateOptions, type FoldedOptions } from './estimate-options.js';
import { isRunning, type BatchNormMode } from './modes.js';
import type { NormLayer, NormMoments } from './norm-layers.js';
import { runOnePass } from './one-pass.js';
import { measurableNorms, prepareNorms, type EstimatedLayer, type PreparedNorms } from './prepare-norms.js';
import {
  addMoments,
  readMoments,
  saveMoments,
  statisticsByName,
  type BatchNormMoments,
} from './saved-moments.js';
import { runStaged } from './staged.js';
import { writeStatistics } from './write-statistics.js';

/** New statistics of a norm. */
export interface EstimatedNorm {
  /** Its path in the source network, else the name of its node; for a folded norm of unknown name, that of the layer. */
  readonly name: string;
  readonly mean: Float64Array;
  /** As the model holds it now: unbiased in modes with a running average, else the population variance. */
  readonly variance: Float64Array;
  /** Values per channel that were seen: rows × positions. */
  readonly count: number;
}

/** What {@link estimateBatchNorm} gives. */
export interface BatchNormEstimate {
  /** The model with the new statistics. Save it with `model.save(path)`. */
  readonly model: OnnxModel;
  /** In execution order. */
  readonly layers: readonly EstimatedNorm[];
  /** The moments of all rows. Those of modes `adabn` and `precise` can be merged with those of other processes. */
  readonly moments: BatchNormMoments;
}

/** Estimates statistics from batches of tensors; see {@link estimateBatchNorm}. */
export async function estimateStatistics(
  model: OnnxModel,
  source: BatchSource,
  options: EstimateOptions,
): Promise<BatchNormEstimate> {
  const { mode, momentum } = options;
  checkMode(options);
  const place = await readPlace(model, options);
  const { base, layers } = await prepare(model, options);
  const moments = new Map<EstimatedLayer, ChannelMoments>();
  const running = isRunning(mode) ? await startRunning(layers, momentum) : undefined;
  for await (const found of runMode({ ...place, model: base }, layers, source, options)) {
    for (const layer of layers) {
      const now = found.get(layer)!;
      const before = moments.get(layer);
      moments.set(layer, before ? combineMoments([before, now]) : now);
      running?.get(layer)!.update(now);
    }
  }
  const statistics = new Map(
    [...moments].map(([layer, all]) => [layer, running?.get(layer)!.now ?? populationStatistics(all)]),
  );
  return finish(model, base, mode, statistics, moments);
}

/** Estimates statistics from the moments of several processes; see {@link mergeBatchNorm}. */
export async function mergeStatistics(
  model: OnnxModel,
  given: readonly unknown[],
  options: FoldedOptions,
): Promise<BatchNormEstimate> {
  const all = checkList('moments', given, 'a list of moments', isPlainObject);
  const parts = await Promise.all(all.map((part) => readMoments(model, part)));
  const { base, layers } = await prepare(model, options);
  const moments = addMoments(parts, layers) as Map<EstimatedLayer, ChannelMoments>;
  const statistics = new Map([...moments].map(([layer, all]) => [layer, populationStatistics(all)]));
  return finish(model, base, parts[0]!.mode, statistics, moments);
}

/** Measures what norms read and folded layers give, without changing anything; see {@link measureMoments}. */
export async function measureFromTensors(
  model: OnnxModel,
  source: BatchSource,
  options: PlaceOptions,
): Promise<BatchNormMoments> {
  const place = await readPlace(model, options);
  const layers = await measurableNorms(model);
  const moments = new Map<NormLayer, ChannelMoments>();
  for await (const found of runOnePass(place, layers, source, ONE_PASS.adabn))
    for (const [layer, now] of found)
      moments.set(layer, moments.has(layer) ? combineMoments([moments.get(layer)!, now]) : now);
  return saveMoments(model, 'adabn', moments);
}

async function prepare(model: OnnxModel, options: FoldedOptions): Promise<PreparedNorms> {
  const { sourceMoments } = options;
  const source = sourceMoments && statisticsByName(await readMoments(model, sourceMoments));
  return prepareNorms(model, { ...readFolded(options), source });
}

/** The modes that take one pass. */
const ONE_PASS = {
  momentum: { isTraining: true, split: 'whole' },
  device0: { isTraining: true, split: 'first' },
  precise: { isTraining: true, split: 'chunk' },
  adabn: { isTraining: false, split: 'chunk' },
} as const;

function runMode(
  place: Place,
  layers: readonly NormLayer[],
  source: BatchSource,
  { mode, memoryBytes }: EstimateOptions,
): AsyncIterable<NormMoments> {
  if (mode === 'synced')
    return runStaged(place, layers, source, { isWhole: false, isTraining: true, memoryBytes });
  if (mode === 'adabn-sequential')
    return runStaged(place, layers, source, { isWhole: true, isTraining: false, memoryBytes });
  return runOnePass(place, layers, source, ONE_PASS[mode]);
}

async function startRunning(
  layers: readonly EstimatedLayer[],
  momentum: Momentum | undefined,
): Promise<ReadonlyMap<EstimatedLayer, RunningStatistics>> {
  const entries = layers.map(async (layer): Promise<[EstimatedLayer, RunningStatistics]> => {
    const own = momentum ?? layer.momentum;
    // With a weight of 1 nothing of the old ones is left.
    const isFresh = own === 'cumulative' || own === 1;
    const empty = new Float64Array(layer.channels);
    const start = isFresh ? { mean: empty, variance: empty } : await layer.readStatistics();
    return [layer, new RunningStatistics(start, own)];
  });
  return new Map(await Promise.all(entries));
}

async function finish(
  model: OnnxModel,
  base: OnnxModel,
  mode: BatchNormMode,
  statistics: ReadonlyMap<EstimatedLayer, ChannelStatistics>,
  moments: ReadonlyMap<EstimatedLayer, ChannelMoments>,
): Promise<BatchNormEstimate> {
  return {
    model: await writeStatistics(base, statistics),
    layers: [...statistics].map(([layer, own]) =>
      Object.assign({ name: layer.name }, own, { count: moments.get(layer)!.count }),
    ),
    moments: await saveMoments(model, mode, moments),
  };
}
