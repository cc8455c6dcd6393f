/** A model in 8 bits, chosen on photos. */
import { availableParallelism } from 'node:os';
import { checkInteger, withDefaults, type Options } from '../base/checks.js';
import { checkFields } from '../base/options.js';
import { chooseModelTransform } from '../datasets/embed/model-transform.js';
import { fitTransform } from '../datasets/embed/image-input.js';
import { loadFeeds } from '../datasets/embed/load-feeds.js';
import type { Extractor } from '../extract/extractor.js';
import { DecodeLanes } from '../images/lanes/decode-lanes.js';
import { readModel, type ModelSource, type OnnxModel } from '../model/open/open-model.js';
import {
  LOWERING_DEFAULTS,
  lowerPrecision,
  type LoweredModel,
  type LoweringOptions,
} from './lower-precision.js';
import { prunedInternals, type PrunedModel } from '../model/prune/pruned-model.js';
import { SOURCE_DEFAULTS, SOURCE_FIELDS } from '../datasets/sources/items/source-options.js';
import { openSource, type EmbedSource } from '../datasets/sources/open-source.js';
import { sampleItems } from '../datasets/sources/sampling/sample-items.js';
import type { NamedTensor } from '../tensor/tensor.js';
import { PHOTO_DEFAULTS, type PhotoFailure, type PhotoOptions } from '../datasets/embed/photo-batches.js';

/** Options of {@link quantizeModel}. */
export interface QuantizeOptions
  extends Pick<LoweringOptions, 'keep' | 'minCosine' | 'signal'>, Omit<PhotoOptions, 'batch'> {
  /**
   * The most photos to measure on, from 1 to 1024, drawn at random with a fixed seed.
   * @default 32
   */
  readonly sample: number;
}

export const QUANTIZE_DEFAULTS: QuantizeOptions = {
  keep: LOWERING_DEFAULTS.keep,
  minCosine: LOWERING_DEFAULTS.minCosine,
  signal: LOWERING_DEFAULTS.signal,
  sample: 32,
  transform: PHOTO_DEFAULTS.transform,
  decodeThreads: PHOTO_DEFAULTS.decodeThreads,
  ...SOURCE_DEFAULTS,
};

/** A quantised model, and the photos that could not be read. */
export interface QuantizedModel<Model extends OnnxModel | PrunedModel> extends LoweredModel<Model> {
  readonly failures: readonly PhotoFailure[];
}

/**
 * Lowers a model to int8, as {@link lowerPrecision} does, with photos as samples: as many of its products with constant matrices are
 * computed in 8 bits as the photos allow.
 *
 * @param model - A model, where to open one, or what {@link pruneModel} gives.
 * @param photos - A folder, pattern, list or archive, as for {@link embedImages}.
 * @param given - See {@link QuantizeOptions}.
 * @returns The model, of the same kind as the given one, and a report with the measured cosines.
 * @throws {@link TapirError} `PRECISION_UNSUPPORTED` if 8 bits do not help the model; `PRECISION_TOO_LOW` if the photos do not allow
 * them; `OPTION_INVALID`, also if the transform does not fit; `SOURCE_INVALID`.
 *
 * @example
 * ```ts
 * import { pruneModel } from 'onnx-tapir';
 * import { quantizeModel } from 'onnx-tapir/precision';
 *
 * const pruned = await pruneModel('vit_b_16.onnx', { getitem_5: 'embedding' });
 * const { model, report } = await quantizeModel(pruned, 'photos');
 * console.log(report.measured); // [{ output: 'embedding', samples: 32, least: 0.9991, mean: 0.9996 }]
 * await model.save('vit_b_16.int8.onnx');
 * ```
 */
export async function quantizeModel(
  model: PrunedModel,
  photos: EmbedSource,
  given?: Options<QuantizeOptions>,
): Promise<QuantizedModel<PrunedModel>>;
export async function quantizeModel(
  model: OnnxModel | ModelSource,
  photos: EmbedSource,
  given?: Options<QuantizeOptions>,
): Promise<QuantizedModel<OnnxModel>>;
export async function quantizeModel(
  model: OnnxModel | ModelSource | PrunedModel,
  photos: EmbedSource,
  given: Options<QuantizeOptions> = {},
): Promise<QuantizedModel<OnnxModel | PrunedModel>> {
  const { decodeThreads, sample, transform, ...options } = withDefaults(
    QUANTIZE_DEFAULTS,
    given,
    'quantizeModel',
  );
  const size = checkInteger('sample', sample, 1, 1024);
  const threads = checkInteger('decodeThreads', decodeThreads, 0, 1024) || availableParallelism();
  const source = prunedInternals.has(model) ? model : readModel(model);
  const { whole, ...taker } = describeTaker(source);
  const chosen = chooseModelTransform(transform, whole);
  const input = fitTransform(taker, chosen);
  const { items } = await sampleItems(
    openSource(photos, checkFields(SOURCE_FIELDS, options), options.signal),
    size,
  );
  const rows = input.multiple ?? 1;
  const failures: PhotoFailure[] = [];
  async function* samples(): AsyncGenerator<NamedTensor> {
    await using lanes = new DecodeLanes(chosen, threads);
    for await (const { feed, items: loaded } of loadFeeds(items, lanes, input, rows)) {
      for (const { path, error } of loaded) if (error) failures.push({ path, error });
      if (feed.dims[0] === rows) yield feed;
    }
  }
  const { keep, minCosine, signal } = options;
  const lowering = { precision: 'int8', keep, minCosine, signal, samples: samples() } as const;
  // A pruned model gives a pruned one, and a whole model a whole one.
  return { ...(await lowerPrecision(source as PrunedModel, lowering)), failures };
}

/** How a model takes images, and the model that it was cut from. */
function describeTaker(
  model: OnnxModel | PrunedModel,
): Pick<Extractor, 'inputs' | 'imageNormalization'> & { readonly whole: OnnxModel } {
  if (!prunedInternals.has(model)) return { inputs: model.inputs, imageNormalization: null, whole: model };
  const { inputs, request } = prunedInternals.of(model);
  return { inputs, imageNormalization: request.image ?? null, whole: model.source };
}
