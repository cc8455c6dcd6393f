/** `--overwrite` and `--set weights=…`: how a model is saved; and its own file beside it. */
import type { Command } from 'commander';
import { reasonOf } from '../../base/errors.js';
import { writeWithCompanion } from '../../base/folder-lock.js';
import { chooseTransform, type TransformRequest } from '../../photos/feeds/choose-transform.js';
import { fitSize } from '../../photos/feeds/photo-size.js';
import type { Transform } from '../../photos/images/transform/transform.js';
import {
  encodeModelSettings,
  settingsOf,
  settingsPath,
  type ModelSettings,
} from '../../run/model/open/model-settings.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { SAVE_FIELDS } from '../../run/model/open/save-whole.js';
import type { Terminal } from '../terminal/terminal.js';
import { addFlags } from './option-flags.js';
import { addSettings } from './settings.js';

export function addSaveFlags(command: Command): Command {
  addSettings(command, SAVE_FIELDS, ['weights']);
  return addFlags(command, SAVE_FIELDS, { overwrite: '--overwrite' });
}

/**
 * The transform of a model, or the one that is asked for, for the model that is made of it; undefined if it has none, or one that cannot
 * be read. Throws those of {@link chooseTransform} for one that is asked for.
 *
 * @param opened - The model, for a request of another size.
 */
export function readOwnTransform(
  terminal: Terminal,
  model: string,
  out: string,
  request: TransformRequest = 'auto',
  opened?: OnnxModel,
): Transform | undefined {
  try {
    const { transform, size } = chooseTransform(request, model, () => undefined);
    return transform && opened && size !== undefined ? fitSize(transform, size, opened) : transform;
  } catch (error) {
    if (request !== 'auto') throw error;
    terminal.err(`note: no transform is written beside ${out}: ${reasonOf(error)}\n`);
    return undefined;
  }
}

/**
 * What the file of a model that is made of another one states: the transform; and of the other's own file, what holds for both.
 *
 * @param kept - Keys of the other's file that hold: `labels` if the first output is the same, `dynamicBatch` for the same graph.
 */
export function settingsFor(
  transform: Transform | undefined,
  other: unknown,
  kept: readonly (keyof ModelSettings)[],
): ModelSettings {
  const own: ModelSettings = settingsOf(other) ?? {};
  const held = Object.fromEntries(kept.map((key) => [key, own[key]])) as ModelSettings;
  return { ...held, ...(transform && { transform: { ...transform.options } }) };
}

/** Writes a model, and its own file beside it unless that would be empty. */
export function saveWithSettings(
  out: string,
  settings: ModelSettings,
  overwrite: boolean,
  save: () => Promise<void>,
): Promise<void> {
  if (Object.values(settings).every((value) => value === undefined)) return save();
  return writeWithCompanion(settingsPath(out), encodeModelSettings(settings), overwrite, save);
}
