/** What went wrong, as data: one entry per code. Message wording is not API; codes and details are. */
export interface ErrorDetails {
  /** An option, argument or flag has a value outside what is allowed. */
  OPTION_INVALID: { readonly option: string; readonly expected: string; readonly actual: string };
  /** The model file cannot be opened or read. */
  MODEL_UNREADABLE: { readonly source: string; readonly reason: string };
  /** The bytes are not an ONNX ModelProto, or a damaged one. */
  MODEL_MALFORMED: { readonly source: string; readonly byteOffset: number; readonly looksLike?: string };
  /** The file changed on disk between reading its index and copying from it. */
  MODEL_CHANGED: { readonly source: string };
  /** The graph breaks a rule of ONNX that the requested part depends on. */
  GRAPH_INVALID: { readonly reason: string; readonly where: readonly string[] };
  /** The names beside a model (`MODEL.onnx.names.json`) are damaged, or another model's. */
  NAMES_INVALID: { readonly path: string; readonly reason: string };
  /** No tensor, node or module (or model to pull) of these names. */
  NAME_NOT_FOUND: {
    readonly names: readonly { readonly request: string; readonly nearest: readonly string[] }[];
  };
  /** A name reads as different values; the prefixes choose one. */
  NAME_AMBIGUOUS: {
    readonly request: string;
    readonly readings: readonly { readonly request: string; readonly tensor: string }[];
  };
  /** The module existed in the source network, but the exporter folded its value away. */
  NAME_FOLDED: { readonly request: string; readonly instead?: string };
  /** The name exists only inside the body of a control-flow node or a function. */
  NAME_INSIDE_BODY: {
    readonly request: string;
    readonly where: string;
    /** Tensors outside that come from there. */
    readonly outside: readonly string[];
  };
  /** An output that cannot be fetched as a tensor (sequence, map, optional). */
  OUTPUT_NOT_TENSOR: { readonly output: string; readonly type: string };
  /** An output has not the form that pooling or another part behind it needs. */
  OUTPUT_MISFIT: { readonly output: string; readonly actual: string; readonly reason: string };
  /** The tensors given as inputs do not suffice for the outputs. */
  INPUTS_MISSING: { readonly missing: readonly string[] };
  /** A written output name is already the name of another value in the kept graph. */
  OUTPUT_NAME_TAKEN: { readonly key: string };
  /** External weights whose path leaves the model's folder, or that cannot be found. */
  EXTERNAL_DATA_UNSAFE: { readonly location: string; readonly tensor: string; readonly reason: string };
  /** Saving away from the folder that holds the external weights. */
  EXTERNAL_DATA_ELSEWHERE: {
    readonly path: string;
    readonly folder: string;
    readonly files: readonly string[];
  };
  /** A model file that would be larger than protobuf allows. */
  MODEL_TOO_LARGE: { readonly path: string; readonly bytes: number; readonly limitBytes: number };
  /** A feed is missing, or its dtype or shape does not fit the model. */
  INPUT_MISMATCH: { readonly input: string; readonly expected: string; readonly actual: string };
  /** The graph was exported for a fixed batch that does not divide the given rows. */
  BATCH_FIXED: { readonly batch: number; readonly rows: number };
  /** The device that was asked for cannot be used. */
  DEVICE_UNAVAILABLE: {
    readonly device: string;
    readonly reason: string;
    /** Shared libraries that do not load, if that is the reason. */
    readonly missingLibraries?: readonly string[];
  };
  /** ONNX Runtime refused the model. */
  SESSION_FAILED: { readonly device: string; readonly reason: string };
  /** ONNX Runtime failed while running. */
  RUN_FAILED: { readonly device: string; readonly reason: string };
  /** The thread or process that held a session ended by itself. */
  LANE_DIED: { readonly device: string; readonly reason: string };
  /**
   * A device of a data-parallel model failed; `cause` says how. All devices have settled: this is the first one in order, and
   * `errors` holds those of the others.
   */
  REPLICA_FAILED: { readonly replica: number; readonly device: string };
  /** Outputs of several devices that do not fit together. */
  OUTPUT_NOT_GATHERABLE: { readonly output: string; readonly reason: string };
  /** The object was closed. */
  CLOSED: { readonly what: string };
  /** A package that this call needs is not installed or does not load. */
  DEPENDENCY_MISSING: { readonly package: string; readonly reason: string };
  /** There is no such image file. */
  IMAGE_NOT_FOUND: { readonly source: string; readonly reason: string };
  /** The source listed the image file, and it was gone when its turn came. */
  IMAGE_VANISHED: { readonly source: string; readonly reason: string };
  /** This user may not read the image file. */
  IMAGE_DENIED: { readonly source: string; readonly reason: string };
  /** The image file has no bytes. */
  IMAGE_EMPTY: { readonly source: string; readonly reason: string };
  /** The file ends before its image does. */
  IMAGE_TRUNCATED: { readonly source: string; readonly reason: string; readonly sizeBytes: number };
  /** The bytes are no image, a damaged one, or one of a kind that is not read; or reading them failed. */
  IMAGE_UNREADABLE: { readonly source: string; readonly reason: string };
  /** The image has more pixels than allowed, decided from its header, or its file more bytes: one of the limits is given. */
  IMAGE_TOO_LARGE: {
    readonly source: string;
    readonly reason: string;
    readonly limitPixels?: number;
    readonly limitBytes?: number;
  };
  /** A thread that decodes images ended by itself. */
  DECODER_DIED: { readonly reason: string };
  /** The folder, list or archive of images cannot be read, or holds no image. */
  SOURCE_INVALID: {
    readonly source: string;
    readonly reason: string;
    /** Of a list, from 1, if that is where it is broken. */
    readonly line?: number;
  };
  /** The folder is no dataset, an unfinished one, or a file of it is missing, damaged or not what the manifest says. */
  DATASET_INVALID: { readonly path: string; readonly reason: string };
  /** An output whose first axis is not the batch cannot be cut into one row per image. */
  OUTPUT_NOT_BATCHED: { readonly output: string; readonly dims: readonly number[]; readonly rows: number };
  /** A file cannot be fetched from the network. */
  DOWNLOAD_FAILED: { readonly url: string; readonly reason: string };
  /** A file is not the one that was recorded: its SHA-256 is another. */
  CHECKSUM_MISMATCH: { readonly path: string; readonly expected: string; readonly actual: string };
  /** The output place already holds something. */
  OUTPUT_EXISTS: { readonly path: string };
  /** Another process is writing to the output place; null where it is not known which. */
  OUTPUT_LOCKED: { readonly path: string; readonly host: string | null; readonly pid: number | null };
  /** The output place holds a dataset that was made in another way. */
  DATASET_MISMATCH: {
    readonly path: string;
    readonly differences: readonly {
      readonly what: string;
      readonly there: string;
      readonly asked: string;
    }[];
  };
  /** Parts of a dataset, or inputs of its source, that are not there yet: the first ones by name, and how many. */
  DATASET_INCOMPLETE: {
    readonly path: string;
    readonly missing: readonly string[];
    readonly count: number;
  };
  /** The environment does not say which of several processes this one is. */
  LAUNCHER_INVALID: {
    /** What is set. */
    readonly variables: Readonly<Record<string, string>>;
    readonly reason: string;
  };
  /** More inputs failed than `maxFailures` allows. */
  TOO_MANY_FAILURES: { readonly failed: number; readonly done: number; readonly limit: string };
  /** A service cannot listen where it was told to. */
  ADDRESS_UNAVAILABLE: { readonly host: string; readonly port: number; readonly reason: string };
  /** The output place cannot be written. */
  OUTPUT_UNWRITABLE: { readonly path: string; readonly reason: string };
}

