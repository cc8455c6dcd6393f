/** Options of lanes, the threads or processes in which sessions run. */
import { checkInteger, checkOneOf, checkText, withDefaults, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';

/** The libraries that run graphs. */
export const ENGINES = ['onnxruntime', 'openvino'] as const;
/** A library that runs graphs. */
export type EngineName = (typeof ENGINES)[number];

/** How an engine computes float32 operators. */
export const ENGINE_PRECISIONS = ['float32', 'bfloat16'] as const;
/** How an engine computes float32 operators. */
export type EnginePrecision = (typeof ENGINE_PRECISIONS)[number];

/** The arithmetic of sessions: what an engine does, and what a rewrite of the model gives. Inputs and outputs keep their types. */
export const PRECISIONS = ['float32', 'bfloat16', 'float16', 'int8'] as const;
/** How sessions compute. */
export type Precision = (typeof PRECISIONS)[number];
/** The precisions that a rewrite of the model gives. */
export type LoweredPrecision = Exclude<Precision, EnginePrecision>;

/** Options of all sessions of an extractor. */
export interface LaneOptions {
  /**
   * The library that runs the graph: `onnxruntime` on every device, or `openvino` on the CPU, which is faster on many CPUs and must
   * be installed first (`tapir engines install openvino`).
   * @default 'onnxruntime'
   */
  readonly engine: EngineName;
  /**
   * How the engine computes float32 operators. `bfloat16` needs engine `openvino` and a CPU with bfloat16 instructions (AMX or
   * AVX512-BF16). Models run several times as fast there, and features keep two to three decimal digits. For `float16` and `int8`,
   * pass the model that {@link lowerPrecision} gives, and leave this out.
   * @default 'float32'
   */
  readonly precision: EnginePrecision;
  /**
   * Where each session runs: in a worker thread of this process, or in a child process. A process costs more per batch, which is
   * copied through a pipe, but a native crash or a stuck run affects only that session.
   * @default 'thread'
   */
  readonly isolation: 'thread' | 'process';
  /**
   * Longest time in milliseconds that an exiting process waits for runs in threads, from 0 to 3,600,000. onnxruntime-node cannot
   * cancel runs. Child processes are killed instead.
   * @default 10000
   */
  readonly exitTimeoutMs: number;
  /**
   * Folder with the CUDA and cuDNN libraries, for example pip's `site-packages/nvidia`. It is searched with its subfolders, and the
   * libraries are loaded without `LD_LIBRARY_PATH`.
   * @default undefined
   */
  readonly cudaLibraries: string | undefined;
  /**
   * Whether the model is prepared in a cache folder: optimised, and with weights that all sessions share, also those of other
   * processes. Each further session then needs a fraction of the memory and opens at once. `auto` prepares a model of 8 MiB or more
   * if several CPU sessions of it open together. `always` also prepares for a single session, for small models and for GPUs, but
   * never for device `'auto'`. Results are the same bit for bit. If a model cannot be prepared, sessions open as with `off`, with one
   * warning. With engine `openvino`, the folder keeps compiled models, with `auto` those of 8 MiB or more.
   * @default 'auto'
   */
  readonly cache: 'auto' | 'always' | 'off';
  /**
   * Folder of prepared models. It is created if it does not exist. You can delete its content at any time.
   * @default `onnx-tapir` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`)
   */
  readonly cacheFolder: string | undefined;
  /**
   * Limit of the folder in bytes, from 0. When a model is added, the least recently used others are removed.
   * @default 8589934592
   */
  readonly cacheBytes: number;
}

export const LANE_DEFAULTS: LaneOptions = {
  engine: 'onnxruntime',
  precision: 'float32',
  isolation: 'thread',
  exitTimeoutMs: 10_000,
  cudaLibraries: undefined,
  cache: 'auto',
  cacheFolder: undefined,
  cacheBytes: 8 * 1024 ** 3,
};

/** Checks lane options and copies them. Throws `OPTION_INVALID`. */
export function readLaneOptions(given: Options<LaneOptions>): LaneOptions {
  const options = withDefaults(LANE_DEFAULTS, given, 'lane options');
  const { isolation, exitTimeoutMs, cudaLibraries, cache, cacheFolder, cacheBytes } = options;
  const engine = checkOneOf('engine', options.engine, ENGINES);
  return {
    engine,
    precision: readPrecision(options.precision, engine),
    isolation: checkOneOf('isolation', isolation, ['thread', 'process']),
    exitTimeoutMs: checkInteger('exitTimeoutMs', exitTimeoutMs, 0, 3_600_000),
    cudaLibraries: cudaLibraries === undefined ? undefined : checkText('cudaLibraries', cudaLibraries),
    cache: checkOneOf('cache', cache, ['auto', 'always', 'off']),
    cacheFolder: cacheFolder === undefined ? undefined : checkText('cacheFolder', cacheFolder),
    cacheBytes: checkInteger('cacheBytes', cacheBytes, 0, Number.MAX_SAFE_INTEGER),
  };
}

/** Whether a precision is that of a rewritten model. Engines compute such a model in float32 otherwise. */
export function isLowered(precision: Precision): precision is LoweredPrecision {
  return precision === 'float16' || precision === 'int8';
}

/** What is asked of the engine: it computes the rest of a lowered model in float32. */
export function enginePrecision(precision: Precision): EnginePrecision {
  return isLowered(precision) ? 'float32' : precision;
}

function readPrecision(given: unknown, engine: EngineName): EnginePrecision {
  const precision = checkOneOf('precision', given, PRECISIONS);
  checkPrecision(precision, engine);
  if (!isLowered(precision)) return precision;
  const reason = 'it is a rewrite of the model, not how an engine computes';
  throw new TapirError(
    'PRECISION_UNSUPPORTED',
    `precision "${precision}" is not an option of sessions: ${reason}; give what pruneModel gives to lowerPrecision of "onnx-tapir/precision", pass the model that comes back, and leave "precision" out`,
    { details: { precision, engine, reason } },
  );
}

/**
 * Checks that an engine computes in a precision. onnxruntime's kernels for bfloat16 on the CPU are few. OpenVINO's plugin for CPUs
 * computes lowered models in float32.
 *
 * @throws {@link TapirError} `PRECISION_UNSUPPORTED`.
 */
export function checkPrecision(precision: Precision, engine: EngineName): void {
  if (precision === 'float32' || (precision === 'bfloat16') === (engine === 'openvino')) return;
  if (precision !== 'bfloat16') {
    const reason = 'OpenVINO computes in float32 or bfloat16 on the CPU';
    throw new TapirError(
      'PRECISION_UNSUPPORTED',
      `precision "${precision}" is not possible with engine "${engine}": ${reason}; choose engine "onnxruntime" (--engine onnxruntime), or precision "bfloat16"`,
      { details: { precision, engine, reason } },
    );
  }
  const reason = 'ONNX Runtime computes in float32 on the CPU';
  throw new TapirError(
    'PRECISION_UNSUPPORTED',
    `precision "${precision}" is not possible with engine "${engine}": ${reason}; choose engine "openvino" (--engine openvino), or precision "float32"`,
    { details: { precision, engine, reason } },
  );
}
