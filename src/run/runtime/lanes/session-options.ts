/** The session options of onnxruntime that have an effect in onnxruntime-node, which silently ignores all others. */
import { invalidOption, type Options } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import {
  boolean,
  checkedBy,
  defaultsOf,
  integer,
  oneOf,
  readOptions,
  type Field,
  type Fields,
} from '../../../base/options.js';

/** Options of sessions on CUDA, with the meanings of onnxruntime's provider options. */
export interface CudaOptions {
  /**
   * Whether products and convolutions of float32 may be computed in TF32, with 10 bits of mantissa, on GPUs that have it.
   * @default true
   */
  readonly useTf32: boolean;
  /**
   * Convolutions with their channels last.
   * @default false
   */
  readonly preferNhwc: boolean;
  /**
   * How cuDNN chooses an algorithm for each size of a batch: by running all, by a rule, or always the same one.
   * @default 'EXHAUSTIVE'
   */
  readonly cudnnConvAlgoSearch: 'EXHAUSTIVE' | 'HEURISTIC' | 'DEFAULT';
  /**
   * Most bytes that the session keeps on the GPU for weights and values, from 0; 0 for no limit. cuDNN's own memory comes on top.
   * @default 0
   */
  readonly gpuMemLimit: number;
  /**
   * How that memory grows: by powers of two, or by what is asked for.
   * @default 'kNextPowerOfTwo'
   */
  readonly arenaExtendStrategy: 'kNextPowerOfTwo' | 'kSameAsRequested';
}

const CUDA_FIELDS: Fields<CudaOptions> = {
  useTf32: boolean(true),
  preferNhwc: boolean(false),
  cudnnConvAlgoSearch: oneOf(['EXHAUSTIVE', 'HEURISTIC', 'DEFAULT'], 'EXHAUSTIVE'),
  gpuMemLimit: integer(0, Number.MAX_SAFE_INTEGER, 0),
  arenaExtendStrategy: oneOf(['kNextPowerOfTwo', 'kSameAsRequested'], 'kNextPowerOfTwo'),
};

const CUDA_DEFAULTS = defaultsOf(CUDA_FIELDS);

/** The options that are not at their default, by onnxruntime's names and as its texts. */
export function cudaTexts({ cuda }: Pick<SessionOptions, 'cuda'>): Readonly<Record<string, string>> {
  const names = Object.keys(CUDA_FIELDS) as (keyof CudaOptions)[];
  const changed = names.filter((name) => cuda[name] !== undefined && cuda[name] !== CUDA_DEFAULTS[name]);
  return Object.fromEntries(
    changed.map((name) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      String(typeof cuda[name] === 'boolean' ? Number(cuda[name]) : cuda[name]),
    ]),
  );
}

/** Session options, with the names and meanings of onnxruntime. */
export interface SessionOptions {
  /**
   * How much onnxruntime rewrites the graph when it loads it. With `disabled`, it runs the graph exactly as the file states it.
   * @default 'all'
   */
  readonly graphOptimizationLevel: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  /**
   * Whether independent nodes run in parallel.
   * @default 'sequential'
   */
  readonly executionMode: 'sequential' | 'parallel';
  /**
   * Threads that run nodes in parallel, with `executionMode: 'parallel'`. With 0, onnxruntime chooses their number.
   * @default 0
   */
  readonly interOpNumThreads: number;
  /**
   * Keep freed CPU memory for the next run.
   * @default true
   */
  readonly enableCpuMemArena: boolean;
  /**
   * Plan memory once for input shapes that repeat.
   * @default true
   */
  readonly enableMemPattern: boolean;
  /**
   * Lowest severity that onnxruntime logs on standard error: 0 (verbose), 1 (info), 2 (warning), 3 (error) or 4 (fatal). Errors also
   * reach you as `TapirError`, so the default does not log them a second time.
   * @default 4
   */
  readonly logSeverityLevel: 0 | 1 | 2 | 3 | 4;
  /**
   * Further configuration entries of onnxruntime, for example `{ session: { intra_op: { allow_spinning: '0' } } }`. All values are
   * strings.
   * @default {}
   */
  readonly extra: Readonly<Record<string, unknown>>;
  /**
   * For sessions on CUDA; others do without. They need binding `c`, which `auto` takes for them.
   * @default {}
   */
  readonly cuda: Options<CudaOptions>;
}

