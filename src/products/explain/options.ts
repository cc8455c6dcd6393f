/** Options of attribution. */
import { checkLabels } from '../../extract/class-labels.js';
import { DEVICE, type Device } from '../../run/runtime/lanes/device.js';
import { LANE_FIELDS, type LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import {
  integer,
  number,
  oneOf,
  optional,
  readOptions,
  refuseUnused,
  text,
  unchecked,
  type Fields,
} from '../../base/options.js';
import { invalidOption, type Options } from '../../base/checks.js';
import type { FeatureExtractorOptions } from '../../extract/extractor-options.js';
import type { InputSizes } from '../../run/model/open/input-sizes.js';
import { BASELINES, type Baseline } from './input-gradients.js';
import { ATTRIBUTION_METHODS, isLayerMethod, NOISE_METHODS, type AttributionMethod } from './methods.js';
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
  readonly batch: number;
}

const MOST = 2 ** 20;

export const ATTRIBUTION_FIELDS: Fields<AttributionOptions> = {
  ...LANE_FIELDS,
  method: oneOf(ATTRIBUTION_METHODS, 'grad-cam', 'how; methods without "cam" in their names take no layer'),
  layer: optional(
    text('', 'layer of the CAM methods (default: the last map or grid of tokens, such as layer4)'),
  ),
  output: optional(
    text('', 'the scores (default: the first output, or what its final Softmax or Sigmoid reads)'),
  ),
  labels: optional(checkLabels),
  device: optional(DEVICE),
  devices: unchecked(undefined),
  parallel: unchecked({}),
  session: unchecked({}),
  inputSizes: unchecked({}),
  steps: integer(2, MOST, 20),
  baseline: oneOf(BASELINES, 'zero'),
  rule: oneOf(PATH_RULES, 'gausslegendre'),
  samples: integer(1, MOST, 20),
  noise: number(0, Infinity, 0.15),
  seed: integer(0, 2 ** 32 - 1, 0),
  batch: integer(1, MOST, 16),
};

type IsUsed = (method: AttributionMethod) => boolean;
const alongPath: IsUsed = (method) => method === 'integrated-gradients';
const withNoise: IsUsed = (method) => (NOISE_METHODS as readonly string[]).includes(method);

/** The options that only some methods use. */
const USED_BY: Readonly<Partial<Record<keyof AttributionOptions, IsUsed>>> = {
  steps: alongPath,
  baseline: alongPath,
  rule: alongPath,
  samples: withNoise,
  noise: withNoise,
  seed: withNoise,
  batch: (method) => method === 'score-cam',
};

/** Reads options. Throws `OPTION_INVALID`. */
export function readAttributionOptions(given: Options<AttributionOptions>): AttributionOptions {
  const options = readOptions(ATTRIBUTION_FIELDS, given, 'createAttribution');
  const { method, layer } = options;
  const unused = Object.entries(USED_BY).flatMap(([name, isUsed]) => (isUsed(method) ? [] : [name]));
  refuseUnused(ATTRIBUTION_FIELDS, options, unused as (keyof AttributionOptions)[], `method "${method}"`);
  if (isLayerMethod(method) || layer === undefined) return options;
  const expected = `left out for method "${method}", which attributes the score to pixels`;
  throw invalidOption('layer', expected, layer);
}
