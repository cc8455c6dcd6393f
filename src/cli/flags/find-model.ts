/** A model as a user names it: a file, a known model in the cache, or a model of a repository. */
import { existsSync } from 'node:fs';
import { TapirError } from '../../base/errors.js';
import { nearestNames } from '../../base/nearest-names.js';
import { readHubSettings } from '../../hub/hub-settings.js';
import { readModelList } from '../../hub/known-models.js';
import { findCachedModel, saveTransform } from '../../hub/model-cache.js';
import { findCachedRepository, planRepository } from '../../hub/pull-repository.js';
import { PULL_DEFAULTS } from '../../hub/pull-model.js';
import { isRepositoryReference, parseRepositoryReference } from '../../hub/repository-reference.js';
import type { Terminal } from '../terminal/terminal.js';
import { pullPlanned, showPlan } from './pull-model.js';

/** The flag that answers the question before a download. */
export const YES_FLAG = '--yes';
export const YES_HELP = 'download a model of a repository (--model hf:ORG/REPO) without asking';

/**
 * Finds the path of a model file. A file of that name takes precedence over a known model. A model of a repository
 * (`hf:ORG/REPO[@REVISION][#FILE]`) that is not in the cache is downloaded, after its size and licence are printed, if the user
 * agrees.
 *
 * @param terminal - Where to ask; without one, nothing is downloaded.
 * @param isAgreed - Whether the user has agreed already (`--yes`).
 * @throws {@link TapirError} `MODEL_UNREADABLE` if there is no such model here, with the command that downloads it;
 * `DOWNLOAD_FAILED`.
 */
export async function findModelFile(given: string, terminal?: Terminal, isAgreed = false): Promise<string> {
  if (existsSync(given)) return given;
  return isRepositoryReference(given) ? findInRepository(given, terminal, isAgreed) : findKnown(given);
}

async function findKnown(given: string): Promise<string> {
  const models = await readModelList();
  const model = models.find(({ name }) => name === given);
  const cached = model && (await findCachedModel(model));
  if (cached) {
    // An older version of this package may have pulled it without its transform. The folder may be read-only.
    await saveTransform(model, cached).catch(() => undefined);
    return cached;
  }
  const near = nearestNames(
    given,
    models.map(({ name }) => name),
  ).map((name) => `"${name}"`);
  const reason = model
    ? `the known model of that name is not downloaded yet: tapir models pull ${given}`
    : `no known model has that name${near.length > 0 ? ` (nearest: ${near.join(', ')})` : ''}: tapir models list`;
  throw unreadable(given, `there is no file "${given}", and ${reason}`, reason);
}

async function findInRepository(
  given: string,
  terminal: Terminal | undefined,
  isAgreed: boolean,
): Promise<string> {
  const reference = parseRepositoryReference(given);
  const { isOffline } = await readHubSettings();
  const cached = await findCachedRepository(reference, isOffline);
  if (cached) return cached.path;
  if (!terminal) throw notPulled(given);
  const plan = await planRepository(reference, { ...PULL_DEFAULTS, signal: terminal.signal });
  if (plan.missing.length > 0) {
    showPlan(terminal, plan);
    if (!isAgreed && !(await terminal.confirm('Download it?'))) throw notPulled(given);
  } else {
    // A cache that is complete may be read-only.
    const revision = plan.listing.commit;
    const complete = await findCachedRepository({ ...reference, revision, file: plan.files[0]!.name }, true);
    if (complete) return complete.path;
  }
  return (await pullPlanned(terminal, plan)).path;
}

function notPulled(given: string): TapirError {
  const command = `tapir models pull ${given.includes('#') ? `'${given}'` : given}`;
  const reason = `it is not downloaded yet: run "${command}", or add ${YES_FLAG}`;
  return unreadable(given, `cannot open the model "${given}": ${reason}`, reason);
}

function unreadable(source: string, message: string, reason: string): TapirError {
  return new TapirError('MODEL_UNREADABLE', message, { details: { source, reason } });
}
