/** The folder of `tapir models split`: the index is there only when all its stages are. */
import { existsSync } from 'node:fs';
import { realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable, writeAtomically } from '../../../base/atomic-file.js';
import { lockFolder } from '../../../base/folder-lock.js';
import { makeFolder } from '../../../base/make-folder.js';
import { readJson } from '../../../base/read-json.js';
import { prunedInternals, type PrunedModel } from '../../../run/model/prune/pruned-model.js';
import { checkSave } from '../../../run/model/prune/save-model.js';
import { dataPathOf, type SaveOptions } from '../../../run/model/open/save-whole.js';
import { checkAbsent } from '../../../base/atomic-file.js';

/** The index that is written beside the stages. */
export const INDEX = 'stages.json';
/** Names the files of a split that is being written or replaced: the next run may replace or remove them. */
const UNFINISHED = '.tapir-split.json';
const STAGE_FILE = /^stage-\d{1,9}\.onnx$/;

export interface StageFiles {
  /** The model that is split. */
  readonly source: string;
  /** By the name of its file. */
  readonly stages: ReadonlyMap<string, PrunedModel>;
  /** The text of the index. */
  readonly index: string;
}

/** Refuses a folder that holds a split, before the work. Throws `OUTPUT_EXISTS`. */
export function checkNoSplit(folder: string, { overwrite }: SaveOptions): void {
  if (!overwrite) checkAbsent(join(folder, INDEX));
}

/**
 * Writes stages, then their index. Killed at any moment, the folder holds no index, or one that fits its stages; the next run replaces what
 * is unfinished. Throws `OUTPUT_EXISTS`, `OUTPUT_LOCKED`, `OUTPUT_UNWRITABLE`.
 */
export async function writeStages(folder: string, files: StageFiles, saving: SaveOptions): Promise<void> {
  const { source, stages, index } = files;
  const [indexPath, unfinishedPath] = [join(folder, INDEX), join(folder, UNFINISHED)];
  await makeFolder(folder);
  await using _lock = await lockFolder(folder);
  checkNoSplit(folder, saving);
  const unfinished = readNames(unfinishedPath, 'files');
  const former = new Set([...readNames(indexPath, 'stages'), ...unfinished]);
  for (const name of former) await checkNotSource(join(folder, name), source);
  for (const name of stages.keys())
    if (!saving.overwrite && !unfinished.includes(name))
      for (const path of [join(folder, name), dataPathOf(join(folder, name))]) checkAbsent(path);
  // Before the former split is removed: it stays if one of the new stages cannot be saved.
  for (const [name, stage] of stages)
    await checkSave(prunedInternals.of(stage), join(folder, name), stage.plan, {
      ...saving,
      overwrite: true,
    });
  const all = [...new Set([...former, ...stages.keys()])].map((file) => ({ file }));
  await writeAtomically(unfinishedPath, Buffer.from(JSON.stringify({ files: all })));
  await remove(indexPath);
  for (const name of former) for (const path of [name, dataPathOf(name)]) await remove(join(folder, path));
  for (const [name, stage] of stages) await stage.save(join(folder, name), { ...saving, overwrite: true });
  await writeAtomically(indexPath, Buffer.from(index));
  await remove(unfinishedPath);
}

/** The names of stages in a JSON file; empty if there is no such file, or another program has written it. */
function readNames(path: string, key: 'files' | 'stages'): string[] {
  const content = readJson(path, (reason, cause) =>
    unwritable(path, new Error(`it is not the index of a split (${reason}); remove it`, { cause })),
  ) as Record<string, unknown> | null | undefined;
  const listed = content?.[key];
  if (!Array.isArray(listed)) return [];
  // Any other name could lead out of the folder.
  return listed
    .map((entry: { readonly file?: unknown } | null) => String(entry?.file))
    .filter((name) => STAGE_FILE.test(name));
}

async function checkNotSource(path: string, source: string): Promise<void> {
  if (!existsSync(path) || (await realpath(path)) !== (await realpath(source))) return;
  throw unwritable(path, new Error('it is the model that is read; choose another folder'));
}

async function remove(path: string): Promise<void> {
  await rm(path, { force: true }).catch((error: unknown) => {
    throw unwritable(path, error);
  });
}
