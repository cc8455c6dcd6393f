/** What a dataset records about the model and the transform of a run, as plain data. */
import type { TransformOptions } from '../../photos/images/transform/transform-options.js';
import type { TransformSource } from '../../photos/images/transform/transform.js';

/** Options that every record of a transform has. */
type Recorded =
  'resize' | 'crop' | 'interpolation' | 'mean' | 'std' | 'orientation' | 'decode' | 'limitPixels';

/** A preprocessing, with the fields of `TransformOptions`. Fields that may be missing have their default then. */
export interface TransformRecord
  extends Pick<TransformOptions, Recorded>, Partial<Omit<TransformOptions, Recorded>> {
  /** The name of the preset; null for a transform without a preset. */
  readonly preset: string | null;
  /** True if nobody stated it: no configuration lay beside the model. Left out otherwise. */
  readonly assumed?: true;
  /** The configuration that it was read from. */
  readonly source?: TransformSource;
}

/** A file with external weights. */
export interface WeightsRecord {
  /** As the model states it, relative to the model's folder. */
  readonly path: string;
  readonly bytes: number;
  /** SHA-256 of the file. */
  readonly sha256: string;
}

/** The same, with the file's stamp at that time. A file that still has this stamp need not be hashed again. */
export interface RunWeights extends WeightsRecord {
  readonly stamp: string;
}

/** The model of a dataset. */
export interface ModelIdentity {
  /** The file name without its folder, or "model bytes". */
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file, without its external weights. */
  readonly sha256: string;
  /** The files with external weights that the outputs need. */
  readonly externalFiles: readonly string[];
  /** Their content. Missing if there are no such files, or if no run recorded it. */
  readonly weights?: readonly WeightsRecord[];
}
