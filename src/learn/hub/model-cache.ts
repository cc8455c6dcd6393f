/** Where downloaded models lie. */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { writeAtomically } from '../../base/atomic-file.js';
import { defaultCacheFolder } from '../../base/cache-folder.js';
import { encodeModelSettings, readModelSettings, settingsPath } from '../../run/model/open/model-settings.js';
import type { KnownModel } from './known-models.js';
import { sizeOfFile } from './partial-file.js';

/** Returns the folder of a model, which need not exist. */
export function modelFolder(name: string, folder: string | undefined): string {
  return join(folder ?? join(defaultCacheFolder(), 'models'), name);
}

/**
 * Returns the path of a downloaded model; null if one of its files is missing or has another size. Checksums are compared only
 * when a model is pulled.
 */
export async function findCachedModel(model: KnownModel, folder?: string): Promise<string | null> {
  const place = modelFolder(model.name, folder);
  for (const { name, sizeBytes } of model.files) {
    const size = await sizeOfFile(join(place, name));
    if (size === null || (sizeBytes !== null && size !== sizeBytes)) return null;
  }
  return join(place, model.files[0]!.name);
}

/**
 * Writes a model's transform into its own file, where `findTransform` looks first; what else that file states stays. Throws
 * `OUTPUT_UNWRITABLE`, `SETTINGS_INVALID`.
 */
export async function saveTransform({ transform }: KnownModel, model: string): Promise<void> {
  if (transform === null) return;
  const own = readModelSettings(model);
  if (own && isDeepStrictEqual(own.transform, transform)) return;
  await writeAtomically(settingsPath(model), encodeModelSettings({ ...own, transform }));
}
