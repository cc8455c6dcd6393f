/** The options of embedFolder, checked against each other and the extractor. */
import { resolve } from 'node:path';
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkOneOf,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../../base/checks.js';
import { folderNames } from '../records/folder-name.js';
import { FEATURE_FORMATS, type FeatureFormat } from '../formats/feature-files.js';
import { checkShard, type Shard } from '../records/input-names.js';
import type { ShardPlan } from '../files/shard-writer.js';
import type { Extractor } from '../../extract/extractor.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedOptions, type EmbedSetup } from './embed-options.js';
import { readFailureLimit, type FailureLimit, type MaxFailures } from './failure-limit.js';
import type { EmbedProgress } from './progress.js';

/** Options of {@link embedFolder}. */
export interface EmbedFolderOptions extends EmbedOptions {
  /** The folder to write. It is made if it does not exist. */
  readonly out: string;
  /**
   * Element type of float32 features on disk.
   * @default 'float32'
   */
  readonly dtype: 'float32' | 'float16';
  /**
   * Format of the feature files: `npy` (NumPy), `arrow` (Arrow IPC) or `parquet`. The metadata is always Parquet.
   * @default 'npy'
   */
  readonly format: FeatureFormat;
  /**
   * Inputs per file, an integer from 1 to 10 million, rounded up to a multiple of the batch. A run that is killed loses at most
   * the inputs of one file.
   * @default 8192
   */
  readonly shardSize: number;
  /**
   * End the run with `TOO_MANY_FAILURES` when more inputs than this fail: a number, or a share such as `'1%'` (of at least 100
   * finished inputs).
   * @default undefined
   */
  readonly maxFailures: MaxFailures | undefined;
  /**
   * End the run with `PRECISION_TOO_LOW` if features are too far from float32: a number from 0 to 1. With a precision other than
   * float32, the first 16 images of a dataset also run in float32, and the manifest records the cosine between the two features of an
   * image (`run.againstFloat32`). If a cosine is below this limit, nothing of its batch is written.
   * @default undefined
   */
  readonly minCosine: number | undefined;
  /**
   * Embed only the inputs of one shard, into the part `out/parts/i-of-n`. Several processes can each embed a shard without knowing
   * of each other; {@link mergeDataset} merges the parts into one dataset. An input belongs to shard SHA-256(name) mod count, so
   * its shard does not depend on other inputs. Inputs given as bytes have no name: they belong to shard position mod count.
   * @default undefined
   */
  readonly shard: Shard | undefined;
  /**
   * Mark inputs of the dataset that the source no longer has as removed: `status` `'removed'` in the metadata, without a `row`.
   * Readers leave them out; their features stay where they are. With `shard`, only inputs of this part. A file is removed only if it
   * is gone: inputs in a folder that cannot be read stay. An input of a list or stream is removed if it is not listed.
   * @default false
   */
  readonly removeMissing: boolean;
  /**
   * Replace an existing dataset instead of adding to it; with `shard`, replace this part. Only the files of the dataset are
   * removed. Other files in its folder stay.
   * @default false
   */
  readonly overwrite: boolean;
  /**
   * Called after each batch.
   * @default undefined
   */
  readonly onProgress: ((progress: EmbedProgress) => void) | undefined;
}

export const EMBED_FOLDER_DEFAULTS: Omit<EmbedFolderOptions, 'out'> = {
  ...EMBED_DEFAULTS,
  dtype: 'float32',
  format: 'npy',
  shardSize: 8192,
  maxFailures: undefined,
  minCosine: undefined,
  shard: undefined,
  removeMissing: false,
  overwrite: false,
  onProgress: undefined,
};

/** Checked options, and what follows from them. */
export interface EmbedFolderSetup extends EmbedFolderOptions {
  readonly setup: EmbedSetup;
  readonly limit: FailureLimit | undefined;
  readonly plan: ShardPlan;
}

/** Checks the options against each other and the extractor. Throws `OPTION_INVALID`. */
export function readFolderOptions(
  extractor: Extractor,
  given: Options<EmbedFolderOptions>,
): EmbedFolderSetup {
  const options = withDefaults<EmbedFolderOptions>(
    { ...EMBED_FOLDER_DEFAULTS, out: '' },
    given,
    'embedFolder',
  );
  const setup = setUpEmbedding(extractor, options);
  const out = resolve(checkText('out', options.out));
  checkOneOf('dtype', options.dtype, ['float32', 'float16']);
  checkOneOf('format', options.format, FEATURE_FORMATS);
  checkBoolean('removeMissing', options.removeMissing);
  checkBoolean('overwrite', options.overwrite);
  const shardSize =
    Math.ceil(checkInteger('shardSize', options.shardSize, 1, 1e7) / setup.batch) * setup.batch;
  checkFunction('onProgress', options.onProgress);
  const { minCosine } = options;
  if (minCosine !== undefined && !(typeof minCosine === 'number' && minCosine >= 0 && minCosine <= 1))
    throw invalidOption('minCosine', 'a number from 0 to 1', minCosine);
  const limit = readFailureLimit(options.maxFailures);
  const shard = options.shard === undefined ? undefined : checkShard('shard', options.shard);
  const folders = folderNames(extractor.outputs.map((output) => output.name));
  const plan = { folders, shardSize, format: options.format, half: options.dtype === 'float16' };
  return { ...options, out, shard, setup, limit, plan };
}
