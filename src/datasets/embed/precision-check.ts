/** Compares the features of the first images with those of the same model in float32. */
import { deviceName, type Device } from '../../run/runtime/lanes/device.js';
import type { PhotoMemory } from '../../photos/feeds/photo-memory.js';
import { setImmediate } from 'node:timers/promises';
import { TapirError } from '../../base/errors.js';
import {
  joinComparisons,
  leastCosine,
  type Float32Comparison,
  type OutputCosines,
} from '../records/float32-comparison.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import { prunedInternals } from '../../run/model/prune/pruned-model.js';
import { takeRow } from '../../onnx/tensor/rows.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { cosineOfTensors } from '../../onnx/tensor/compare-vectors.js';
import { runPhotos, type BatchCheck, type CompareBatch } from './embed-batches.js';
import type { EmbedSetup } from './embed-options.js';

/**
 * The number of images that are compared. The float32 model is opened for them, runs several times slower, and is in memory at the
 * same time: for ResNet-50 on two cores, 16 images cost about one second and 200 MB. More would hardly tell more, because their cosines
 * are close together, except for int8, where single images can be far off.
 */
const IMAGES_COMPARED: Readonly<Record<string, number>> = { int8: 64 };
export const FEW_COMPARED = 16;

/** What a check starts from. */
export interface PrecisionCheckPlan {
  /** The precision of the features, for messages. */
  readonly precision: string;
  readonly setup: EmbedSetup;
  /** Opens the same model in float32. */
  readonly open: () => Promise<Extractor>;
  /** That model, if it is being opened already. It is closed with the check. */
  readonly exact?: Promise<Extractor> | undefined;
  /** What earlier runs compared. It counts towards the number of images. */
  readonly before: Float32Comparison | undefined;
  /** End the run if a cosine is below it. */
  readonly minCosine: number | undefined;
}

/**
 * Compares the first images of a dataset. It opens the float32 model with the first batch, and closes it after the last image that
 * it compares: from then on it costs nothing.
 */
export class PrecisionCheck implements BatchCheck {
  readonly #plan: PrecisionCheckPlan;
  /** Images that no batch has reserved yet. */
  #left: number;
  /** Batches that have reserved images and are not compared yet. */
  #reservations = 0;
  #compared: Float32Comparison | undefined;
  #exact: Promise<Extractor> | undefined;
  readonly #comparing = new Set<Promise<void>>();
  #isClosed = false;

  /** @throws {@link TapirError} `PRECISION_TOO_LOW` for what earlier runs compared. */
  constructor(plan: PrecisionCheckPlan) {
    this.#plan = plan;
    this.#exact = plan.exact;
    this.#compared = plan.before;
    const images = IMAGES_COMPARED[plan.precision] ?? FEW_COMPARED;
    this.#left = Math.max(0, images - (plan.before?.images ?? 0));
    this.#checkLeast();
  }

  /** What was compared so far, earlier runs included; undefined if there were no images yet. */
  get compared(): Float32Comparison | undefined {
    return this.#compared;
  }

