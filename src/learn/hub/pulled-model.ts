/** The result of a pull. */
import { digestFile } from '../../base/digest.js';
import type { KnownModel } from './known-models.js';
import { sizeOfFile } from './partial-file.js';

/** A model in the cache. */
export interface PulledModel {
  /** The entry of the list: licence, transform, useful nodes. For a repository, what the hub says about it. */
  readonly model: KnownModel;
  /** Path of the model file. */
  readonly path: string;
  /** The model file, followed by its external weights; for a repository, also its configurations and its tokenizer. */
  readonly files: readonly PulledFile[];
}

/** A file in the cache. */
export interface PulledFile {
  /** Its name; for a repository, its path there. */
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  /** What the checksum was compared with: the list or the hub's, the record of an earlier download, or nothing (the first download). */
  readonly checked: 'list' | 'record' | 'first';
  /** Whether the file was downloaded by this call. */
  readonly isNew: boolean;
}

/** The facts of a file in the cache; its checksum is computed unless it is given. */
export async function describeFile(
  name: string,
  path: string,
  sha256?: string,
): Promise<Omit<PulledFile, 'checked' | 'isNew'>> {
  return { name, path, sizeBytes: (await sizeOfFile(path)) ?? 0, sha256: sha256 ?? (await digestFile(path)) };
}
