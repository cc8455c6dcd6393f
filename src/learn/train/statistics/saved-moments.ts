/** Moments as plain data: to be saved as JSON, and merged from several processes. */
import { isPlainObject } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { identifyFile } from '../../../run/model/prune/identify-model.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import {
  combineMoments,
  populationStatistics,
  type ChannelMoments,
  type ChannelStatistics,
} from './channel-moments.js';
import { MODES, type BatchNormMode } from './modes.js';
import type { NormLayer } from './norm-layers.js';

/** The moments of all rows that a run has seen, by norm. JSON keeps every digit. */
export interface BatchNormMoments {
  readonly format: 'onnx-tapir moments 1';
  /** SHA-256 of the model file. */
  readonly model: string;
  readonly mode: BatchNormMode;
  readonly layers: readonly {
    readonly name: string;
    /** Values per channel. */
    readonly count: number;
    readonly mean: readonly number[];
    /** Population variance. */
    readonly variance: readonly number[];
  }[];
}

const FORMAT = 'onnx-tapir moments 1';

/** Why the moments of a mode do not add up over processes; undefined if they do. */
const NOT_ADDITIVE: Readonly<Partial<Record<BatchNormMode, string>>> = {
  momentum: 'the running average depends on the order of the batches',
  device0: 'the running average depends on the order of the batches',
  synced: 'each layer normalises by the statistics of rows in other processes',
  'adabn-sequential': 'each layer normalises by the statistics of rows in other processes',
};

/** Describes moments as plain data. */
export async function saveMoments(
  model: OnnxModel,
  mode: BatchNormMode,
  moments: ReadonlyMap<NormLayer, ChannelMoments>,
): Promise<BatchNormMoments> {
  const { sha256 } = await identifyFile(model);
  const layers = [...moments].map(([{ name }, one]) => ({
    name,
    count: one.count,
    mean: [...one.mean],
    variance: [...populationStatistics(one).variance],
  }));
  return { format: FORMAT, model: sha256, mode, layers };
}

/** Reads moments of a model. Throws `MOMENTS_INVALID` if they are damaged, or of another model. */
export async function readMoments(model: OnnxModel, given: unknown): Promise<BatchNormMoments> {
  if (!isMoments(given)) throw invalid('they are not what estimateBatchNorm or measureMoments gives');
  const { sha256 } = await identifyFile(model);
  if (given.model !== sha256)
    throw invalid(`they were measured on another model file (SHA-256 ${given.model}, not ${sha256})`);
  return given;
}

/** The statistics of moments by layer. */
export function statisticsByName({ layers }: BatchNormMoments): Map<string, ChannelStatistics> {
  const statistics = new Map<string, ChannelStatistics>();
  for (const { name, mean, variance } of layers)
    statistics.set(name, { mean: Float64Array.from(mean), variance: Float64Array.from(variance) });
  return statistics;
}

/** Adds up the moments of several processes. Throws `MOMENTS_INVALID` if their mode does not allow it, or they do not belong together. */
export function addMoments(
  parts: readonly BatchNormMoments[],
  layers: readonly NormLayer[],
): Map<NormLayer, ChannelMoments> {
  const [first, ...others] = parts;
  if (!first) throw invalid('there are none to merge');
  const reason = NOT_ADDITIVE[first.mode];
  if (reason !== undefined)
    throw invalid(
      `mode "${first.mode}" cannot be merged: ${reason}; use mode "adabn" or "precise", or one process`,
    );
  const odd = others.find(({ mode }) => mode !== first.mode);
  if (odd) throw invalid(`modes differ: "${first.mode}" and "${odd.mode}"`);
  return new Map(
    layers.map((layer) => {
      const ofLayer = parts.map((part) => {
        const found = part.layers.find(({ name }) => name === layer.name);
        if (found?.mean.length !== layer.channels)
          throw invalid(
            `they lack "${layer.name}" with ${layer.channels} channels; merge parts of the same run`,
          );
        const { count } = found;
        const m2 = Float64Array.from(found.variance, (value) => value * count);
        return { count, mean: Float64Array.from(found.mean), m2 };
      });
      return [layer, combineMoments(ofLayer)];
    }),
  );
}

function isMoments(given: unknown): given is BatchNormMoments {
  if (!isPlainObject(given)) return false;
  const { format, model, mode, layers } = given;
  const isNumbers = (list: unknown): list is number[] => Array.isArray(list) && list.every(Number.isFinite);
  return (
    format === FORMAT &&
    typeof model === 'string' &&
    MODES.some((one) => one === mode) &&
    Array.isArray(layers) &&
    layers.every((layer: unknown) => {
      if (!isPlainObject(layer)) return false;
      const { name, count, mean, variance } = layer;
      return (
        typeof name === 'string' &&
        Number.isInteger(count) &&
        (count as number) > 0 &&
        isNumbers(mean) &&
        isNumbers(variance) &&
        mean.length === variance.length &&
        variance.every((value) => value >= 0)
      );
    })
  );
}

function invalid(reason: string): TapirError<'MOMENTS_INVALID'> {
  return new TapirError('MOMENTS_INVALID', `the moments cannot be used: ${reason}`, { details: { reason } });
}
