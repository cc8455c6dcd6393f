/** How a lane is held: in a thread or a process, and how long an exit waits for it. */
import { checkInteger, checkOneOf, checkText, withDefaults, type Options } from '../base/checks.js';

/** Options of every lane of an extractor. */
export interface LaneOptions {
  /**
   * Where each session lives: a worker thread of this process, or a child process. A process costs more per batch (it is copied
   * through a pipe), and a native crash or a stuck run costs that lane only.
   * @default 'thread'
   */
  readonly isolation: 'thread' | 'process';
  /**
   * Longest time in milliseconds that an exiting process waits for runs in threads, which onnxruntime-node cannot cancel, from 0
   * to 3,600,000. Processes are killed instead.
   * @default 10000
   */
  readonly exitTimeoutMs: number;
  /**
   * Folder with the CUDA and cuDNN libraries (searched recursively, such as pip's `site-packages/nvidia`), to be loaded without
   * `LD_LIBRARY_PATH`.
   * @default undefined
   */
  readonly cudaLibraries: string | undefined;
  /**
   * Whether the model is prepared in a cache folder, optimised and with weights that all sessions share, other processes' as well:
   * a further session then costs a fraction of the memory and opens at once. `auto` does so where several CPU sessions of a model
   * of 8 MiB or more are opened together, `always` also for one session, a small model and GPUs (never for device `'auto'`). Results
   * are the same bit for bit. Where it is not possible, sessions are opened as with `off`, with one warning.
   * @default 'auto'
   */
  readonly cache: 'auto' | 'always' | 'off';
  /**
   * Folder of prepared models; made if it is not there. Its content can be deleted at any time.
   * @default `onnx-tapir` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`)
   */
  readonly cacheFolder: string | undefined;
  /**
   * Most bytes that the folder is to hold, from 0: when a model is added, the least recently used others go.
   * @default 8589934592
   */
  readonly cacheBytes: number;
}

export const LANE_DEFAULTS: LaneOptions = {
  isolation: 'thread',
  exitTimeoutMs: 10_000,
  cudaLibraries: undefined,
  cache: 'auto',
  cacheFolder: undefined,
  cacheBytes: 8 * 1024 ** 3,
};

/** Reads lane options into a copy of their own. Throws `OPTION_INVALID`. */
export function readLaneOptions(given: Options<LaneOptions>): LaneOptions {
  const options = withDefaults(LANE_DEFAULTS, given, 'lane options');
  const { isolation, exitTimeoutMs, cudaLibraries, cache, cacheFolder, cacheBytes } = options;
  return {
    isolation: checkOneOf('isolation', isolation, ['thread', 'process']),
    exitTimeoutMs: checkInteger('exitTimeoutMs', exitTimeoutMs, 0, 3_600_000),
    cudaLibraries: cudaLibraries === undefined ? undefined : checkText('cudaLibraries', cudaLibraries),
    cache: checkOneOf('cache', cache, ['auto', 'always', 'off']),
    cacheFolder: cacheFolder === undefined ? undefined : checkText('cacheFolder', cacheFolder),
    cacheBytes: checkInteger('cacheBytes', cacheBytes, 0, Number.MAX_SAFE_INTEGER),
  };
}
