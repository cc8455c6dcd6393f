/** Options of lanes, the threads or processes in which sessions run. */
import { checkInteger, checkOneOf, checkText, withDefaults, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import {
  checkPrecision,
  ENGINES,
  isLowered,
  PRECISIONS,
  type EngineName,
  type EnginePrecision,
} from '../capabilities/capabilities.js';

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
