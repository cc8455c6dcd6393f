/** A model as a user names it: a file, a known model in the cache, or a model of a repository. */
import { existsSync } from 'node:fs';
import { TapirError } from '../../base/errors.js';
import { modelFile } from '../../base/package.js';
import { nearestNames } from '../../base/nearest-names.js';
import { readHubSettings } from '../../learn/hub/hub-settings.js';
import { readModelList } from '../../learn/hub/known-models.js';
import { findCachedModel, saveTransform } from '../../learn/hub/model-cache.js';
import {
  findCachedRepository,
  planRepository,
  type RepositoryPlan,
} from '../../learn/hub/pull-repository.js';
import { PULL_DEFAULTS } from '../../learn/hub/pull-model.js';
import {
  formatReference,
  isRepositoryReference,
  parseRepositoryReference,
  type RepositoryReference,
} from '../../learn/hub/repository-reference.js';
import type { Terminal } from '../terminal/terminal.js';
import { pullPlanned, showPlan } from './pull-model.js';

export const MODEL_HELP =
  'ONNX file, "demo" (a small model of the package), a name of "tapir models list", or hf:ORG/REPO[@REVISION][#FILE]';
/** The flag that answers the question before a download. */
export const YES_FLAG = '--yes';
export const YES_HELP = 'download a model of a repository (--model hf:ORG/REPO) without asking';

/**
 * Finds the path of a model file. A file of that name takes precedence over a known model. A model of a repository
 * (`hf:ORG/REPO[@REVISION][#FILE]`) that is not in the cache is downloaded, after its size and licence are printed, if the user
 * agrees.
 *
 * @param isAgreed - Whether the user has agreed already (`--yes`).
 * @throws {@link TapirError} `MODEL_UNREADABLE` if there is no such model here, with the command that downloads it;
 * `DOWNLOAD_FAILED`.
 */
export async function findModelFile(given: string, terminal: Terminal, isAgreed = false): Promise<string> {
  const path = modelFile(given);
  if (existsSync(path)) return path;
  // Awaited, so that its errors have the caller in their stacks.
  if (!isRepositoryReference(given)) return await findKnown(given);
  const located = await locateInRepository(parseRepositoryReference(given), terminal);
  return pullLocated(located, terminal, isAgreed);
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

/** Flags of most commands. */
export interface CommonFlags {
  readonly yes: boolean;
  readonly json: boolean;
}

/** A model of a repository: in the cache, or what a download will fetch. */
export interface LocatedModel {
  /** The model file, at a commit. */
  readonly reference: RepositoryReference & { readonly file: string };
  /** Its path in the cache, or the download. */
  readonly place: string | RepositoryPlan;
}

/** Finds a model of a repository in the cache; else asks the hub for its files, and downloads nothing. */
export async function locateInRepository(
  reference: RepositoryReference,
  terminal: Terminal,
): Promise<LocatedModel> {
  const { isOffline } = await readHubSettings();
  const cached = await findCachedRepository(reference, isOffline);
  if (cached) return { reference: at(reference, cached.commit, cached.names[0]!), place: cached.path };
  const plan = await planRepository(reference, { ...PULL_DEFAULTS, signal: terminal.signal });
  return { reference: at(reference, plan.listing.commit, plan.files[0]!.name), place: plan };
}

function at(reference: RepositoryReference, commit: string, file: string): LocatedModel['reference'] {
  return { ...reference, revision: commit, file, variant: undefined };
}

/** Downloads what the cache lacks of a model, if the user agrees. Returns the path of the model file. */
export async function pullLocated(
  { reference, place }: LocatedModel,
  terminal: Terminal,
  isAgreed: boolean,
): Promise<string> {
  if (typeof place === 'string') return place;
  if (place.missing.length > 0) {
    showPlan(terminal, place);
    if (!isAgreed && !(await terminal.confirm('Download it?'))) throw notPulled(place.reference);
  } else {
    // A cache that is complete may be read-only.
    const complete = await findCachedRepository(reference, true);
    if (complete) return complete.path;
  }
  return (await pullPlanned(terminal, place)).path;
}

function notPulled(reference: RepositoryReference): TapirError {
  const given = formatReference(reference);
  const command = `tapir models pull ${given.includes('#') ? `'${given}'` : given}`;
  const reason = `it is not downloaded yet: run "${command}", or add ${YES_FLAG}`;
  return unreadable(given, `cannot open the model "${given}": ${reason}`, reason);
}

function unreadable(source: string, message: string, reason: string): TapirError {
  return new TapirError('MODEL_UNREADABLE', message, { details: { source, reason } });
}
