/** Every message between a lane and its owner, and nothing else. All survive structured clone. */
import type { PackedError } from '../base/errors.js';
import type { StampedFile } from '../base/file-stamp.js';
import type { ResolvedDevice } from './device.js';
import type { Feed } from '../tensor/image-feed.js';
import type { SaveTo } from './prepared-files.js';
import type { SessionOptions } from './session-options.js';
import type { NamedTensor } from '../tensor/tensor.js';

/** What a lane needs to open its session; immutable, shared with nobody. */
export interface LaneDescription {
  /** Bytes of the ONNX file; moved to the lane. */
  readonly model: Uint8Array;
  /** Folder of external weights, checked before. */
  readonly externalFolder: string | undefined;
  /** The model's own file, where weights are read from it: once the session is open, it must still be as it was. */
  readonly weightsFile?: StampedFile | undefined;
  readonly device: ResolvedDevice;
  readonly session: SessionOptions;
  /** Folder of CUDA libraries to load beforehand. */
  readonly cudaLibraries?: string | undefined;
  /** Save what onnxruntime makes of the model; for a lane that does nothing else. */
  readonly saveTo?: SaveTo | undefined;
  /** Whether `model` was prepared: if it does not open, the lane is described again. */
  readonly isPrepared?: boolean | undefined;
}

/** A session's input or output, as onnxruntime reports it. */
export interface SessionValue {
  readonly name: string;
  readonly isTensor: boolean;
  readonly dtype: string | null;
  /** `[]` for a scalar and for an unknown rank alike. */
  readonly dims: readonly (number | string)[];
}

/** What an opened session is. */
export interface SessionFacts {
  readonly inputs: readonly SessionValue[];
  readonly outputs: readonly SessionValue[];
  /** The device in use: `auto` is resolved. */
  readonly device: ResolvedDevice;
  /** Why `auto` fell back to the CPU. */
  readonly fallback?: string;
  /** Version of onnxruntime. */
  readonly runtime: string;
  /** Providers compiled in, usable or not. */
  readonly providers?: readonly string[];
}

/** Owner → lane. */
export type LaneRequest =
  | { readonly type: 'open'; readonly description: LaneDescription }
  | {
      readonly type: 'run';
      readonly id: number;
      readonly feeds: readonly Feed[];
      readonly fetches: readonly string[];
    }
  | { readonly type: 'close' };

/** Lane → owner. */
export type LaneReply =
  | { readonly type: 'opened'; readonly facts: SessionFacts }
  | {
      readonly type: 'done';
      readonly id: number;
      readonly outputs: readonly NamedTensor[];
      /** Buffers of the feeds, given back to be used again. */
      readonly spent: readonly ArrayBuffer[];
      /** Time inside onnxruntime. */
      readonly runMs: number;
      /** Time for making feeds of shared images. */
      readonly feedMs: number;
    }
  /** `id` is absent if opening failed. */
  | { readonly type: 'failed'; readonly id?: number; readonly error: PackedError };

/** Words of the shared state of a thread lane: whether it is inside onnxruntime, and whether it may enter. */
export const STATE_BUSY = 0;
export const STATE_STOP = 1;
export const STATE_WORDS = 2;
