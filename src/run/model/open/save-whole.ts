/** Writing a model to a file: what is checked first, and where external weights go. */
import { realpathSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { AtomicFile, checkAbsent, haveSameBytes } from '../../../base/atomic-file.js';
import { checkText, type Options } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { lockOutput } from '../../../base/folder-lock.js';
import { boolean, oneOf, readOptions, type Fields } from '../../../base/options.js';
import { patchOwner } from '../../../onnx/graph/rewrite/lay-out.js';
import { sizeOf, type Chunk } from '../../../onnx/file/wire/chunk.js';
import { appendChunks, layOut, writeChunks } from '../../../onnx/file/emit.js';
import {
  allExternalTensors,
  findExternalFiles,
  locateExternal,
  type ExternalTensor,
} from '../../../onnx/file/external-data.js';
import { inlineWeights, repackWeights, type MovedWeights } from '../../../onnx/file/move-weights.js';
import type { ByteSource } from '../../../onnx/file/wire/source.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import type { ModelState } from './model-state.js';

/** Options of {@link PrunedModel.save}. */
export interface SaveOptions {
  /**
   * Where weights of other files go: `keep` leaves them in their files, `inline` copies those that are needed into the written
   * file, `repack` into one new file beside it, `NAME.onnx.data`.
   * @default 'keep'
   */
  readonly weights: 'keep' | 'inline' | 'repack';
  /**
   * Replace a file that exists. The model that was cut and its weights are never replaced.
   * @default false
   */
  readonly overwrite: boolean;
}

export const SAVE_FIELDS: Fields<SaveOptions> = {
  weights: oneOf(
    ['keep', 'inline', 'repack'],
    'keep',
    'where weights of other files go: they stay, or move into the written file or into a new one beside it, FILE.data',
  ),
  overwrite: boolean(false, 'replace files that exist; the model itself is never replaced'),
};

/** The largest protobuf message, and so the largest ONNX file. */
const LIMIT_BYTES = 2 ** 31 - 1;

/** Where and how a model is saved. */
export interface Saving extends SaveOptions {
  readonly target: string;
  /** Whether weights of other files move. */
  readonly isMoved: boolean;
}

/** Reads the arguments of a save, and checks that it destroys nothing. */
export function readSave(
  model: ModelState,
  path: string,
  externalFiles: readonly string[],
  allFiles: readonly string[],
  given: Options<SaveOptions>,
): Saving {
  const { weights, overwrite } = readOptions(SAVE_FIELDS, given, 'save');
  const target = resolve(checkText('path', path));
  const isMoved = weights !== 'keep' && externalFiles.length > 0;
  if (!isMoved) checkSameFolder(model, externalFiles, target);
  const targets = isMoved && weights === 'repack' ? [target, dataPathOf(target)] : [target];
  for (const one of targets) checkNotSource(model, allFiles, one);
  // The weights are checked when they are known: a killed run may have written the same.
  if (!overwrite) checkAbsent(target);
  return { target, weights, overwrite, isMoved };
}

/** A model that is saved. */
export interface Saved {
  readonly model: ModelState;
  /** Its weights in other files. */
  readonly tensors: readonly ExternalTensor[];
  /** Its pieces, with these weights where they are. */
  readonly chunks: readonly Chunk[];
  /** Its pieces, with these weights in other places. */
  readonly layOut: (reader: WireReader, weights: MovedWeights) => Chunk[];
}

/** Saves a model whole; see {@link OnnxModel.save}. */
export async function saveWhole(model: ModelState, path: string, given: Options<SaveOptions>): Promise<void> {
  const scanned = model.graph.model;
  const tensors = allExternalTensors(scanned);
  const externalFiles = [...new Set(tensors.map(({ location }) => location))];
  const saving = readSave(model, path, externalFiles, externalFiles, given);
  const chunks = [{ start: 0, end: scanned.sizeBytes }];
  const layOutMoved: Saved['layOut'] = (reader, weights) => {
    const moved = [...weights].map(
      ([field, patches]) => [field, patchOwner(reader, field, patches)] as const,
    );
    return layOut(scanned, { dropped: new Set(), replaced: new Map(moved), added: [] });
  };
  await writeSaved({ model, tensors, chunks, layOut: layOutMoved }, saving);
}

/** Writes a model as its options were read. */
export function writeSaved(saved: Saved, { target, weights, overwrite, isMoved }: Saving): Promise<void> {
  return saved.model.withSource((source) => {
    if (!isMoved) return writeChunks(source, saved.chunks, target);
    if (weights === 'inline') return writeChunks(source, layOutInlined(saved, source, target), target);
    const reader = new WireReader(source);
    const files = findExternalFiles(saved.tensors, saved.model.folder)!;
    const moved = repackWeights(reader, saved.tensors, files, basename(dataPathOf(target)));
    return writeBoth(source, target, moved.file, saved.layOut(reader, moved.weights), overwrite);
  });
}

/** A model with its external weights inside. Throws `MODEL_TOO_LARGE`. */
export function layOutInlined(
  { model, tensors, layOut: layOutMoved }: Saved,
  source: ByteSource,
  path: string,
): Chunk[] {
  const reader = new WireReader(source);
  const files = findExternalFiles(tensors, model.folder)!;
  const chunks = layOutMoved(reader, inlineWeights(reader, tensors, files));
  checkSize(chunks, path);
  return chunks;
}

/**
 * Writes a model and the file of its weights.
 *
 * @remarks Both are written under temporary names. Then the old model is removed, before its weights are replaced: a model with the
 * weights of another one would give wrong values.
 */
async function writeBoth(
  source: ByteSource,
  path: string,
  weights: readonly Chunk[],
  chunks: readonly Chunk[],
  overwrite: boolean,
): Promise<void> {
  const dataPath = dataPathOf(path);
  await using _lock = await lockOutput(dataPath);
  const files: AtomicFile[] = [];
  try {
    for (const [to, content] of [
      [dataPath, weights],
      [path, chunks],
    ] as const) {
      const file = await AtomicFile.create(to);
      files.push(file);
      await appendChunks(file, source, content);
      await file.pause();
    }
    if (overwrite) await rm(path, { force: true });
    else {
      checkAbsent(path);
      if (!(await haveSameBytes(files[0]!.temporary, dataPath))) checkAbsent(dataPath);
    }
    for (const file of files) await file.finish();
  } finally {
    for (const file of files) await file.discard();
  }
}

export function dataPathOf(path: string): string {
  return `${path}.data`;
}

function checkSize(chunks: readonly Chunk[], path: string): void {
  const bytes = sizeOf(chunks);
  if (bytes <= LIMIT_BYTES) return;
  throw new TapirError(
    'MODEL_TOO_LARGE',
    `"${path}" would have ${bytes} bytes with all weights inside, and an ONNX file holds at most ${LIMIT_BYTES}; save it with weights: 'repack' (tapir: --set weights=repack), which puts them into a file beside it`,
    { details: { path, bytes, limitBytes: LIMIT_BYTES } },
  );
}

/** Refuses to write over the model that was cut, or over its weights: both are still read. */
function checkNotSource(model: ModelState, externalFiles: readonly string[], target: string): void {
  const { path, folder } = model;
  if (folder === undefined) return;
  const weights = externalFiles.map((name) => locateExternal(folder, name));
  const isSource = path !== undefined && isSameFile(path, target);
  if (!isSource && !weights.some((path) => isSameFile(path, target))) return;
  throw readTarget(
    target,
    isSource ? 'it is the model that is read' : 'it holds weights of the model that is read',
  );
}

function readTarget(target: string, reason: string): TapirError<'OUTPUT_UNWRITABLE'> {
  return new TapirError('OUTPUT_UNWRITABLE', `cannot write "${target}": ${reason}; choose another name`, {
    details: { path: target, reason },
  });
}

/** What a save refuses, before the model is opened. Throws `OUTPUT_UNWRITABLE` for the model itself; `OUTPUT_EXISTS` if there is a file. */
export function checkTarget(
  target: string,
  model: string,
  { overwrite }: Pick<SaveOptions, 'overwrite'>,
): void {
  if (isSameFile(model, target)) throw readTarget(target, 'it is the model that is read');
  if (!overwrite) checkAbsent(target);
}

function checkSameFolder(model: ModelState, files: readonly string[], target: string): void {
  const { folder } = model;
  if (files.length === 0 || (folder !== undefined && isSameFile(folder, dirname(target)))) return;
  const names = files.map((file) => `"${file}"`).join(', ');
  const where = folder ?? 'unknown: the model was opened from bytes';
  const advice =
    folder === undefined
      ? 'open the model by its path'
      : `save with weights: 'inline' or 'repack' (tapir: --set weights=…), or into the folder "${folder}"`;
  throw new TapirError(
    'EXTERNAL_DATA_ELSEWHERE',
    `"${target}" would not find its weights, which are in ${names} beside the source model; ${advice}`,
    { details: { path: target, folder: where, files } },
  );
}

/** Whether two paths lead to the same file, through links, other names of it, or another case. */
function isSameFile(a: string, b: string): boolean {
  try {
    const [one, other] = [statSync(a, { bigint: true }), statSync(b, { bigint: true })];
    // Some file systems number no files.
    return one.ino === 0n
      ? realpathSync(a) === realpathSync(b)
      : one.ino === other.ino && one.dev === other.dev;
  } catch {
    return false; // One of them does not exist.
  }
}
