/** What a model file is known by: its content. */
import { basename } from 'node:path';
import { digestSource } from '../onnx/digest.js';
import { stateOf, type OnnxModel } from './open-model.js';

/** What identifies a model file in records. */
export interface FileIdentity {
  /** File name without folder, or "model bytes". */
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file, without its external weights. */
  readonly sha256: string;
}

/** The same, of a model that was cut. */
export interface ModelIdentity extends FileIdentity {
  /** Files with the weights that were kept. */
  readonly externalFiles: readonly string[];
}

const identified = new WeakMap<OnnxModel, Promise<FileIdentity>>();

/** Identifies the file of a model, once; a caller that will need it can begin early. */
export function identifyFile(model: OnnxModel): Promise<FileIdentity> {
  const known = identified.get(model);
  if (known) return known;
  const { file, withSource } = stateOf(model);
  const identifying = withSource(async (source) => ({
    file: file ? basename(file.path) : source.label,
    bytes: source.sizeBytes,
    sha256: await digestSource(source),
  }));
  identified.set(model, identifying);
  // Awaited by whoever asks; one that fails is tried again.
  identifying.catch(() => identified.delete(model));
  return identifying;
}
