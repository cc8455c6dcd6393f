/** What a comparison of two models has found. */
import type { TransformRecord } from '../../../datasets/records/run-record.js';
import type { ImageError } from '../../../photos/images/file/image-errors.js';
import type { Agreement } from './compare-outputs.js';
import type { PixelAgreement, TransformDifference } from './compare-pixels.js';

/** One of the two models. */
export interface ComparedModel {
  /** File name without its folder, or "model bytes". */
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file, without external weights. */
  readonly sha256: string;
  readonly device: string;
  /** The library that runs it, and its arithmetic: `int8` for a file in 8 bits. */
  readonly engine: string;
  readonly precision: string;
  readonly transform: TransformRecord;
}

/** The vectors of an output. */
export interface ComparedOutput extends Agreement {
  readonly key: string;
  /**
   * The same, with A's pixels fed to both models; null if the transforms are the same, and if A's transform does not fit B.
   */
  readonly onPixelsOfA: Agreement | null;
}

/** An image that a model could not embed. */
export interface ComparedFailure {
  readonly path: string | null;
  readonly error: ImageError;
}

/** What `compareModels` has found. */
export interface ModelComparison {
  readonly a: ComparedModel;
  readonly b: ComparedModel;
  /** Images in the source. */
  readonly seen: number;
  /** Images of the sample, including those that failed. */
  readonly sampled: number;
  /** Images that at least one of the models could not embed. */
  readonly failures: readonly ComparedFailure[];
  /** The options of the transforms that differ; empty if both models got the same pixels. */
  readonly transforms: readonly TransformDifference[];
  /** How far the pixels are apart if the transforms differ; null if they are the same or their sizes differ. */
  readonly pixels: PixelAgreement | null;
  readonly outputs: readonly ComparedOutput[];
}