/** The closed set of codes a {@link TapirError} carries. */
export type ErrorCode = keyof ErrorDetails;

/** The codes of single images: a run over many goes on. */
export type ImageErrorCode = Extract<ErrorCode, `IMAGE_${string}`>;

/** `details` and, where there is one, the error underneath. */
interface ErrorOptionsOf<Code extends ErrorCode> {
  readonly details: ErrorDetails[Code];
  readonly cause?: unknown;
  readonly errors?: readonly Error[];
}

/**
 * The one error class of onnx-tapir.
 *
 * Branch on `code`; `details` is typed by it (see {@link isTapirError}). The message says what is wrong, what
 * was given and what to do.
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
  /** What else failed at the same time, as in AggregateError; empty for most codes. */
  declare readonly errors: readonly Error[];

  constructor(code: Code, message: string, options: ErrorOptionsOf<Code>) {
    super(message, 'cause' in options ? { cause: options.cause } : {});
    this.code = code;
    this.details = options.details;
    if (options.errors && options.errors.length > 0) this.errors = options.errors;
  }
}
Object.defineProperty(TapirError.prototype, 'errors', {
  value: Object.freeze([]),
  configurable: true,
  writable: true,
});
Object.defineProperty(TapirError.prototype, 'name', {
  value: 'TapirError',
  configurable: true,
  writable: true,
});

/**
 * Tells whether a caught value is a {@link TapirError}, of one code if given.
 *
 * @param error - Anything that was thrown.
 * @param code - The code to narrow to.
 * @returns `true` if so; `error.details` is then typed.
 */
export function isTapirError<Code extends ErrorCode>(error: unknown, code?: Code): error is TapirError<Code> {
  return error instanceof TapirError && (code === undefined || error.code === code);
}

/** The reason text of anything that was thrown, on one line. */
export function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/** An error as a plain object: structured clone keeps of an Error only message and stack, not class, code or details. */
export interface PackedError {
  readonly code?: ErrorCode;
  readonly message: string;
  readonly stack?: string;
  readonly details?: unknown;
  readonly cause?: PackedError;
  readonly errors?: readonly PackedError[];
}

/** Packs an error for another thread; {@link unpackError} rebuilds it. */
export function packError(error: unknown): PackedError {
  if (!(error instanceof Error)) return { message: String(error) };
  return {
    message: error.message,
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(error instanceof TapirError ? { code: error.code, details: error.details } : {}),
    ...(error.cause === undefined ? {} : { cause: packError(error.cause) }),
    ...(error instanceof TapirError && error.errors.length > 0
      ? { errors: error.errors.map(packError) }
      : {}),
  };
}

/** Rebuilds what {@link packError} packed, class, code, details and causes included. */
export function unpackError(packed: PackedError): Error {
  const cause = packed.cause === undefined ? {} : { cause: unpackError(packed.cause) };
  const error =
    packed.code === undefined
      ? new Error(packed.message, cause)
      : new TapirError(packed.code, packed.message, {
          // The details were packed beside this very code.
          details: packed.details as ErrorDetails[ErrorCode],
          errors: (packed.errors ?? []).map(unpackError),
          ...cause,
        });
  if (packed.stack !== undefined) error.stack = packed.stack;
  return error;
}
