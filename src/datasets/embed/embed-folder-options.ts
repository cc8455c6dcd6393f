/** The options of embedFolder, checked against each other and the extractor. */
import { resolve } from 'node:path';
import { checkText, invalidOption, type Options } from '../../base/checks.js';
import {
  boolean,
  callback,
  checkedBy,
  integer,
  number,
  oneOf,
  optional,
  texts,
  unchecked,
  type Fields,
} from '../../base/options.js';
import { FEATURE_FORMATS, type FeatureFormat } from '../formats/feature-files.js';
import { folderNames } from '../records/folder-name.js';
import { partsOf } from '../records/dataset-identity.js';
import { describeParts } from './describe-run.js';
import { checkShard, type Shard } from '../records/input-names.js';
import type { EngineChoice } from '../records/engine-choice.js';
import type { ShardPlan } from '../files/shard-writer.js';
import { type Extractor } from '../../extract/extractor.js';
import {
  EMBED_FIELDS,
  readWithExtractor,
  setUpEmbedding,
  type EmbedOptions,
  type EmbedSetup,
} from './embed-options.js';
import { checkMaxFailures, readFailureLimit, type FailureLimit, type MaxFailures } from './failure-limit.js';
import type { EmbedProgress } from './progress.js';

/** Options of {@link embedFolder}. */
export interface EmbedFolderOptions extends EmbedOptions {
  /** The folder to write. It is made if it does not exist. */
  readonly out: string;
  /**
   * Element type of float32 features on disk. Other outputs are written as the file has them, whatever the extractor's `outputDtype`.
   * @default 'float32'
   */
  readonly dtype: 'float32' | 'float16';
  /**
   * Format of the feature files: `npy` (NumPy), `arrow` (Arrow IPC) or `parquet`. The metadata is always Parquet.
   * @default 'npy'
   */
  readonly format: FeatureFormat;
  /**
   * Inputs per file, an integer from 1 to 10 million, rounded up to a multiple of the batch.
   * @default 8192
   */
  readonly shardSize: number;
  /**
   * Save what was done after at most so many seconds, a number from 0 to 86,400, whether its file is full or not. A run that is killed
   * loses no more; one that ends with an error, or that `signal` stops, saves the rest first. The pieces are joined when the file is
   * full, so its bytes do not depend on them.
   * @default 60
   */
  readonly shardSeconds: number;
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
   * How the engine and the precision of the extractor were chosen: what `chooseEngine` of `onnx-tapir/precision` gives. The manifest
   * keeps it (`runs[].choice`), and its comparison with float32 is not made again.
   * @default undefined
   */
  readonly choice: EngineChoice | undefined;
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
   * Folders of datasets whose rows are copied, bit for bit, for photos that they have, under any name: the bytes of the file (SHA-256), the
   * model, the outputs, the transform, the engine and the precision are the same. Each photo is read and hashed to know. A dataset of other settings is
   * refused. Rows that are copied may come before others. Not for crops, tiles and clips.
   * @default []
   */
  readonly reuse: readonly string[];
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

export const EMBED_FOLDER_FIELDS: Fields<EmbedFolderOptions> = {
  ...EMBED_FIELDS,
  out: checkedBy((option, value) => resolve(checkText(option, value)), ''),
  dtype: oneOf(['float32', 'float16'], 'float32', 'element type of features on disk'),
  format: oneOf(FEATURE_FORMATS, 'npy', 'format of the feature files'),
  shardSize: integer(1, 1e7, 8192, 'inputs per file'),
  shardSeconds: number(0, 86_400, 60, 'seconds after which what was done is saved'),
  maxFailures: optional(
    checkedBy<MaxFailures>(
      checkMaxFailures,
      0,
      'stop when more inputs fail: a number, or a share such as 1%',
      (text) => (/^\d+$/.test(text) ? Number(text) : text),
    ),
  ),
  minCosine: optional(
    number(
      0,
      1,
      0,
      'with another precision than float32: stop if one of the first 16 images has a smaller cosine to its vector in float32; such as 0.998',
    ),
  ),
  choice: unchecked<EngineChoice | undefined>(undefined),
  shard: optional(
    (option, value) => checkShard(option, value as Shard),
    'embed part i (from 0) of n into OUT/parts/i-of-n, for "tapir merge"; auto: i and n from torchrun, Slurm or Open MPI; auto/n: i also from Kubernetes',
  ),
  removeMissing: boolean(
    false,
    'mark images that are no longer in the source as removed: search, dedupe, report and probe leave them out',
  ),
  reuse: texts([], 'copy the vectors of photos that another dataset has, under any name'),
  overwrite: boolean(false, 'replace a dataset that exists; only files of the dataset are removed'),
  onProgress: callback(),
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
  const options = readWithExtractor(extractor, EMBED_FOLDER_FIELDS, given, 'embedFolder');
  const { format, dtype } = options;
  const setup = { ...setUpEmbedding(extractor, options), isKept: true };
  // A resumed run begins where a shard does, and so must a window.
  const whole = setup.window ?? setup.batch;
  const shardSize = Math.ceil(options.shardSize / whole) * whole;
  const limit = readFailureLimit(options.maxFailures);
  const keys = extractor.outputs.map((output) => output.name);
  if (format !== 'npy') checkColumns(keys, format);
  const folders = folderNames(keys);
  const plan = {
    folders,
    shardSize,
    format,
    half: dtype === 'float16',
    parts: partsOf(describeParts(setup)),
    signal: setup.signal,
  };
  if (options.reuse.length > 0 && plan.parts !== undefined)
    throw invalidOption('reuse', `left out where each ${plan.parts} has a row`, options.reuse);
  return { ...options, setup, limit, plan };
}

/** Files with columns have two beside the output's. Databases tell columns apart by more than case. */
function checkColumns(keys: readonly string[], format: FeatureFormat): void {
  const taken = keys.find((key) => /^(row|path)$/i.test(key));
  if (taken === undefined) return;
  const expected = `free of the key "${taken}": files of format "${format}" have a column "${taken.toLowerCase()}" already; choose another key (NAME=KEY names it), or format "npy"`;
  throw invalidOption('returnNodes', expected, taken);
}
