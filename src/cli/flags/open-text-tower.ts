/** `--text-model`: the text half of the model that is served. */
import { isTapirError } from '../../base/errors.js';
import type { Device } from '../../runtime/lanes/device.js';
import { createTextEncoder, type TextTower } from '../../features/text/text-encoder.js';
import { findTextModels } from './find-text-models.js';
import type { Terminal } from '../terminal/terminal.js';

/**
 * Opens the text tower that a flag names: a file, `none`, or `auto` for one that lies beside the image model. Only a named one of a
 * repository is downloaded.
 *
 * @returns The tower; undefined without one. A tower that `auto` finds and cannot open is a warning.
 * @throws {@link TapirError} of {@link createTextEncoder}, for a path.
 */
export async function openTextTowerFlag(
  { textModel, yes }: { readonly textModel: string; readonly yes: boolean },
  imageModel: string,
  device: Device,
  terminal: Terminal,
): Promise<TextTower | undefined> {
  if (textModel === 'none') return undefined;
  if (textModel !== 'auto')
    return createTextEncoder((await findTextModels({ textModel, yes }, terminal)).textModel!, { device });
  try {
    return await createTextEncoder(imageModel, { device });
  } catch (error) {
    if (!isTapirError(error)) throw error;
    const isMissing = isTapirError(error, 'OPTION_INVALID') && error.details.option === 'textModel';
    if (!isMissing) terminal.err(`warning: the text tower is left out: ${error.message}\n`);
    return undefined;
  }
}
