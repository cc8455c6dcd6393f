/** The messages between a lane and its owner. Structured clone can copy all of them. */
import type { PackedError } from '../../../base/packed-error.js';
import type { StampedFile } from '../../../base/file-stamp.js';
import type { ResolvedDevice } from './device.js';
import type { Feed } from '../../../onnx/tensor/image-feed.js';
import type { EnginePrecision } from '../capabilities/capabilities.js';
import type { CacheSettings } from './prepared-cache.js';
import type { SaveTo } from './prepared-files.js';
import type { SessionOptions } from './session-options.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';

/** Decimal digits of an address in {@link LaneDescription.offsetsAt}. */
export const ADDRESS_DIGITS = 20;

/** What a lane needs to open its session. */
export interface LaneDescription {
  /** Bytes of the ONNX file. The buffer is moved to the lane. */
  readonly model: Uint8Array;
  /** Further models for the same lane, whose outputs have other names: a run goes to the model that has what it fetches. */
  readonly further?: readonly Uint8Array[] | undefined;
  /** Folder of external weights, whose paths are checked already. */
  readonly externalFolder: string | undefined;
  /** Names of nodes that a GPU provider claims but cannot run: they run on the CPU. */
  readonly hostNodes?: readonly string[] | undefined;
  /** The model's own file, if weights are read from it. It must be unchanged when the session has opened. */
  readonly weightsFile?: StampedFile | undefined;
  /**
   * Where `model` has offsets into `weightsFile`, as {@link ADDRESS_DIGITS} decimal digits each. The engine puts addresses in their
   * place.
   */
  readonly offsetsAt?: readonly number[] | undefined;
  readonly device: ResolvedDevice;
  /** Options of onnxruntime. */
  readonly session: SessionOptions;
  /** Folder of CUDA libraries to load first. */
  readonly cudaLibraries?: string | undefined;
  /** Save the optimised graph, in a lane that is used for nothing else. */
  readonly saveTo?: SaveTo | undefined;
  /** Time each node in each run, and write the times to a file when the session closes: its path begins with this. */
  readonly profileTo?: string | undefined;
  /** Whether `model` is prepared in some way. If it cannot be opened, the lane is described again. */
  readonly isPrepared?: boolean | undefined;
  /** Names of the inputs to be fed. */
  readonly inputs?: readonly string[] | undefined;
  /** Names of the outputs, in the order of the model; the engine's own names if left out. */
  readonly outputs?: readonly string[] | undefined;
  /** For an engine that has several. */
  readonly precision?: EnginePrecision | undefined;
  /** Runs at the same time, for an engine whose runs can share a model; otherwise 1. */
  readonly streams?: number | undefined;
  /** Instead of `model`: a file in a temporary folder, with its weights. The engine removes the folder. */
  readonly modelFile?: string | undefined;
  /** Instead of `model`: the model as the engine has compiled it before. `isPrepared` is set. */
  readonly compiledFile?: string | undefined;
  /** Where to keep the compiled model for later sessions. */
  readonly keepCompiled?: { readonly cache: CacheSettings; readonly key: string } | undefined;
}

/** An input or output of a session, as the engine reports it. */
export interface SessionValue {
  readonly name: string;
  readonly isTensor: boolean;
  readonly dtype: string | null;
  /** `[]` for a scalar, and also for an unknown rank. */
  readonly dims: readonly (number | string)[];
}

/** Facts about an open session. */
export interface SessionFacts {
  readonly inputs: readonly SessionValue[];
  readonly outputs: readonly SessionValue[];
  /** The device in use, never `auto`. */
  readonly device: ResolvedDevice;
  /** Why `auto` fell back to the CPU. */
  readonly fallback?: string;
  /** How the engine's library is called, for an engine with several ways; and why not in the one that it prefers, if so. */
  readonly binding?: { readonly name: string; readonly why?: string };
  /** Version of the engine. */
  readonly runtime: string;
  /** Providers that the engine was compiled with, usable or not. */
  readonly providers?: readonly string[];
  /** Runs that the session computes at the same time, off its thread; left out if it computes one, on its thread. */
  readonly streams?: number;
}

/** Owner → lane. */
export type LaneRequest =
  | { readonly type: 'open'; readonly description: LaneDescription }
  | {
      readonly type: 'run';
      readonly id: number;
      readonly feeds: readonly Feed[];
      readonly fetches: readonly string[];
      /** Buffers that outputs of their sizes are written to; the others are dropped. */
      readonly room: readonly ArrayBuffer[];
    }
  /** Ends a run early, or all, if the engine can. Its reply comes in any case. */
  | { readonly type: 'cancel'; readonly id?: number }
  | { readonly type: 'close' };

/** Lane → owner. */
export type LaneReply =
  | { readonly type: 'opened'; readonly facts: SessionFacts }
  | {
      readonly type: 'done';
      readonly id: number;
      readonly outputs: readonly NamedTensor[];
      /** Buffers of the feeds, returned for reuse. */
      readonly spent: readonly ArrayBuffer[];
      /** Time in the engine. */
      readonly runMs: number;
      /** Time for making feeds from shared images. */
      readonly feedMs: number;
    }
  /** `id` is absent if opening failed. */
  | { readonly type: 'failed'; readonly id?: number; readonly error: PackedError };

/** Environment variables that tell the process of a lane which engine to load, and how. */
export const ENGINE_VARIABLE = 'TAPIR_LANE_ENGINE';
export const BINDING_VARIABLE = 'TAPIR_LANE_BINDING';

/** Words of the shared state of a thread: whether it is in native code, and whether it must not enter it any more. */
export const STATE_BUSY = 0;
export const STATE_STOP = 1;
export const STATE_WORDS = 2;
