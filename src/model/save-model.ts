/** Writing a pruned model to a file, with the external weights that it needs. */
import { realpathSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { checkBoolean, checkOneOf, checkText, withDefaults, type Options } from '../base/checks.js';
import { reserveFile } from '../base/atomic-file.js';
import { TapirError } from '../base/errors.js';
import { externalTensors } from '../graph/rewrite/describe.js';
import { layOutRewrite } from '../graph/rewrite/lay-out.js';
import type { PrunePlan } from '../graph/rewrite/plan.js';
import { sizeOf, type Chunk } from '../onnx/chunk.js';
import { writeChunks } from '../onnx/emit.js';
import { locateExternal } from '../onnx/external-data.js';
import { inlineWeights, repackWeights } from '../onnx/move-weights.js';
import type { ByteSource } from '../onnx/source.js';
import { WireReader } from '../onnx/wire.js';
import { modelInternals, type OnnxModel } from './open-model.js';
import type { LaidOut } from './prepare.js';
import { findWeights } from './session-model.js';

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

export const SAVE_DEFAULTS: SaveOptions = { weights: 'keep', overwrite: false };

/** The largest protobuf message, and so the largest ONNX file. */
const LIMIT_BYTES = 2 ** 31 - 1;

/** Saves a pruned model; see {@link PrunedModel.save}. */
export async function saveModel(
  pruned: LaidOut,
  path: string,
  plan: PrunePlan,
  given: Options<SaveOptions>,
): Promise<void> {
  const options = withDefaults(SAVE_DEFAULTS, given, 'save');
  const target = resolve(checkText('path', path));
  const weights = checkOneOf('weights', options.weights, ['keep', 'inline', 'repack']);
  const overwrite = checkBoolean('overwrite', options.overwrite);
  const { model, chunks } = pruned;
  const { externalFiles } = plan.kept;
  const isMoved = weights !== 'keep' && externalFiles.length > 0;
  if (!isMoved) checkSameFolder(model, externalFiles, target);
  const targets = isMoved && weights === 'repack' ? [target, dataPathOf(target)] : [target];
  for (const one of targets) {
    checkNotSource(model, plan, one);
    if (!overwrite) checkAbsent(one);
  }
  await modelInternals.of(model).withSource((source) => {
    if (!isMoved) return writeChunks(source, chunks, target);
    return weights === 'inline'
      ? saveInlined(source, pruned, target)
      : saveRepacked(source, pruned, target, overwrite);
  });
}

/** Writes a model with its external weights inside. */
async function saveInlined(
  source: ByteSource,
  { model, rewrite, request }: LaidOut,
  path: string,
): Promise<void> {
  const reader = new WireReader(source);
  const weights = inlineWeights(reader, externalTensors(rewrite.cut), findWeights(model, rewrite)!);
  const chunks = layOutRewrite(rewrite, request.naming, reader, weights);
  checkSize(chunks, path);
  await writeChunks(source, chunks, path);
}

/** Writes a model, and its external weights into one file beside it. The weights come first, so that the model never lacks them. */
async function saveRepacked(
  source: ByteSource,
  { model, rewrite, request }: LaidOut,
  path: string,
  overwrite: boolean,
): Promise<void> {
  const reader = new WireReader(source);
  const data = dataPathOf(path);
  const tensors = externalTensors(rewrite.cut);
  const moved = repackWeights(reader, tensors, findWeights(model, rewrite)!, basename(data));
  const chunks = layOutRewrite(rewrite, request.naming, reader, moved.weights);
  // Of several calls that write to the same place, only one may.
  if (!overwrite) await reserveFile(data);
  try {
    await writeChunks(source, moved.file, data);
    await writeChunks(source, chunks, path);
  } catch (error) {
    if (!overwrite) rmSync(data, { force: true });
    throw error;
  }
}

function dataPathOf(path: string): string {
  return `${path}.data`;
}

function checkSize(chunks: readonly Chunk[], path: string): void {
  const bytes = sizeOf(chunks);
  if (bytes <= LIMIT_BYTES) return;
  throw new TapirError(
    'MODEL_TOO_LARGE',
    `"${path}" would have ${bytes} bytes with all weights inside, and an ONNX file holds at most ${LIMIT_BYTES}; save it with weights: 'repack' (tapir: --repack), which puts them into a file beside it`,
    { details: { path, bytes, limitBytes: LIMIT_BYTES } },
  );
}

/** Refuses to write over the model that was cut, or over its weights: both are still read. */
function checkNotSource(model: OnnxModel, { kept, dropped }: PrunePlan, target: string): void {
  const { file, folder } = modelInternals.of(model);
  if (folder === undefined) return;
  const weights = [...kept.externalFiles, ...dropped.externalFiles].map((name) =>
    locateExternal(folder, name),
  );
  const isSource = file !== undefined && isSameFile(file.path, target);
  if (!isSource && !weights.some((path) => isSameFile(path, target))) return;
  const reason = isSource ? 'it is the model that was cut' : 'it holds weights of the model that was cut';
  throw new TapirError('OUTPUT_UNWRITABLE', `cannot write "${target}": ${reason}; choose another name`, {
    details: { path: target, reason },
  });
}

/** Throws `OUTPUT_EXISTS` if there is a file at the path. */
export function checkAbsent(target: string): void {
  // What is not a regular file is refused with its reason when it is written.
  if (!isFile(target)) return;
  throw new TapirError(
    'OUTPUT_EXISTS',
    `"${target}" exists already; choose another name, or replace it with overwrite: true (tapir: --overwrite)`,
    { details: { path: target } },
  );
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function checkSameFolder(model: OnnxModel, files: readonly string[], target: string): void {
  const { folder } = modelInternals.of(model);
  if (files.length === 0 || (folder !== undefined && isSameFile(folder, dirname(target)))) return;
  const names = files.map((file) => `"${file}"`).join(', ');
  const where = folder ?? 'unknown: the model was opened from bytes';
  const advice =
    folder === undefined
      ? 'open the model by its path'
      : `save with weights: 'inline' or 'repack' (tapir: --inline or --repack), or into the folder "${folder}"`;
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