  /** Reserves the first images of a batch that are still needed. */
  begin(photos: readonly number[]): CompareBatch | undefined {
    const reserved = photos.slice(0, this.#left);
    if (reserved.length === 0) return undefined;
    this.#left -= reserved.length;
    this.#reservations++;
    // It compiles while the batch runs. A failure is thrown when the batch is compared.
    this.#exact ??= this.#plan.open();
    this.#exact.catch(() => undefined);
    return async (memory, features) => {
      if (this.#isClosed) return;
      const comparing = this.#compare(memory, reserved, features);
      this.#comparing.add(comparing);
      try {
        await comparing;
      } finally {
        this.#comparing.delete(comparing);
      }
      this.#reservations--;
      if (this.#left === 0 && this.#reservations === 0) await this.close();
    };
  }

  async #compare(
    memory: PhotoMemory,
    photos: readonly number[],
    features: Readonly<Record<string, Tensor>>,
  ): Promise<void> {
    const exact = await runPhotos(await this.#exact!, memory, photos, this.#plan.setup);
    const cosine = await compareFeatures(features, exact);
    const before = this.#compared ? [this.#compared] : [];
    this.#compared = joinComparisons([...before, { images: photos.length, cosine }]);
    this.#checkLeast();
  }

  #checkLeast(): void {
    const { minCosine, precision } = this.#plan;
    const compared = this.#compared;
    const worst = compared && leastCosine(compared);
    if (minCosine === undefined || !worst || worst.least >= minCosine) return;
    const { key: output, least: cosine } = worst;
    // Rounded down, so that it stays below the limit.
    const shown = Math.floor(cosine * 1e6) / 1e6;
    const choose =
      precision === 'int8'
        ? 'choose what is computed in 8 bits on photos (tapir extract --precision int8 --samples), '
        : '';
    throw new TapirError(
      'PRECISION_TOO_LOW',
      `output "${output}" in ${precision} is too far from float32: on the first ${compared.images} images the least cosine is ${shown}, below the limit of ${minCosine}; ${choose}choose precision "float32", another node as output, or a lower limit (option "minCosine")`,
      { details: { output, cosine, minCosine } },
    );
  }

  /** Closes the float32 model. Comparisons in flight end first. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#comparing);
    const exact = await this.#exact?.catch(() => undefined);
    await exact?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The cosines of each output between the rows of two runs; the second may have run fewer of them. */
async function compareFeatures(
  features: Readonly<Record<string, Tensor>>,
  exact: Readonly<Record<string, Tensor>>,
): Promise<Record<string, OutputCosines>> {
  const compared: Record<string, OutputCosines> = {};
  for (const [key, tensor] of Object.entries(exact)) {
    const cosines: number[] = [];
    for (let row = 0; row < tensor.dims[0]!; row++) {
      cosines.push(cosineOfTensors(takeRow(features[key]!, row), takeRow(tensor, row)));
      // A row of a large map takes milliseconds.
      await setImmediate();
    }
    const mean = cosines.reduce((sum, one) => sum + one, 0) / cosines.length;
    compared[key] = { least: Math.min(...cosines), mean };
  }
  return compared;
}

/** Compares batches of features with those in float32. */
export async function compareBatches(
  batches: readonly Readonly<Record<string, Tensor>>[],
  exact: readonly Readonly<Record<string, Tensor>>[],
): Promise<Float32Comparison> {
  const parts: Float32Comparison[] = [];
  for (const [k, truth] of exact.entries()) {
    const images = Object.values(truth)[0]!.dims[0]!;
    // oxlint-disable-next-line no-await-in-loop -- it lets others work in between
    parts.push({ images, cosine: await compareFeatures(batches[k]!, truth) });
  }
  return joinComparisons(parts)!;
}

/** Creates the check for an extractor. Returns undefined for float32, also of the rest of a file in 8 bits, which needs no check. */
export function createPrecisionCheck(
  extractor: Extractor,
  setup: EmbedSetup,
  earlier: Pick<PrecisionCheckPlan, 'before' | 'minCosine' | 'exact'>,
): PrecisionCheck | undefined {
  const { sessions, model } = extractorInternals.of(extractor);
  const { lowered } = prunedInternals.of(extractor.model);
  const precision = lowered?.precision ?? extractor.floatPrecision;
  if (precision === 'float32') return undefined;
  // One session is enough, also if the extractor has several.
  const device = deviceName(sessions[0]!) as Device;
  const open = (): Promise<Extractor> =>
    lowered
      ? createFeatureExtractor(lowered.exact, undefined, {
          ...model.lane,
          precision: 'float32',
          outputDtype: 'keep',
          session: model.session,
          device,
        })
      : createFeatureExtractor(extractor, undefined, {
          precision: 'float32',
          outputDtype: 'keep',
          device,
        });
  return new PrecisionCheck({ precision, setup, open, ...earlier });
}