export const SESSION_FIELDS: Fields<SessionOptions> = {
  graphOptimizationLevel: oneOf(['disabled', 'basic', 'extended', 'layout', 'all'], 'all'),
  executionMode: oneOf(['sequential', 'parallel'], 'sequential'),
  interOpNumThreads: integer(0, 1024, 0),
  enableCpuMemArena: boolean(true),
  enableMemPattern: boolean(true),
  logSeverityLevel: integer(0, 4, 4) as Field<SessionOptions['logSeverityLevel']>,
  extra: checkedBy(copyEntries, {}),
  cuda: checkedBy((option, given) => {
    const options = given as Options<CudaOptions>;
    readOptions(CUDA_FIELDS, options, option, `${option}.`);
    return { ...options };
  }, {}),
};

export const SESSION_DEFAULTS: SessionOptions = defaultsOf(SESSION_FIELDS);

/** Which options the CUDA provider takes. */
export const CUDA_TAKES: string = `options of CUDA are ${Object.keys(CUDA_FIELDS)
  .map((name) => `session.cuda.${name}`)
  .join(', ')}`;
/** Replayed runs read and write the places of the first run. */
const NO_GRAPHS =
  'CUDA graphs need inputs and outputs that stay in one place on the GPU, which no binding has';

/** Options of onnxruntime that {@link SessionOptions} lacks: why, and what to do instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  freeDimensionOverrides:
    'onnxruntime-node ignores it, although its documentation lists it; export the model with fixed dims, or run batches of one size',
  logVerbosityLevel: 'onnxruntime-node ignores it; use logSeverityLevel: 0 for everything',
  enableGraphCapture: NO_GRAPHS,
  enable_cuda_graph: NO_GRAPHS,
  executionProviders: 'choose with the option device or devices; a device that does not work is an error',
  preferredOutputLocation: 'outputs are always copied to ordinary memory',
  intraOpNumThreads: 'set the threads in the device: { type: "cpu", threads: 4 }',
  externalData: 'tapir finds external weights beside the model file',
  optimizedModelFilePath: 'tapir does not write this file; save the pruned model instead',
  enableProfiling: 'profileModel with the option time measures nodes',
  profileFilePrefix: 'profileModel with the option time measures nodes',
  logId: 'tapir does not name sessions in the log',
  ...Object.fromEntries(
    [
      'gpu_mem_limit',
      'arena_extend_strategy',
      'cudnn_conv_algo_search',
      'cudnn_conv_use_max_workspace',
      'do_copy_in_default_stream',
      'use_tf32',
      'prefer_nhwc',
      'tunable_op_enable',
      'user_compute_stream',
    ].map((name) => [name, CUDA_TAKES]),
  ),
};

/** Refuses options of onnxruntime that would have no effect. Throws `OPTION_INVALID`. */
function refuseIgnored(given: object): void {
  const key = Object.keys(given).find((name) => Object.hasOwn(ELSEWHERE, name));
  if (key === undefined) return;
  const why = ELSEWHERE[key]!;
  throw new TapirError('OPTION_INVALID', `session has no option "${key}": ${why}`, {
    details: {
      option: `session.${key}`,
      expected: `one of ${Object.keys(SESSION_FIELDS).join(', ')}`,
      actual: key,
    },
  });
}

/** Checks session options and copies them. Throws `OPTION_INVALID`. */
export function readSessionOptions(given: Options<SessionOptions>): SessionOptions {
  if (given !== null && typeof given === 'object') refuseIgnored(given);
  return readOptions(SESSION_FIELDS, given, 'session', 'session.');
}

/** Checks and copies configuration entries. onnxruntime-node throws a TypeError if a value is not a string. */
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
