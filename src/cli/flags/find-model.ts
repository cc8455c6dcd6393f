/** A model as a user names it: a file, or a known model in the cache. */
import { existsSync } from 'node:fs';
import { TapirError } from '../../base/errors.js';
import { nearestNames } from '../../base/nearest-names.js';
import { readModelList } from '../../hub/known-models.js';
import { findCachedModel } from '../../hub/model-cache.js';

/**
 * Finds the path of a model file. A file of that name takes precedence over a known model.
 *
 * @throws {@link TapirError} `MODEL_UNREADABLE` if there is neither, or if the known model has not been pulled.
 */
export async function findModelFile(given: string): Promise<string> {
  if (existsSync(given)) return given;
  const models = await readModelList();
  const model = models.find(({ name }) => name === given);
  const cached = model && (await findCachedModel(model));
  if (cached) return cached;
  const near = nearestNames(
    given,
    models.map(({ name }) => name),
  ).map((name) => `"${name}"`);
  const reason = model
    ? `the known model of that name is not downloaded yet: tapir models pull ${given}`
    : `no known model has that name${near.length > 0 ? ` (nearest: ${near.join(', ')})` : ''}: tapir models list`;
  throw new TapirError('MODEL_UNREADABLE', `there is no file "${given}", and ${reason}`, {
    details: { source: given, reason },
  });
}
