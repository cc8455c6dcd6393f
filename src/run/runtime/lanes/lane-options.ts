/** Options of lanes, the threads or processes in which sessions run. */
import { checkOneOf, checkText, invalidOption, pickFields, type Options } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import {
  defaultsOf,
  integer,
  oneOf,
  optional,
  readOptions,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import {
  BINDINGS,
  CAPABILITIES,
  checkPrecision,
  ENGINES,
  isLowered,
  PRECISIONS,
  type BindingName,
  type EngineName,
  type EnginePrecision,
} from '../capabilities/capabilities.js';

/** Options of all sessions of an extractor. */
export interface LaneOptions {
  /**
   * The library that runs the graph: `onnxruntime` on every device, or `openvino` on the CPU, which is faster on many CPUs and must be
   * installed first (`tapir engines install openvino`). If a call states neither this nor `precision`, `binding` or `session`,
   * {@link createFeatureExtractor} takes engine and precision from the model's own file, `MODEL.onnx.tapir.json`. They hold on the kind of
   * device on which `tapir check --save` measured them.
   * @default 'onnxruntime'
   */
  readonly engine: EngineName;
  /**
   * How the library of engine `onnxruntime` is called: `node` through onnxruntime-node, `c` through its C API, with the same results
   * bit for bit. Through the C API, a signal ends a run, outputs are not copied, and the sessions of a CPU share their weights. It needs
   * koffi, which npm installs with this package unless optional dependencies are left out. `auto` takes `c` on the CPU for models whose
   * inputs and outputs are tensors of numbers, else `node`.
   * @default 'auto'
   */
  readonly binding: BindingName;
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
   * Longest time in milliseconds that an exiting process waits for runs in threads, from 0 to 3,600,000. Runs that can be cancelled
   * are. Child processes are killed instead.
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

export const LANE_FIELDS: Fields<LaneOptions> = {
  engine: oneOf(
    ENGINES,
    'onnxruntime',
    'what runs the model; openvino is faster on many CPUs ("tapir engines install openvino")',
  ),
  binding: oneOf(
    BINDINGS,
    'auto',
    'how onnxruntime is called, with the same results: c is its C API (outputs without copies, runs that end at once); auto: c where it works',
  ),
  precision: {
    ...unchecked(
      'float32',
      'arithmetic of the model; float16 is for GPUs, int8 for transformers on CPUs, bfloat16 needs engine openvino and a CPU that has it',
    ),
    reads: PRECISIONS,
  },
  isolation: oneOf(
    ['thread', 'process'],
    'thread',
    'where sessions run: in threads, or in processes: a crash then ends only its own session',
  ),
  exitTimeoutMs: integer(0, 3_600_000, 10_000),
  cudaLibraries: optional(
    checkText,
    'folder with the CUDA and cuDNN libraries, searched recursively (pip: site-packages/nvidia)',
  ),
  cache: oneOf(
    ['auto', 'always', 'off'],
    'auto',
    'whether models are kept prepared in the cache folder, with weights that sessions share; off: each session holds its own',
  ),
  cacheFolder: optional(checkText),
  cacheBytes: integer(0, Number.MAX_SAFE_INTEGER, 8 * 1024 ** 3),
};

export const LANE_DEFAULTS: LaneOptions = defaultsOf(LANE_FIELDS);

/** Reads lane options, also from among other ones. Throws `OPTION_INVALID`. */
export function readLaneOptions(given: Options<LaneOptions>): LaneOptions {
  const options = readOptions(LANE_FIELDS, pickFields(given, LANE_FIELDS), 'lane options');
  const { engine, binding, precision } = options;
  checkBinding(binding, engine);
  return { ...options, precision: readPrecision(precision, engine) };
}

function checkBinding(binding: BindingName, engine: EngineName): void {
  const { bindings, title } = CAPABILITIES[engine];
  if (bindings.includes(binding)) return;
  throw invalidOption('binding', `left out with engine "${engine}": ${title} is called in one way`, binding);
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
