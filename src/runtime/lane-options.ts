/** How a lane is held: in a thread or a process, and how long an exit waits for it. */
import { checkInteger, checkOneOf, checkText, type Given } from '../checks.js';

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
}

export const LANE_DEFAULTS: LaneOptions = {
  isolation: 'thread',
  exitTimeoutMs: 10_000,
  cudaLibraries: undefined,
};

/** Reads lane options into a copy of their own. Throws `OPTION_INVALID`. */
export function readLaneOptions(given: Given<LaneOptions>): LaneOptions {
  const { isolation, exitTimeoutMs, cudaLibraries } = { ...LANE_DEFAULTS, ...given };
  return {
    isolation: checkOneOf('isolation', isolation, ['thread', 'process']),
    exitTimeoutMs: checkInteger('exitTimeoutMs', exitTimeoutMs, 0, 3_600_000),
    cudaLibraries: cudaLibraries === undefined ? undefined : checkText('cudaLibraries', cudaLibraries),
  };
}
