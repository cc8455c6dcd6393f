/** The options of embedding, checked against the model. */
import { invalidOption, pickFields, type Options } from '../../base/checks.js';
import {
  boolean,
  defaultsOf,
  integer,
  oneOf,
  optional,
  readOptions,
  signal,
  type Fields,
} from '../../base/options.js';
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import { PHOTO_FIELDS, type PhotoOptions } from '../../photos/feeds/photo-options.js';
import { planClips } from '../../photos/images/transform/clip-options.js';
import { planTiles } from '../../photos/images/transform/tile-options.js';
import type { Transform } from '../../photos/images/transform/transform.js';
import { chooseModelTransform } from '../../photos/feeds/model-transform.js';
import { WINDOW_BATCHES, type FeedPlan } from '../../photos/feeds/feed-plan.js';
import { CROP_ROWS, type CropRows } from '../../photos/images/pixels/crops.js';
import { hasMean } from '../../onnx/tensor/rows.js';
import { planFeeds } from '../../photos/feeds/plan-feeds.js';
import { checkCut } from './written-features.js';
import {
  SOURCE_DEFAULTS,
  SOURCE_FIELDS,
  type SourceOptions,
  type SourcePlan,
} from '../../photos/feeds/items/source-options.js';

/** Options of embedding, beside those of photos, that do not depend on the rows of a photo. */
export interface OneRowOptions extends SourceOptions {
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

/** Options of {@link embedImages}. */
export interface EmbedOptions extends OneRowOptions, PhotoOptions {
  /**
   * Cuts vectors to their first elements, so many, and divides each by its Euclidean norm: for models that were trained for it (Matryoshka).
   * All outputs must be vectors of floats, at least so long. Recorded in a dataset, whose queries are cut likewise.
   * @default undefined
   */
  readonly dims: number | undefined;
  /**
   * What becomes of several crops of a photo (`crops` of the transform): the `mean` of their features, or a row for `each`, numbered from 0.
   * @default 'mean'
   */
  readonly cropRows: CropRows;
}

export const ONE_ROW_FIELDS: Fields<OneRowOptions> = {
  ...SOURCE_FIELDS,
  batch: integer(0, 4096, 0, 'images that the model takes at once; 0: 8 on the CPU, 32 on a GPU'),
  keepDims: boolean(false, 'keep trailing 1×1 dims: [2048, 1, 1] instead of [2048]'),
  decodeThreads: integer(
    0,
    1024,
    0,
    'threads that decode images; 0: one for each core that the devices leave free',
  ),
  checksum: boolean(false, 'hash each file, to find changes that keep size and time'),
  signal,
};

export const EMBED_FIELDS: Fields<EmbedOptions> = {
  ...PHOTO_FIELDS,
  ...ONE_ROW_FIELDS,
  dims: optional(
    integer(1, 2 ** 31 - 1, 1, 'cut vectors to their first elements, so many, and normalise them'),
  ),
  cropRows: oneOf(
    CROP_ROWS,
    'mean',
    'of several crops of a photo: the mean of their features, or a row for each',
  ),
};

export const EMBED_DEFAULTS: EmbedOptions = defaultsOf(EMBED_FIELDS);

/** Checked options, and what follows from them and the model. */
export interface EmbedSetup extends Omit<EmbedOptions, keyof PhotoOptions | keyof SourceOptions> {
  readonly transform: Transform;
  /** How to read the source. */
  readonly source: SourcePlan;
  /** How photos feed the model. */
  readonly feeds: FeedPlan;
  /**
   * Photos of a window: those that are sorted by shape before batches are cut from them, so that little is padded. Null if all photos have
   * one shape.
   */
  readonly window: number | null;
  /** Whether features keep the element types of the file, as in datasets: they do not depend on who opened the extractor. */
  readonly isKept: boolean;
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

/** Fits checked options to the extractor; those that are left out have their defaults. Throws `OPTION_INVALID`. */
export function setUpEmbedding(extractor: Extractor, given: Partial<EmbedOptions> = {}): EmbedSetup {
  const options: EmbedOptions = { ...EMBED_DEFAULTS, ...given };
  const { keepDims, dims, checksum, decodeThreads, cropRows } = options;
  const { model, photosPerRun } = extractorInternals.of(extractor);
  const { source } = model.pruned;
  const transform = chooseModelTransform(options.transform, source, model.transform, extractor.inputs);
  const tiles = options.tiles && planTiles(options.tiles);
  const clips = options.clips && planClips(options.clips);
  const feeds = planFeeds(extractor, transform, { cropRows, tiles, clips });
  const whole = extractor.outputs.find(({ dtype }) => dtype !== null && !hasMean(dtype));
  if (feeds.processor.joins && whole)
    throw invalidOption('cropRows', `"each" for output "${whole.name}" of ${whole.dtype}`, cropRows);
  if (dims !== undefined) for (const output of extractor.outputs) checkCut(output.name, output, dims);
  const batch = options.batch || photosPerRun;
  return {
    batch,
    window: feeds.unlike ? WINDOW_BATCHES * batch : null,
    keepDims,
    dims,
    cropRows,
    checksum,
    decodeThreads,
    signal: options.signal,
    source: { ...pickFields(options, SOURCE_DEFAULTS), clips },
    transform,
    feeds,
    isKept: false,
  };
}
