/** The facts of each error, by code. Codes and details are part of the API; the wording of messages is not. */
export interface ErrorDetails {
  /** An option, an argument or a flag has a value that is not allowed. */
  OPTION_INVALID: { readonly option: string; readonly expected: string; readonly actual: string };
  /** The model file cannot be opened or read. */
  MODEL_UNREADABLE: { readonly source: string; readonly reason: string };
  /** The bytes are not an ONNX model, or the model is damaged. `looksLike` names another format that they could be. */
  MODEL_MALFORMED: { readonly source: string; readonly byteOffset: number; readonly looksLike?: string };
  /** The model file or the file of weights changed on disk after it was opened. */
  MODEL_CHANGED: { readonly source: string };
  /** The graph breaks a rule of ONNX, and the requested part depends on that rule. */
  GRAPH_INVALID: { readonly reason: string; readonly where: readonly string[] };
  /** The file of names beside a model (`MODEL.onnx.names.json`) is damaged or belongs to another model. */
  NAMES_INVALID: { readonly path: string; readonly reason: string };
  /** A model's own file (`MODEL.onnx.tapir.json`) is damaged. `key` names the value that is wrong; null for the file as a whole. */
  SETTINGS_INVALID: { readonly path: string; readonly key: string | null; readonly reason: string };
  /** A file of weights (a state dict) is missing, damaged, or of another format. `key` names the tensor that the reason is about. */
  STATE_INVALID: { readonly path: string; readonly reason: string; readonly key?: string };
  /**
   * A state dict does not fit the model: its keys, or the dims or dtype of a tensor, or the exporter computed something else of a
   * parameter (`derived`).
   */
  STATE_MISMATCH: {
    readonly missing: readonly string[];
    readonly unexpected: readonly string[];
    readonly misshapen: readonly {
      readonly key: string;
      readonly expected: string;
      readonly actual: string;
    }[];
    readonly derived?: readonly string[];
    readonly unexplained?: readonly string[];
  };
  /** The file does not say which tensors of a state dict belong to a layer. `candidates` are the possible ones. */
  STATE_AMBIGUOUS: { readonly key: string; readonly candidates: readonly string[] };
  /** The values of a parameter are not in the file: the exporter folded it into a layer. */
  PARAMETER_FOLDED: { readonly parameter: string; readonly layer: string };
  /** BatchNorm statistics cannot be estimated: the exporter folded the norms (`layers`) into other layers, or the model has no norms. */
  NORMS_UNAVAILABLE: { readonly reason: string; readonly layers: readonly string[] };
  /** Saved moments are damaged, belong to another model, or cannot be merged. */
  MOMENTS_INVALID: { readonly reason: string };
  /** The folder holds no checkpoint of training, or one that is damaged or of another version. */
  CHECKPOINT_INVALID: { readonly path: string; readonly reason: string };
  /** The model has no tensor, node or module of these names; or no known model has this name. */
  NAME_NOT_FOUND: {
    readonly names: readonly { readonly request: string; readonly nearest: readonly string[] }[];
  };
  /** A name can mean several values. Each reading shows the prefixed name that chooses it. */
  NAME_AMBIGUOUS: {
    readonly request: string;
    readonly readings: readonly { readonly request: string; readonly tensor: string }[];
  };
  /** The source network had this module, but the exporter folded its value into another node. */
  NAME_FOLDED: { readonly request: string; readonly instead?: string };
  /** The name exists only inside the body of a control-flow node or of a function. */
  NAME_INSIDE_BODY: {
    readonly request: string;
    readonly where: string;
    /** Tensors outside the body that depend on it. */
    readonly outside: readonly string[];
  };
  /** The model cannot be split into such stages: too few places to cut, none that keeps to the memory, or cuts in the wrong order. */
  SPLIT_IMPOSSIBLE: { readonly reason: string };
  /** No gradient can be taken through an operator. `cut` is the nearest tensor after it, with respect to which there is a gradient. */
  GRADIENT_UNSUPPORTED: {
    readonly operator: string;
    readonly node: string;
    readonly reason: string;
    readonly cut: string | null;
  };
  /** A step of training gave a loss, or gradients, that are infinite or no numbers. */
  LOSS_NOT_FINITE: { readonly step: number; readonly value: string };
  /** The output is not a tensor but a sequence, a map or an optional value. */
  OUTPUT_NOT_TENSOR: { readonly output: string; readonly type: string };
  /** The output's shape or dtype does not suit pooling or another added step. */
  OUTPUT_MISFIT: { readonly output: string; readonly actual: string; readonly reason: string };
  /** It is not proven which tokens of the output are the class token, the registers or the patches. */
  FEATURE_AMBIGUOUS: { readonly output: string; readonly part: string; readonly reason: string };
  /** The chosen inputs are not enough to compute the outputs. */
  INPUTS_MISSING: { readonly missing: readonly string[] };
  /** The kept graph already has another value of the name that an output should get. */
  OUTPUT_NAME_TAKEN: { readonly key: string };
  /** The path of external weights leaves the model's folder, or no such file exists. */
  EXTERNAL_DATA_UNSAFE: { readonly location: string; readonly tensor: string; readonly reason: string };
  /** The model would be saved outside the folder that holds its external weights. */
  EXTERNAL_DATA_ELSEWHERE: {
    readonly path: string;
    readonly folder: string;
    readonly files: readonly string[];
  };
  /** The model file would be larger than protobuf allows. */
  MODEL_TOO_LARGE: { readonly path: string; readonly bytes: number; readonly limitBytes: number };
  /** An input tensor is missing, or its dtype or shape does not fit the model. */
  INPUT_MISMATCH: { readonly input: string; readonly expected: string; readonly actual: string };
  /** One tensor is asked for, and the transform gives several. */
  TENSOR_SEVERAL: { readonly tensors: readonly string[] };
  /** The sides of the image input look open, but the table of positions was frozen for one size of photos. */
  SIZE_FIXED: { readonly height: number; readonly width: number };
  /** The graph has a fixed batch size that does not divide the number of rows. */
  BATCH_FIXED: { readonly batch: number; readonly rows: number };
  /** The requested device cannot be used. */
  DEVICE_UNAVAILABLE: {
    readonly device: string;
    readonly reason: string;
    /** Shared libraries that fail to load, if that is the reason. */
    readonly missingLibraries?: readonly string[];
  };
  /** The engine or the CPU cannot compute in this precision. */
  PRECISION_UNSUPPORTED: { readonly precision: string; readonly engine: string; readonly reason: string };
  /** The features of an output are further from those in float32 than `minCosine` allows. `cosine` is the least one measured. */
  PRECISION_TOO_LOW: { readonly output: string; readonly cosine: number; readonly minCosine: number };
  /** The engine lacks operators of the model, or does not run on the chosen device. `operators` is empty if it names none. */
  ENGINE_UNSUPPORTED: {
    readonly engine: string;
    readonly operators: readonly string[];
    readonly reason: string;
  };
  /** The engine rejected the model. */
  SESSION_FAILED: { readonly device: string; readonly reason: string };
  /** The engine failed during a run. */
  RUN_FAILED: { readonly device: string; readonly reason: string };
  /** The thread or process that holds a session ended unexpectedly. */
  LANE_DIED: { readonly device: string; readonly reason: string };
  /** A device of a data-parallel model failed; `cause` says how. `replica` is the first in device order; `errors` holds those of others. */
  REPLICA_FAILED: { readonly replica: number; readonly device: string };
  /** A rank of a training ended, hangs or has left the others; null if it is not known which one. */
  RANK_LOST: { readonly rank: number | null; readonly reason: string };
  /** The ranks of a training are not alike: `what` is the option, the call or the tensor in which `rank` is the first to differ from rank 0. */
  RANKS_DIFFER: { readonly rank: number; readonly what: string };
  /** A stage of a pipeline failed. `cause` is its error. */
  STAGE_FAILED: { readonly stage: number; readonly device: string };
  /** The outputs of several devices cannot be joined. */
  OUTPUT_NOT_GATHERABLE: { readonly output: string; readonly reason: string };
  /** The object is already closed. */
  CLOSED: { readonly what: string };
  /** A configuration of preprocessing has a field that changes pixels and cannot be followed. */
  TRANSFORM_UNSUPPORTED: { readonly field: string; readonly reason: string };
  /** A file of a tokenizer is missing or damaged, or says what cannot be followed. */
  TOKENIZER_INVALID: { readonly path: string; readonly reason: string };
  /** The call needs a package that is not installed or does not load. */
  DEPENDENCY_MISSING: { readonly package: string; readonly reason: string };
  /** The image does not exist or cannot be fetched. */
  IMAGE_NOT_FOUND: { readonly source: string; readonly reason: string };
  /** The source listed the image file, but the file was gone when it was read. */
  IMAGE_VANISHED: { readonly source: string; readonly reason: string };
  /** The current user may not read the image file. */
  IMAGE_DENIED: { readonly source: string; readonly reason: string };
  /** The image file is empty. */
  IMAGE_EMPTY: { readonly source: string; readonly reason: string };
  /** The file ends before its image does. */
  IMAGE_TRUNCATED: { readonly source: string; readonly reason: string; readonly sizeBytes: number };
  /** The bytes are not an image, the image is damaged, its format is not supported, or reading failed. */
  IMAGE_UNREADABLE: { readonly source: string; readonly reason: string };
  /** The image does not fit what is asked of it: a side leaves no whole patch, it is smaller than its crop, or a clip has too few frames. */
  IMAGE_MISFIT: { readonly source: string; readonly reason: string };
  /** The image has more pixels (by its header) or its file more bytes than allowed. The limit that it exceeds is present. */
  IMAGE_TOO_LARGE: {
    readonly source: string;
    readonly reason: string;
    readonly limitPixels?: number;
    readonly limitBytes?: number;
  };
  /** Several photos of one call cannot be read. `index` is the place in the call, from 0; `errors` holds their errors. */
  PHOTOS_FAILED: {
    readonly failures: readonly { readonly index: number; readonly code: string; readonly message: string }[];
  };
  /** A decoding thread ended unexpectedly. */
  DECODER_DIED: { readonly reason: string };
  /** The folder, list or archive of images cannot be read, or contains no image. */
  SOURCE_INVALID: {
    readonly source: string;
    readonly reason: string;
    /** The broken line of a list, counted from 1. */
    readonly line?: number;
  };
  /** The folder is not a dataset or an unfinished one, or one of its files is missing, damaged or differs from the manifest. */
  DATASET_INVALID: { readonly path: string; readonly reason: string };
  /** The first axis of the output is not the batch, so that it cannot be split into one row per image. */
  OUTPUT_NOT_BATCHED: { readonly output: string; readonly dims: readonly number[]; readonly rows: number };
  /** A file cannot be downloaded. */
  DOWNLOAD_FAILED: { readonly url: string; readonly reason: string };
  /** The SHA-256 of a file differs from the recorded one. */
  CHECKSUM_MISMATCH: { readonly path: string; readonly expected: string; readonly actual: string };
  /** The package of an engine is damaged, unsafe to unpack, or lacks a library. */
  PACKAGE_INVALID: { readonly path: string; readonly reason: string };
  /** Something already exists at the output path. */
  OUTPUT_EXISTS: { readonly path: string };
  /** Another process is writing to the output path. Its host and number are null if they are unknown. */
  OUTPUT_LOCKED: { readonly path: string; readonly host: string | null; readonly pid: number | null };
  /** The output folder holds a dataset that was made with other settings. */
  DATASET_MISMATCH: {
    readonly path: string;
    readonly differences: readonly {
      readonly what: string;
      readonly there: string;
      readonly asked: string;
    }[];
  };
  /** Parts of a dataset, or inputs of its source, are still missing: the names of the first ones, and the number of all. */
  DATASET_INCOMPLETE: {
    readonly path: string;
    readonly missing: readonly string[];
    readonly count: number;
  };
  /** The environment variables of a launcher do not say which of several processes this is. */
  LAUNCHER_INVALID: {
    /** The variables that are set. */
    readonly variables: Readonly<Record<string, string>>;
    readonly reason: string;
  };
  /** More inputs failed than `maxFailures` allows. */
  TOO_MANY_FAILURES: { readonly failed: number; readonly done: number; readonly limit: string };
  /** The process (`EMFILE`) or the system (`ENFILE`) cannot open more files. */
  TOO_MANY_OPEN_FILES: { readonly code: 'EMFILE' | 'ENFILE' };
  /** The memory of this process ran out. `reason` says at what. */
  OUT_OF_MEMORY: { readonly reason: string };
  /** The service cannot listen on this host and port. */
  ADDRESS_UNAVAILABLE: { readonly host: string; readonly port: number; readonly reason: string };
  /** The output, or a temporary file, cannot be written. `path` is the output, or the folder of temporary files. */
  OUTPUT_UNWRITABLE: { readonly path: string; readonly reason: string };
}

