/** `--overwrite` and `--set weights=…`: how a model is saved; and its transform beside it. */
import type { Command } from 'commander';
import { reasonOf } from '../../base/errors.js';
import { writeWithCompanion } from '../../base/folder-lock.js';
import { chooseTransform, type TransformRequest } from '../../photos/feeds/choose-transform.js';
import { fitSize } from '../../photos/feeds/photo-size.js';
import { sidecarOf } from '../../photos/images/configs/find-transform.js';
import type { Transform } from '../../photos/images/transform/transform.js';
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

/** Writes a model, and its transform beside it, where `findTransform` looks first. */
export function saveWithTransform(
  out: string,
  transform: Transform | undefined,
  overwrite: boolean,
  save: () => Promise<void>,
): Promise<void> {
  if (!transform) return save();
  const text = `${JSON.stringify(transform.options, null, 2)}\n`;
  return writeWithCompanion(sidecarOf(out), Buffer.from(text), overwrite, save);
}
