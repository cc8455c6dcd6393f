/** The exit codes of the command, and its errors as text and as a file. */
import { writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { isTapirError, TapirError, type ErrorCode } from '../../base/errors.js';
import { machineFailure } from '../../base/machine-failure.js';

export const EXIT = {
  done: 0,
  /** Done, and the output is written; some inputs failed, or `check` found wrong numbers. */
  someFailed: 1,
  usage: 2,
  /** A problem with the model or the device. */
  model: 3,
  /** The output cannot be written, or the machine ran out of disk, memory or open files. */
  output: 4,
  /** Stopped early by a limit that the user set: on inputs that fail, or on the distance to float32. */
  stopped: 5,
  internal: 70,
} as const;

const CODES: Readonly<Record<ErrorCode, number>> = {
  OPTION_INVALID: EXIT.usage,
  NAME_NOT_FOUND: EXIT.usage,
  NAME_AMBIGUOUS: EXIT.usage,
  NAME_FOLDED: EXIT.usage,
  NAME_INSIDE_BODY: EXIT.usage,
  SPLIT_IMPOSSIBLE: EXIT.usage,
  OUTPUT_NOT_TENSOR: EXIT.usage,
  OUTPUT_NAME_TAKEN: EXIT.usage,
  OUTPUT_NOT_BATCHED: EXIT.usage,
  OUTPUT_MISFIT: EXIT.usage,
  FEATURE_AMBIGUOUS: EXIT.usage,
  INPUTS_MISSING: EXIT.usage,
  INPUT_MISMATCH: EXIT.usage,
  TENSOR_SEVERAL: EXIT.usage,
  SIZE_FIXED: EXIT.usage,
  BATCH_FIXED: EXIT.usage,
  SOURCE_INVALID: EXIT.usage,
  DATASET_INVALID: EXIT.usage,
  IMAGE_NOT_FOUND: EXIT.usage,
  IMAGE_VANISHED: EXIT.usage,
  IMAGE_DENIED: EXIT.usage,
  IMAGE_EMPTY: EXIT.usage,
  IMAGE_TRUNCATED: EXIT.usage,
  IMAGE_UNREADABLE: EXIT.usage,
  IMAGE_MISFIT: EXIT.usage,
  IMAGE_TOO_LARGE: EXIT.usage,
  PHOTOS_FAILED: EXIT.usage,
  MODEL_UNREADABLE: EXIT.model,
  MODEL_MALFORMED: EXIT.model,
  MODEL_CHANGED: EXIT.model,
  NAMES_INVALID: EXIT.model,
  SETTINGS_INVALID: EXIT.model,
  STATE_INVALID: EXIT.model,
  STATE_MISMATCH: EXIT.model,
  STATE_AMBIGUOUS: EXIT.model,
  PARAMETER_FOLDED: EXIT.model,
  NORMS_UNAVAILABLE: EXIT.model,
  MOMENTS_INVALID: EXIT.usage,
  CHECKPOINT_INVALID: EXIT.model,
  TRANSFORM_UNSUPPORTED: EXIT.model,
  TOKENIZER_INVALID: EXIT.model,
  GRAPH_INVALID: EXIT.model,
  GRADIENT_UNSUPPORTED: EXIT.model,
  LOSS_NOT_FINITE: EXIT.model,
  EXTERNAL_DATA_UNSAFE: EXIT.model,
  DEVICE_UNAVAILABLE: EXIT.model,
  SESSION_FAILED: EXIT.model,
  PRECISION_UNSUPPORTED: EXIT.model,
  ENGINE_UNSUPPORTED: EXIT.model,
  RUN_FAILED: EXIT.model,
  LANE_DIED: EXIT.model,
  DECODER_DIED: EXIT.internal,
  REPLICA_FAILED: EXIT.model,
  STAGE_FAILED: EXIT.model,
  RANK_LOST: EXIT.model,
  RANKS_DIFFER: EXIT.usage,
  OUTPUT_NOT_GATHERABLE: EXIT.usage,
  DEPENDENCY_MISSING: EXIT.model,
  DOWNLOAD_FAILED: EXIT.model,
  CHECKSUM_MISMATCH: EXIT.model,
  PACKAGE_INVALID: EXIT.model,
  EXTERNAL_DATA_ELSEWHERE: EXIT.output,
  MODEL_TOO_LARGE: EXIT.output,
  ADDRESS_UNAVAILABLE: EXIT.usage,
  OUTPUT_EXISTS: EXIT.output,
  OUTPUT_UNWRITABLE: EXIT.output,
  OUTPUT_LOCKED: EXIT.output,
  DATASET_MISMATCH: EXIT.usage,
  DATASET_INCOMPLETE: EXIT.output,
  LAUNCHER_INVALID: EXIT.usage,
  TOO_MANY_FAILURES: EXIT.stopped,
  PRECISION_TOO_LOW: EXIT.stopped,
  TOO_MANY_OPEN_FILES: EXIT.output,
  OUT_OF_MEMORY: EXIT.output,
  CLOSED: EXIT.internal,
};

export function exitCodeOf(error: unknown): number {
  const known = machineFailure(error) ?? error;
  return isTapirError(known) ? CODES[known.code] : EXIT.internal;
}

/** An error as a block of text for standard error. A defect shows its stack. */
export function messageOf(error: unknown): string {
  const known = machineFailure(error) ?? error;
  if (known instanceof TapirError) return `tapir: ${known.message} [${known.code}]\n`;
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return `tapir: this is a defect of onnx-tapir, please report it: ${detail}\n`;
}

/**
 * Writes the file that `TORCHELASTIC_ERROR_FILE` names, in the format of `torch.distributed.elastic.multiprocessing.errors`. Torchrun
 * prints the `py_callstack` of the first process that fails as the root cause. Without the variable nothing happens.
 */
export function writeErrorFile(env: Readonly<Record<string, string | undefined>>, error: unknown): void {
  const path = env['TORCHELASTIC_ERROR_FILE'] ?? '';
  if (path === '') return;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const callstack = `${messageOf(error)}${inspect(error, { depth: 4 })}`;
  const content = {
    message: {
      message: messageOf(error).trim(),
      extraInfo: { py_callstack: callstack, timestamp },
    },
  };
  try {
    writeFileSync(path, JSON.stringify(content));
  } catch {
    // The error is printed to standard error in any case.
  }
}
