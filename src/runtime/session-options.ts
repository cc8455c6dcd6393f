/** The session options of onnxruntime that onnxruntime-node really honours (it ignores unknown ones silently). */
import {
  checkBoolean,
  checkInteger,
  checkOneOf,
  invalidOption,
  withDefaults,
  type Given,
} from '../checks.js';

/** Session options; names and meaning are onnxruntime's. */
export interface SessionOptions {
  /**
   * How far onnxruntime rewrites the graph while loading. `disabled` gives the values of the file bit for bit.
   * @default 'all'
   */
  readonly graphOptimizationLevel: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  /**
   * Whether independent nodes run in parallel.
   * @default 'sequential'
   */
  readonly executionMode: 'sequential' | 'parallel';
  /**
   * Threads for nodes in parallel, with `executionMode: 'parallel'`; 0 lets onnxruntime choose.
   * @default 0
   */
  readonly interOpNumThreads: number;
  /**
   * Keep freed CPU memory for the next run.
   * @default true
   */
  readonly enableCpuMemArena: boolean;
  /**
   * Plan memory for repeated input shapes.
   * @default true
   */
  readonly enableMemPattern: boolean;
  /**
   * Least severity that onnxruntime logs on stderr: 0 verbose to 4 fatal.
   * @default 3
   */
  readonly logSeverityLevel: 0 | 1 | 2 | 3 | 4;
  /**
   * Further configuration entries of onnxruntime, such as `{ session: { intra_op: { allow_spinning: '0' } } }`; all values
   * are strings.
   * @default {}
   */
  readonly extra: Readonly<Record<string, unknown>>;
}

export const SESSION_DEFAULTS: SessionOptions = {
  graphOptimizationLevel: 'all',
  executionMode: 'sequential',
  interOpNumThreads: 0,
  enableCpuMemArena: true,
  enableMemPattern: true,
  logSeverityLevel: 3,
  extra: {},
};

/** Reads session options into a copy of their own. Throws `OPTION_INVALID`. */
export function readSessionOptions(given: Given<SessionOptions>): SessionOptions {
  const options = withDefaults(SESSION_DEFAULTS, given, 'session');
  const levels = ['disabled', 'basic', 'extended', 'layout', 'all'] as const;
  checkOneOf('session.graphOptimizationLevel', options.graphOptimizationLevel, levels);
  checkOneOf('session.executionMode', options.executionMode, ['sequential', 'parallel']);
  checkInteger('session.interOpNumThreads', options.interOpNumThreads, 0, 1024);
  checkBoolean('session.enableCpuMemArena', options.enableCpuMemArena);
  checkBoolean('session.enableMemPattern', options.enableMemPattern);
  checkInteger('session.logSeverityLevel', options.logSeverityLevel, 0, 4);
  return { ...options, extra: copyEntries('session.extra', options.extra) };
}

/** onnxruntime-node throws a bare TypeError for anything but strings here. */
function copyEntries(option: string, entries: unknown): Record<string, unknown> {
  if (entries === null || typeof entries !== 'object' || Array.isArray(entries)) {
    throw invalidOption(option, 'an object of strings, nested or not', entries);
  }
  return Object.fromEntries(
    Object.entries(entries).map(([key, value]: [string, unknown]) => [
      key,
      typeof value === 'string' ? value : copyEntries(`${option}.${key}`, value),
    ]),
  );
}
