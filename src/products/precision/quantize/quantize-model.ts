/** A model in 8 bits, chosen on photos. */
import { availableParallelism } from 'node:os';
import {
  PHOTO_BATCH_FIELDS,
  type PhotoFailure,
  type PhotoBatchOptions,
} from '../../../datasets/embed/photo-batches.js';
import { checkFinite } from '../lowering/search/photo-rows.js';
import { isConvolutional } from '../lowering/is-convolutional.js';
import {
  lowerAlike,
  LOWERING_FIELDS,
  lowerPrecision,
  readKeptNodes,
  readSubject,
  type LoweredModel,
  type LoweringOptions,
} from '../lowering/lower-precision.js';
import { quantizeStatic, type StaticSetup } from '../lowering/fixed-scales/quantize-static.js';
import type { CalibratedReport } from '../lowering/fixed-scales/static-report.js';
import type { LoweringReport } from '../lowering/report.js';
import {
  callback,
  integer,
  number,
  oneOf,
  readOptions,
  refuseUnused,
  signal,
  type Fields,
} from '../../../base/options.js';
import { countSteps, type Progress } from '../../../base/progress.js';
import type { EmbedSource } from '../../../datasets/sources/open-source.js';
import { sampleSource } from '../../../datasets/sources/sample-source.js';
import { chooseModelTransform } from '../../../photos/feeds/model-transform.js';
import { openPhotos } from '../../../photos/feeds/open-photos.js';
import { planFeeds } from '../../../photos/feeds/plan-feeds.js';
import type { ImageTaker } from '../../../photos/feeds/plan-images.js';
import { DecodeLanes } from '../../../photos/images/lanes/decode-lanes.js';
import type { ModelSource, OnnxModel } from '../../../run/model/open/open-model.js';
import type { Options } from '../../../base/checks.js';
import { describeInputs } from '../../../run/model/open/value-info.js';
import { prunedInternals, type PrunedModel } from '../../../run/model/prune/pruned-model.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';

import { measureSpeeds, type MeasuredSpeed } from './measure-speeds.js';

