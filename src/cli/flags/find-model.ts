/** What a user gave as a model: a file, or the name of a known model in the cache. */
import { existsSync } from 'node:fs';
import { TapirError } from '../../base/errors.js';
import { readModelList } from '../../hub/known-models.js';
import { findCachedModel } from '../../hub/model-cache.js';

/**
 * The path of a model file. A file of that path comes first; what is neither a file nor a known name is returned as it is.
 *
 * @throws {@link TapirError} `MODEL_UNREADABLE` for a known model that has not been pulled.
 */
export async function findModelFile(given: string): Promise<string> {
  if (existsSync(given)) return given;
  const model = (await readModelList()).find(({ name }) => name === given);
  if (!model) return given;
  const cached = await findCachedModel(model);
  if (cached !== null) return cached;
  const reason = `it is not downloaded yet: tapir models pull ${given}`;
  throw new TapirError('MODEL_UNREADABLE', `no file "${given}", and of the known model, ${reason}`, {
    details: { source: given, reason },
  });
}