/** The codes that a {@link TapirError} can have. */
export type ErrorCode = keyof ErrorDetails;

/** The codes of errors of single images. A run over many images continues after them. */
export type ImageErrorCode = Extract<ErrorCode, `IMAGE_${string}`>;

/** The details of an error and, if there is one, its cause. */
interface ErrorOptionsOf<Code extends ErrorCode> {
  readonly details: ErrorDetails[Code];
  readonly cause?: unknown;
  readonly errors?: readonly Error[];
}

/** Every copy of this package finds the same symbol, so that it recognises the errors of the others. */
const IS_TAPIR_ERROR = Symbol.for('onnx-tapir.TapirError');

/**
 * The only error class of onnx-tapir.
 *
 * Branch on `code`, which determines the type of `details`. The message says what is wrong, what was given and what to do.
 *
 * @remarks Two copies of this package in one program have two classes. Each recognises the errors of the other.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, isTapirError } from 'onnx-tapir';
 *
 * try {
 *   await createFeatureExtractor('resnet50.onnx', ['layer5']);
 * } catch (error) {
 *   if (isTapirError(error, 'NAME_NOT_FOUND')) console.log(error.details.names[0]?.nearest); // ['layer4', …]
 * }
 * ```
 */
export class TapirError<Code extends ErrorCode = ErrorCode> extends Error {
  /** The kind of failure. */
  readonly code: Code;
  /** The facts of this failure, by code. */
  readonly details: ErrorDetails[Code];
  /** The other errors that happened at the same time, as in AggregateError. Empty for most codes. */
  declare readonly errors: readonly Error[];