/** Options of {@link quantizeModel}. */
export interface QuantizeOptions
  extends Pick<LoweringOptions, 'keep' | 'signal'>, Omit<PhotoBatchOptions, 'batch'> {
  /**
   * How activations get their scales. `static`: fixed scales from photos, in a plain QDQ file that ONNX Runtime, OpenVINO and TensorRT
   * read; for convolutional networks, and for OpenVINO. `dynamic`: a scale per row at run time, for the products of transformers in
   * ONNX Runtime on CPUs. `auto`: static if convolutions are at least half of the multiply-accumulates that the outputs need, else dynamic.
   * @default 'auto'
   */
  readonly activations: 'static' | 'dynamic' | 'auto';
  /**
   * The least cosine to float32 of any row of any output, from -1 to 1; of a row of one number, the smaller divided by the larger. With
   * fixed scales, on photos that gave no ranges.
   * @default 0.99
   */
  readonly minCosine: number;
  /**
   * With fixed scales: the least share of a photo's ten nearest neighbours among the photos that stay its neighbours, from 0 to 1. It
   * is not measured on fewer than twelve photos.
   * @default 0.98
   */
  readonly minNeighbours: number;
  /**
   * The most photos to measure on, an integer from 1 to 1024, drawn at random with a fixed seed. With fixed scales, one half gives the
   * ranges, and the other half judges.
   * @default 64
   */
  readonly sample: number;
  /**
   * With fixed scales: the longest time of the search, in seconds, an integer from 1 to 86400. A search that ends by itself gives the
   * same file again; one that the time ends may not, and the report says so.
   * @default 300
   */
  readonly seconds: number;
  /**
   * Called as each step begins, with its description as `what`, and within long steps with how much is done.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

const { batch: _, ...READING_FIELDS } = PHOTO_BATCH_FIELDS;

export const QUANTIZE_FIELDS: Fields<QuantizeOptions> = {
  ...READING_FIELDS,
  keep: LOWERING_FIELDS.keep,
  activations: oneOf(
    ['static', 'dynamic', 'auto'],
    'auto',
    'scales of activations: fixed, per row, or by the model',
  ),
  minCosine: LOWERING_FIELDS.minCosine,
  minNeighbours: number(0, 1, 0.98, 'least share of the ten nearest neighbours that stays'),
  sample: integer(1, 1024, 64, 'the most photos, drawn at random'),
  seconds: integer(1, 86_400, 300, 'longest time of the search'),
  signal,
  onProgress: callback(),
};

/** What quantising with fixed scales did, and what it gives. */
export interface StaticReport extends CalibratedReport {
  /** What the model takes before and after, on one batch of photos, in every engine that is installed. */
  readonly speeds: readonly MeasuredSpeed[];
}

/** A quantised model, and the photos that could not be read. */
export interface QuantizedModel<Model extends OnnxModel | PrunedModel> extends LoweredModel<Model> {
  readonly report: LoweringReport | StaticReport;
  readonly failures: readonly PhotoFailure[];
}

/**
 * Quantises a model to int8 on photos: as much of it is computed in 8 bits as keeps the vectors near those in float32.
 *
 * With fixed scales (`static`), one half of the photos gives the ranges of activations, and the other half judges. With a scale per row
 * (`dynamic`), the products with constant matrices are computed as {@link lowerPrecision} does it.
 *
 * @remarks Photos are in memory as the model takes them. With fixed scales, the search runs all photos some ten times, and a few of them
 * once or twice for each layer; the report then also has speeds, which are measured here.
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
  const options = readOptions(QUANTIZE_FIELDS, given, 'quantizeModel');
  if (options.activations === 'dynamic')
    refuseUnused(QUANTIZE_FIELDS, options, ['minNeighbours', 'seconds'], 'activations "dynamic"');
  const source = readSubject(model);
  const { whole, ...taker } = describeTaker(source);
  const transform = chooseModelTransform(options.transform, whole);
  const plan = planFeeds(taker, transform, { takes: 'one size' });
  const { items } = await sampleSource(
    photos,
    options.sample,
    { ...options, clips: undefined },
    options.signal,
  );
  const isStatic =
    options.activations === 'static' ||
    (options.activations === 'auto' && (await isConvolutional(source, transform.outputSize?.height)));
  // Of few photos, too, one run gives ranges and another one judges.
  const half = Math.max(1, Math.floor(items.length / 2));
  const batch = plan.multiple ?? (isStatic ? Math.min(STATIC_ROWS, half) : 1);
  const failures: PhotoFailure[] = [];
  const begin = countSteps(options.onProgress);
  async function* readPhotos(): AsyncGenerator<NamedTensor> {
    const tell = begin('reading photos', 'images', items.length);
    let [done, count] = [0, 0];
    await using lanes = new DecodeLanes(transform, options.decodeThreads || availableParallelism());
    for await (const { items: loaded, photos: read, take } of openPhotos(items, plan, lanes, { batch })) {
      tell((done += loaded.length));
      for (const { path, error } of loaded) if (error) failures.push({ path, error });
      const feeds = Object.values(take());
      // A fixed number of rows is that, or nothing.
      if (read.length < (plan.multiple ?? 1)) continue;
      checkFinite(feeds, count++);
      yield* feeds;
    }
  }
  const { keep, minCosine, signal: stop } = options;
  const samples = readPhotos();
  if (isStatic) return { ...(await lowerStatic(source, { ...options, samples, begin })), failures };
  const lowering = { precision: 'int8', keep, minCosine, signal: stop, samples } as const;
  // A pruned model gives a pruned one, and a whole model a whole one.
  return { ...(await lowerPrecision(source as PrunedModel, lowering)), failures };
}

/** How a model, whole or cut, takes photos, and the model that it was cut from. */
function describeTaker(model: OnnxModel | PrunedModel): ImageTaker & { readonly whole: OnnxModel } {
  if (!prunedInternals.has(model)) return { inputs: model.inputs, whole: model };
  const { rewrite, request } = prunedInternals.of(model);
  return { inputs: describeInputs(rewrite), imageNormalization: request.image ?? null, whole: model.source };
}

/** A model with fixed scales; `keep` are names. Throws as {@link quantizeStatic}. */
async function lowerStatic(
  model: OnnxModel | PrunedModel,
  { keep, ...setup }: Omit<StaticSetup, 'keep'> & Pick<QuantizeOptions, 'keep'>,
): Promise<LoweredModel<OnnxModel | PrunedModel> & { readonly report: StaticReport }> {
  const form = { precision: 'int8', isPlain: true } as const;
  const { exact, lowered, made } = await lowerAlike(model, form, (source, rewrite, naming) => {
    const kept = readKeptNodes(keep, rewrite.cut.graph);
    return quantizeStatic(source, rewrite, naming, { ...setup, keep: kept });
  });
  const speeds = await measureSpeeds(exact, lowered, made.sample);
  return { model: lowered, report: { ...made.report, speeds } };
}

/** The most photos of a run with fixed scales. */
const STATIC_ROWS = 4;
