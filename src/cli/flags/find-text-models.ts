/** The models that embed texts, as a user names them. The text tower and tokenizer of a repository are downloaded on first use. */
import { existsSync } from 'node:fs';
import { posix, sep } from 'node:path';
import { TapirError } from '../../base/errors.js';
import { readHubSettings } from '../../learn/hub/hub-settings.js';
import { PULL_DEFAULTS } from '../../learn/hub/pull-model.js';
import {
  findCachedRepository,
  planRepository,
  type RepositoryPlan,
} from '../../learn/hub/pull-repository.js';
import {
  formatReference,
  isRepositoryReference,
  parseRepositoryReference,
} from '../../learn/hub/repository-reference.js';
import { listTextTowers } from '../../products/features/text/text-tower.js';
import { tokenizerInvalid } from '../../products/features/text/tokenizer/tokenizer.js';
import type { Terminal } from '../terminal/terminal.js';
import { findModelFile, locateInRepository, pullLocated, type LocatedModel } from './find-model.js';

export interface TextModelFlags {
  readonly model?: string;
  readonly textModel?: string;
  readonly yes: boolean;
}

/** Paths of the models: one of them. */
export interface TextModels {
  /** The image model, with its text tower beside it. */
  readonly model: string | undefined;
  readonly textModel: string | undefined;
}

/**
 * Finds the text tower that is given; else the image model, and the text tower beside it. A text tower of a repository has the
 * commit of its image model, and is downloaded with its tokenizer, as {@link findModelFile} downloads models.
 */
export async function findTextModels(
  { model, textModel, yes }: TextModelFlags,
  terminal: Terminal,
): Promise<TextModels> {
  const given = textModel ?? model;
  if (given === undefined) return { model, textModel };
  const path = isOfRepository(given)
    ? await findInRepository(given, textModel === undefined, terminal, yes)
    : await findModelFile(given, terminal, yes);
  return textModel === undefined ? { model: path, textModel } : { model: undefined, textModel: path };
}

function isOfRepository(given: string): boolean {
  return !existsSync(given) && isRepositoryReference(given);
}

/** Returns the path of the image model if that is needed, else that of the text tower. */
async function findInRepository(
  given: string,
  needsImageModel: boolean,
  terminal: Terminal,
  isAgreed: boolean,
): Promise<string> {
  const located = await locateInRepository(parseRepositoryReference(given), terminal);
  const model = needsImageModel ? await pullLocated(located, terminal, isAgreed) : undefined;
  const tower = await findTower(located.reference, terminal, isAgreed);
  return model ?? tower;
}

/** Finds the text tower that belongs to a model of a repository; the model itself if its name tells of no other. */
async function findTower(
  model: LocatedModel['reference'],
  terminal: Terminal,
  isAgreed: boolean,
): Promise<string> {
  const beside = listTextTowers(model.file).map((file) => file.split(sep).join('/'));
  const files = beside.length > 0 ? beside : [model.file];
  const { isOffline } = await readHubSettings();
  for (const file of files) {
    const cached = await findCachedRepository({ ...model, file }, false);
    // Other programs may have downloaded the tower alone. Offline, its tokenizer is read as it is.
    if (cached && (isOffline || isComplete(file, cached.names))) return cached.path;
  }
  const located = await planFirst(model, files, terminal);
  const { file } = located.reference;
  const names = located.place.files.map(({ name }) => name);
  if (!hasBeside(file, 'tokenizer.json', names))
    throw tokenizerInvalid(
      formatReference(located.reference),
      `the repository has no tokenizer.json in the folder of ${file} or one folder up`,
    );
  return pullLocated(located, terminal, isAgreed);
}

/** Asks the hub for the first of some text towers that the repository has. */
async function planFirst(
  model: LocatedModel['reference'],
  files: readonly string[],
  terminal: Terminal,
): Promise<LocatedModel & { readonly place: RepositoryPlan }> {
  let failure: unknown;
  for (const file of files) {
    const reference = { ...model, file };
    try {
      const place = await planRepository(reference, { ...PULL_DEFAULTS, signal: terminal.signal });
      return { reference, place };
    } catch (error) {
      if (!(error instanceof TapirError && error.code === 'NAME_NOT_FOUND')) throw error;
      failure ??= error;
    }
  }
  throw failure;
}

/** The files without which a repository is asked whether it has more. */
const USUAL = ['tokenizer.json', 'tokenizer_config.json', 'config.json'];

function isComplete(tower: string, names: readonly string[]): boolean {
  return USUAL.every((name) => hasBeside(tower, name, names));
}

/** Whether a file lies where text towers look for it: in their folder, or one folder up. */
function hasBeside(tower: string, file: string, names: readonly string[]): boolean {
  const folder = posix.dirname(tower);
  return [folder, posix.dirname(folder)].some((place) => names.includes(posix.join(place, file)));
}
