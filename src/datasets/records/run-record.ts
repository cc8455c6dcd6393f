/** What a dataset records about the model and the settings of a run, as plain data. */
import type { ResolvedRequest } from '../../graph/rewrite/plan.js';

/** A preprocessing, with the fields of `TransformOptions`. Fields that may be missing have their default then. */
export interface TransformRecord {
  /** The name of the preset; null for a transform without a preset. */
  readonly preset: string | null;
  /** True if nobody stated it: no configuration lay beside the model. Left out otherwise. */
  readonly assumed?: true;
  /** The configuration that it was read from. */
  readonly source?: {
    readonly file: string | null;
    readonly kind: string;
    readonly backend: string | null;
    /** Fields of the configuration that change no pixels. */
    readonly ignored: readonly string[];
  };
  readonly resize:
    | number
    | SizeRecord
    | (SizeRecord & { readonly fit: 'inside' | 'outside' })
    | { readonly shortest: number; readonly longest: number }
    | null;
  readonly crop: number | SizeRecord | null;
  readonly interpolation: 'nearest' | 'box' | 'bilinear' | 'hamming' | 'bicubic' | 'lanczos';
  readonly mean: readonly number[] | null;
  readonly std: readonly number[] | null;
  readonly orientation: 'ignore' | 'exif';
  readonly decode: 'exact' | 'fast';
  readonly limitPixels: number;
  readonly resampler?: 'pillow' | 'torch' | 'torch-float';
  readonly cropOffset?: 'round' | 'trunc' | 'floor';
  readonly fill?: number | readonly number[];
  readonly channelOrder?: 'rgb' | 'bgr' | 'grey';
  readonly layout?: 'nchw' | 'nhwc';
  readonly scale?: number;
  readonly offset?: number;
  readonly secondStd?: readonly number[] | null;
  readonly arithmetic?: 'torchvision' | 'transformers' | 'fused';
}

export interface SizeRecord {
  readonly height: number;
  readonly width: number;
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

/** The versions of the image decoder. */
export interface DecoderRecord {
  readonly sharp: string;
  readonly libvips: string;
}

/** The model and the settings of a run, for the manifest. */
export interface RunRecord {
  readonly model: Omit<ModelIdentity, 'weights'>;
  readonly request: readonly ResolvedRequest[];
  readonly transform: TransformRecord;
  /** The library that runs the model. */
  readonly engine: string;
  /** How it is called; null for an engine that is called in one way. */
  readonly binding: string | null;
  /** The version of the engine. */
  readonly engineVersion: string;
  readonly precision: string;
  /** How the engine computes what is not in 8 bits; left out for float32. */
  readonly floatPrecision?: string;
  readonly device: string;
  readonly batch: number;
  readonly batchMode: 'as-exported' | 'dynamic' | 'per-sample' | null;
  readonly keepDims: boolean;
  readonly normalize: 'graph' | 'model' | 'cpu';
}
