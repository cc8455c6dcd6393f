/** What reading a configuration gives. */
import type { Options } from '../../base/checks.js';
import type { TransformOptions } from '../transform/transform-options.js';
import type { TransformSource } from '../transform/transform.js';

/** The options that a configuration sets; the others have the defaults of `createTransform`. */
export type ConfigOptions = Options<TransformOptions>;

/** A configuration as options, and where they came from. */
export interface ResolvedConfig extends Omit<TransformSource, 'file'> {
  readonly options: ConfigOptions;
}

/** The arithmetic of transformers: with Pillow, or with torchvision's tensors. */
export type Backend = NonNullable<TransformSource['backend']>;
