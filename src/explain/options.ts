/** Options of attribution. */
import {
  checkInteger,
  checkOneOf,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../base/checks.js';
import type { InputSizes } from '../model/open/input-sizes.js';
import type { Device } from '../runtime/lanes/device.js';
import { LANE_DEFAULTS, type LaneOptions } from '../runtime/lanes/lane-options.js';
import type { FeatureExtractorOptions } from '../extract/create-feature-extractor.js';
import { BASELINES, type Baseline } from './input-gradients.js';
import { INPUT_METHODS, isLayerMethod, LAYER_METHODS, type AttributionMethod } from './methods.js';
import { PATH_RULES, type PathRule } from './quadrature.js';

/** Options of {@link createAttribution}. */
export interface AttributionOptions
  extends LaneOptions, Pick<FeatureExtractorOptions, 'devices' | 'parallel' | 'session'> {
  /**
   * How the map is computed. The CAM methods read a `layer`; the others attribute the score to pixels.
   * @default 'grad-cam'
   */
  readonly method: AttributionMethod;
  /**
   * The layer whose map is weighted.
   * @default undefined, which is the last one with places: the end of `layer4` of a ResNet, the `ln_1` of a ViT's last block
   */
  readonly layer: string | undefined;
  /**
   * The scores `[N, classes]`.
   * @default undefined, which is the first output of the model; if that comes from a Softmax, LogSoftmax or Sigmoid, what this reads
   */
  readonly output: string | undefined;
  /**
   * The labels of the classes, in their order; by default those in the model's metadata: entry `labels`, a JSON array, as `tapir train`
   * writes it, or entry `names`, as Ultralytics writes it.
   * @default undefined
   */
  readonly labels: readonly string[] | undefined;
  /**
   * As for {@link createFeatureExtractor}.
   * @default undefined, which is the CPU without `devices`
   */
  readonly device: Device | undefined;
  /**
   * As for {@link differentiate}.
   * @default {}
   */
  readonly inputSizes: InputSizes;
  /**
   * Points on the path of `'integrated-gradients'`, from 2; each costs a run.
   * @default 20
   */
  readonly steps: number;
  /**
   * Where that path starts: at zeros, or at the mean of each channel of the image.
   * @default 'zero'
   */
  readonly baseline: Baseline;
  /**
   * The rule that integrates along that path. The shares of the points add up to 1.
   * @default 'gausslegendre'
   */
  readonly rule: PathRule;
  /**
   * Noisy images of `'smooth-grad'`, `'smooth-grad-squared'` and `'var-grad'`; each costs a run.
   * @default 20
   */
  readonly samples: number;
  /**
   * Standard deviation of that noise, as a share of the range of the image's values.
   * @default 0.15
   */
  readonly noise: number;
  /**
   * Seed of that noise.
   * @default 0
   */
  readonly seed: number;
  /**
   * Masked images in a run of `'score-cam'`, which runs one per channel of the layer.
   * @default 16
   */
  readonly batchSize: number;
}

/** {@link AttributionOptions} as the caller passes them. */
export type GivenAttributionOptions = Options<AttributionOptions>;

export const ATTRIBUTION_DEFAULTS: AttributionOptions = {
  ...LANE_DEFAULTS,
  method: 'grad-cam',
  layer: undefined,
  output: undefined,
  labels: undefined,
  device: undefined,
  devices: undefined,
  parallel: {},
  session: {},
  inputSizes: {},
  steps: 20,
  baseline: 'zero',
  rule: 'gausslegendre',
  samples: 20,
  noise: 0.15,
  seed: 0,
  batchSize: 16,
};

const MOST = 2 ** 20;

/** Reads options. Throws `OPTION_INVALID`. */
export function readAttributionOptions(given: GivenAttributionOptions): AttributionOptions {
  const options = withDefaults(ATTRIBUTION_DEFAULTS, given, 'createAttribution');
  const { method, layer, output, noise } = options;
  checkOneOf('method', method, [...LAYER_METHODS, ...INPUT_METHODS]);
  checkOneOf('baseline', options.baseline, BASELINES);
  checkOneOf('rule', options.rule, PATH_RULES);
  checkInteger('steps', options.steps, 2, MOST);
  checkInteger('samples', options.samples, 1, MOST);
  checkInteger('batchSize', options.batchSize, 1, MOST);
  checkInteger('seed', options.seed, 0, 2 ** 32 - 1);
  if (!(typeof noise === 'number' && noise >= 0 && noise < Infinity))
    throw invalidOption('noise', 'a finite number from 0', noise);
  if (output !== undefined) checkText('output', output);
  if (layer !== undefined) checkText('layer', layer);
  if (isLayerMethod(method) || layer === undefined) return options;
  const expected = `left out for method "${method}", which attributes the score to pixels`;
  throw invalidOption('layer', expected, layer);
}