  constructor(code: Code, message: string, options: ErrorOptionsOf<Code>) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.details = options.details;
    if (options.errors && options.errors.length > 0) this.errors = options.errors;
  }
}
// Outside the class: the bundler renames a class that names itself, and stack traces would show that name.
Object.defineProperty(TapirError, Symbol.hasInstance, {
  /** Accepts the errors of another copy of this package as well. */
  value(this: unknown, value: unknown): boolean {
    if (this !== TapirError) return Function.prototype[Symbol.hasInstance].call(this as () => void, value);
    return value instanceof Error && IS_TAPIR_ERROR in value;
  },
});
for (const [name, value] of [
  ['errors', Object.freeze([])],
  ['name', 'TapirError'],
  [IS_TAPIR_ERROR, true],
] as const)
  Object.defineProperty(TapirError.prototype, name, { value, configurable: true, writable: true });

/**
 * Tells whether a caught value is a {@link TapirError}, and optionally whether it has a certain code.
 *
 * @param error - Any caught value. Errors of another copy of this package count too.
 * @param code - The code to narrow to.
 * @returns `true` if it is; TypeScript then knows the type of `error.details`.
 */
export function isTapirError<Code extends ErrorCode>(error: unknown, code?: Code): error is TapirError<Code> {
  return error instanceof TapirError && (code === undefined || error.code === code);
}

/** Returns the message of any thrown value, on one line. */
export function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text
    .replace(/^ENOENT: no such file or directory, \w+ '([^']*)'$/, 'there is no "$1" (ENOENT)')
    .replace(/\s*\n\s*/g, ' ')
    .trim();
}
