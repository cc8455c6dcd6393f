/** The options of embedding, checked against the model. */
import { pickFields, type Options } from '../../base/checks.js';
import {
  boolean,
  defaultsOf,
  integer,
  readOptions,
  signal,
  unchecked,
  type Fields,
} from '../../base/options.js';
import { extractorInternals, isOnCpu, type Extractor } from '../../extract/extractor.js';
import type { TransformRequest } from '../../images/configs/find-transform.js';
import { TRANSFORM_PRESETS } from '../../images/transform/transform-options.js';
import type { Transform } from '../../images/transform/transform.js';
import { fitTransform, type ImageInput } from './image-input.js';
import { chooseModelTransform } from './model-transform.js';
import { SOURCE_DEFAULTS, SOURCE_FIELDS, type SourceOptions } from '../sources/items/source-options.js';

/** Options of {@link embedImages}. */
export interface EmbedOptions extends SourceOptions {
  /**
   * Preprocessing: `'auto'`, the name of a preset, `torchvision:WEIGHTS`, the path of a configuration file, options, or a transform
   * from {@link createTransform}. Its results must fit the model's input. `'auto'` takes what {@link findTransform}
   * finds beside the model; else it assumes `ImageNet1K_V1`, unless the model's file contradicts it.
   * @default 'auto'
   */
  readonly transform: TransformRequest;
  /**
   * Images per run, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly batch: number;
  /**
   * Whether to keep trailing 1×1 spatial dims: `[2048, 1, 1]` instead of `[2048]`.
   * @default false
   */
  readonly keepDims: boolean;
  /**
   * Threads that decode images, an integer from 0 to 1024; 0 uses the cores that the devices leave free. More threads than
   * UV_THREADPOOL_SIZE (4 by default, read when Node.js starts) do not help. The `tapir` command sets this variable.
   * @default 0
   */
  readonly decodeThreads: number;
  /**
   * Whether to hash the content of each file, which finds changes that size and time do not show.
   * @default false
   */
  readonly checksum: boolean;
  /**
   * Stops the work when it fires. The call then rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const EMBED_FIELDS: Fields<EmbedOptions> = {
  ...SOURCE_FIELDS,
  // Checked with the model.
  transform: unchecked(
    'auto',
    `preprocessing: auto (the configuration beside the model), ${Object.keys(TRANSFORM_PRESETS).join(', ')}, torchvision:WEIGHTS, a configuration file, or JSON`,
  ),
  batch: integer(0, 4096, 0, 'images per run; 0 for 8 on the CPU and 32 on a GPU'),
  keepDims: boolean(false, 'keep trailing 1×1 dims'),
  decodeThreads: integer(
    0,
    1024,
    0,
    'threads that decode images; 0 for the cores that the devices leave free',
  ),
  checksum: boolean(false, 'hash each file, to find changes that keep size and time'),
  signal,
};

export const EMBED_DEFAULTS: EmbedOptions = defaultsOf(EMBED_FIELDS);

/** Checked options, and what follows from them and the model. */
export interface EmbedSetup extends Omit<EmbedOptions, 'transform' | keyof SourceOptions> {
  readonly transform: Transform;
  /** How to read the source. */
  readonly source: SourceOptions;
  /** How the model takes the images. */
  readonly input: ImageInput;
}

/** Reads options of a call that takes an extractor. Throws `OPTION_INVALID`. */
export function readWithExtractor<Named extends object>(
  extractor: Extractor,
  fields: Fields<Named>,
  given: Options<Named>,
  what: string,
): Named {
  // First: a forgotten await, or an extractor of another copy of this package.
  extractorInternals.of(extractor);
  return readOptions(fields, given, what);
}

/** Fits checked options to the extractor. Throws `OPTION_INVALID`. */
export function setUpEmbedding(extractor: Extractor, options: EmbedOptions): EmbedSetup {
  const { keepDims, checksum, decodeThreads } = options;
  const transform = chooseModelTransform(options.transform, extractor.model.source);
  return {
    batch: options.batch || (isOnCpu(extractor) ? 8 : 32),
    keepDims,
    checksum,
    decodeThreads,
    signal: options.signal,
    source: pickFields(options, SOURCE_DEFAULTS),
    transform,
    input: fitTransform(extractor, transform),
  };
}
