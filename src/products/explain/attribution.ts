/** Attribution: which places of an image a score depends on. */
import { readClassLabels, type ClassLabels } from '../../extract/class-labels.js';
import { readLaneOptions } from '../../run/runtime/lanes/lane-options.js';
import { readModelCall } from '../../extract/inherit-options.js';
import { readRunInput } from '../../extract/replicas/read-run-input.js';
import { readOptions, signal, unchecked, type Fields } from '../../base/options.js';
import { highest } from '../../onnx/tensor/vectors/largest.js';
import { makeTensor, mismatch, type NamedTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { selectRows } from '../../onnx/tensor/rows.js';
import { readMaps, toImage, type Maps, type Size } from '../maps/maps.js';
import type { Extractor } from '../../extract/extractor.js';
import type { ModelSource, OnnxModel } from '../../run/model/open/open-model.js';
import type { Options } from '../../base/checks.js';
import type { PrunedModel } from '../../run/model/prune/pruned-model.js';
import type { RunInput } from '../../extract/replicas/run-options.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { activationMaps } from './class-activation.js';
import { normaliseMaps, resizeMaps } from './heatmap.js';
import { integrateGradients, pixelMaps, seededNoise, smoothGradients } from './input-gradients.js';
import { fitLabels, indexLabels } from './labels.js';
import { isLayerMethod, type InputMethod, type LayerMethod, type NoiseMethod } from './methods.js';
import { readAttributionOptions, type AttributionOptions } from './options.js';
import { createPasses, type Pass, type Passes } from './passes.js';
import { pathPoints } from './quadrature.js';
import { scoreMaps } from './score-cam.js';
import { readsLogits, scoresOf, seedsOf, type AttributionTarget } from './targets.js';

/** Options of {@link Attribution.run}. */
export interface AttributionRunOptions {
  /**
   * The score of each row.
   * @default 'predicted'
   */
  readonly target: AttributionTarget;
  /**
   * Rejects the call when it fires.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const ATTRIBUTION_RUN_FIELDS: Fields<AttributionRunOptions> = {
  // Checked with the scores.
  target: unchecked<AttributionTarget>('predicted'),
  signal,
};

/** What {@link Attribution.run} gives. Each tensor has a row per image. */
export interface AttributionResult {
  /** `[N, h, w]`, the size of the layer or of the image: the map as the method defines it, with negative values. */
  readonly map: Tensor<'float32'>;
  /** The same without negative values, each row scaled to 0…1. */
  readonly normalised: Tensor<'float32'>;
  /** `[N, H, W]`, the size of the image: `normalised`, enlarged bilinearly and scaled to 0…1 again. */
  readonly heatmap: Tensor<'float32'>;
  /** Of the dims of the image: what the method attributes to each element; the gradient for `'saliency'`. `null` for CAM methods. */
  readonly values: Tensor<'float32'> | null;
  /** The class of each row: the one that counts most in its score. */
  readonly classes: readonly number[];
  /** The label of that class; `null` where labels are unknown. */
  readonly labels: readonly (string | null)[];
  /** The score of each row. */
  readonly scores: readonly number[];
  /** The value of the model whose elements are the scores. */
  readonly output: string;
  /** The layer of a CAM method; `null` for the other methods. */
  readonly layer: string | null;
}

/** A batch and what its rows are scored by. */
interface Job {
  readonly feeds: readonly NamedTensor[];
  readonly image: Maps;
  readonly seeds: Tensor<'float32'>;
  readonly signal: AbortSignal | undefined;
  /** The forward pass, if it was run. */
  readonly forward: Pass | undefined;
}

/** The map that a method finds. */
interface Found {
  readonly map: Float32Array;
  readonly size: Size;
  readonly values: Float32Array | null;
  readonly logits: Tensor<'float32'>;
}

let newAttribution: (passes: Passes, options: AttributionOptions, labels: ClassLabels) => Attribution;

/**
 * Attributes scores to places of images. Made by {@link createAttribution}.
 *
 * @remarks The forward and the backward pass are two sessions, and each opens when a run first needs it. A run with classes as target
 * needs only the backward pass, which holds those parts of the forward pass that it reads.
 */
export class Attribution {
  /** The inputs that must be fed. */
  readonly inputs: readonly TensorInfo[];
  /**
   * The backward pass, to save or to inspect. It is `null` for methods without gradients. It is also `null` for a layer in front of global
   * average pooling and one linear layer: its gradient is that layer's weights.
   */
  readonly gradients: PrunedModel | null;
  /** The value of the model whose elements are the scores: the given one, else the first output or what its final Softmax reads. */
  readonly output: string;
  /**
   * The operator at the end of the model that is left out, because its probabilities are no scores: `'Softmax'`, `'LogSoftmax'` or
   * `'Sigmoid'`. `null` if there is no such operator, or if `output` is given.
   */
  readonly skipped: string | null;
  /** The layer of a CAM method: the given one, else the last with places. `null` for the other methods. */
  readonly layer: string | null;
  /** The labels of the classes in order: the given ones, else the model's own. `null` where the model has none. */
  readonly labels: readonly string[] | null;
  readonly #passes: Passes;
  readonly #options: AttributionOptions;
  readonly #labels: ClassLabels;

  static {
    newAttribution = (...parts) => new Attribution(...parts);
  }

  private constructor(passes: Passes, options: AttributionOptions, labels: ClassLabels) {
    this.inputs = passes.inputs;
    const { backward, scores, layer } = passes.plan;
    this.gradients = backward ?? null;
    this.output = scores.output;
    this.skipped = scores.skipped;
    this.layer = layer ?? null;
    this.labels = 'labels' in labels ? labels.labels : null;
    this.#passes = passes;
    this.#options = options;
    this.#labels = labels;
  }

  /**
   * Computes the maps of a batch.
   *
   * @param input - As for {@link FeatureExtractor.run}; the image is float32.
   * @param given - See {@link AttributionRunOptions}.
   * @returns Maps in buffers that are yours.
   * @throws {@link TapirError} those of {@link FeatureExtractor.run}; `OUTPUT_MISFIT` for a layer that is neither a map nor a grid of
   * tokens, and for an output that is not `[N, classes]`; `OPTION_INVALID` for a target out of range, and for an unknown label, with the
   * nearest ones.
   */
  async run(input: RunInput, given: Options<AttributionRunOptions> = {}): Promise<AttributionResult> {
    const { target, signal } = readOptions(ATTRIBUTION_RUN_FIELDS, given, 'run');
    const { classes: stated, imageLayout } = this.#passes.plan;
    const feeds = readRunInput(this.inputs, input);
    const image = this.#readImage(feeds);
    const isForward = !this.gradients || stated === undefined || readsLogits(target);
    const forward = isForward ? await this.#passes.forward(feeds, signal) : undefined;
    const { rows, size } = image;
    const classes = forward?.logits.dims[1] ?? stated!;
    const labels = fitLabels(this.#labels, classes, this.#options.labels !== undefined);
    const seeds = seedsOf(indexLabels(target, labels), [rows, classes], forward?.logits);
    const job = { feeds, image, seeds, signal, forward };
    const { method } = this.#options;
    const found = await (isLayerMethod(method) ? this.#ofLayer(method, job) : this.#ofImage(method, job));
    const normalised = normaliseMaps(found.map, found.size);
    const counted = Array.from({ length: rows }, (_, row) =>
      highest(seeds.data.subarray(row * classes, (row + 1) * classes)),
    );
    const heatmap = normaliseMaps(resizeMaps(normalised, found.size, size, 'half-pixel'), size);
    return {
      map: makeTensor('float32', [rows, ...found.size], found.map),
      normalised: makeTensor('float32', [rows, ...found.size], normalised),
      heatmap: makeTensor('float32', [rows, ...size], heatmap),
      values: found.values && toImage({ ...image, data: found.values }, imageLayout),
      classes: counted,
      labels: counted.map((index) => ('labels' in labels ? labels.labels[index]! : null)),
      scores: scoresOf(found.logits, seeds),
      output: this.output,
      layer: this.layer,
    };
  }

  /** Waits for the runs in flight, and ends the sessions. Idempotent. */
  close(): Promise<void> {
    return this.#passes.close();
  }

  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #readImage(feeds: readonly NamedTensor[]): Maps {
    const { image, imageLayout } = this.#passes.plan;
    const feed = feeds.find(({ name }) => name === image)!;
    if (feed.dtype !== 'float32') throw mismatch(image, 'float32', feed.dtype);
    return readMaps(image, feed, imageLayout, [0, 0]);
  }

  async #ofLayer(method: LayerMethod, job: Job): Promise<Found> {
    const { image, forward } = job;
    const layer = this.layer!;
    const isForward = method === 'score-cam' || method === 'eigen-cam';
    const pass = isForward
      ? forward!
      : await this.#passes.backward(job.feeds, job.seeds, job.signal, forward);
    const read = (tensor: Tensor): Maps =>
      readMaps(layer, tensor, this.#passes.plan.layerLayout, image.size, pass.layer);
    const activations = read(pass.layer!);
    const map =
      method === 'score-cam'
        ? await scoreMaps(image, activations, this.#options.batch, (...masked) =>
            this.#scoreMasked(job, ...masked),
          )
        : activationMaps(method, activations, pass.gradient && read(pass.gradient));
    return { map, size: activations.size, values: null, logits: pass.logits };
  }

  /** The scores of a row under masks. */
  async #scoreMasked(job: Job, row: number, pixels: Float32Array, count: number): Promise<number[]> {
    const same = Array.from({ length: count }, () => row);
    const feeds = job.feeds.map((feed) => ({ ...selectRows(feed, same), name: feed.name }));
    const image = { ...job.image, rows: count, data: pixels };
    const { logits } = await this.#passes.forward(this.#withImage(feeds, image), job.signal);
    return scoresOf(logits, selectRows(job.seeds, same) as Tensor<'float32'>);
  }

  async #ofImage(method: InputMethod, job: Job): Promise<Found> {
    const { image, seeds, signal } = job;
    const { rule, steps, baseline, samples, noise: level, seed } = this.#options;
    let logits = job.forward?.logits;
    const gradientAt = async (data: Float32Array): Promise<Float32Array> => {
      const feeds = this.#withImage(job.feeds, { ...image, data });
      const pass = await this.#passes.backward(feeds, seeds, signal);
      if (data === image.data) logits = pass.logits;
      return readMaps('gradient', pass.gradient!, this.#passes.plan.imageLayout, image.size).data;
    };
    const smooth = (kind: NoiseMethod) => () =>
      smoothGradients(kind, image, seededNoise(image, { samples, level, seed }), gradientAt);
    const compute = {
      saliency: () => gradientAt(image.data),
      'input-x-gradient': async () =>
        (await gradientAt(image.data)).map((slope, i) => slope * image.data[i]!),
      'integrated-gradients': () => integrateGradients(image, pathPoints(rule, steps), baseline, gradientAt),
      'smooth-grad': smooth('smooth-grad'),
      'smooth-grad-squared': smooth('smooth-grad-squared'),
      'var-grad': smooth('var-grad'),
    };
    const values = await compute[method]();
    logits ??= (await this.#passes.forward(job.feeds, signal)).logits;
    return { map: pixelMaps(method, image, values), size: image.size, values, logits };
  }

  /** The feeds with other pixels. */
  #withImage(feeds: readonly NamedTensor[], image: Maps): NamedTensor[] {
    const { image: name, imageLayout } = this.#passes.plan;
    return feeds.map((feed) => (feed.name === name ? { ...toImage(image, imageLayout), name } : feed));
  }
}

/**
 * Makes an attribution of a model's scores: Grad-CAM and its kin on a layer, or gradients of the pixels.
 *
 * The backward pass is that of {@link differentiate}. Tokens of a ViT become a grid; class and register tokens are left out. The
 * formulas and constants are those of pytorch-grad-cam and captum.
 *
 * @param model - A model, or where to open one. From an extractor, it takes the source model, and every option that you leave out of its
 * devices, sessions and lanes.
 * @param given - See {@link AttributionOptions}.
 * @returns The attribution; close it after use.
 * @throws {@link TapirError} those of {@link differentiate} and {@link createFeatureExtractor}; `OPTION_INVALID`; `INPUT_MISMATCH` for a
 * model without a float32 image input, and for scores that do not depend on it.
 *
 * @example Where a ResNet-50 sees class 207 (golden retriever).
 * ```ts
 * import { createAttribution } from 'onnx-tapir/explain';
 *
 * const cam = await createAttribution('resnet50.onnx', { method: 'grad-cam', layer: 'layer4' });
 * const batch = { dtype: 'float32', dims: [2, 3, 224, 224], data: new Float32Array(2 * 3 * 224 * 224) };
 * const { map, heatmap } = await cam.run(batch, { target: 207 });
 * console.log(map.dims, heatmap.dims); // [2, 7, 7] [2, 224, 224]
 * await cam.close();
 * ```
 */
export async function createAttribution(
  model: OnnxModel | ModelSource | Extractor,
  given: Options<AttributionOptions> = {},
): Promise<Attribution> {
  const call = readModelCall(model, given, 'createAttribution');
  const options = readAttributionOptions(call.options);
  const { device, devices, parallel, session } = options;
  const place = { ...readLaneOptions(options), device, devices, parallel, session };
  // The maps of an extractor in a lowered model are those of its float32 model: float16 and 8 bits have no gradients.
  const source = call.open();
  const labels = options.labels ? { labels: options.labels } : await readClassLabels(source);
  return newAttribution(await createPasses(source, options, place), options, labels);
}
