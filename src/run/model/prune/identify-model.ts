/** Identifying a model file by its content. */
import { basename } from 'node:path';
import { TapirError } from '../../../base/errors.js';
import { digestSource } from '../../../onnx/file/emit.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';

/** How records identify a model file. */
export interface FileIdentity {
  /** The file name without its folder, or "model bytes". */
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file, without its external weights. */
  readonly sha256: string;
}

const identified = new WeakMap<OnnxModel, Promise<FileIdentity>>();

/** Identifies the file of a model. The work is done once per model; call it early to have the result when you need it. */
export function identifyFile(model: OnnxModel): Promise<FileIdentity> {
  const known = identified.get(model);
  if (known) return known;
  const { file, withSource } = modelInternals.of(model);
  const identifying = withSource(async (source) => ({
    file: file ? basename(file.path) : source.label,
    bytes: source.sizeBytes,
    sha256: await digestSource(source),
  }));
  identified.set(model, identifying);
  // The caller handles the failure; the next call tries again.
  identifying.catch(() => identified.delete(model));
  return identifying;
}

/** Throws `CHECKSUM_MISMATCH` unless a model's file is the recorded one; `what` says what that is, for the message. */
export async function checkIdentity(
  model: OnnxModel,
  { file, sha256: expected }: Pick<FileIdentity, 'file' | 'sha256'>,
  what: string,
): Promise<void> {
  const { sha256: actual } = await identifyFile(model);
  if (actual === expected) return;
  const path = model.label;
  const message = `"${path}" is not ${what} (${file}): its SHA-256 is ${actual}, not ${expected}`;
  throw new TapirError('CHECKSUM_MISMATCH', message, { details: { path, expected, actual } });
}
