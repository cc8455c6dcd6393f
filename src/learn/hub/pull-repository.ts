/** Downloads a model from a repository of the Hugging Face hub into the shared cache, and finds it there. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { posix } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import { digestFile } from '../../base/digest.js';
import { TapirError } from '../../base/errors.js';
import { firstAlike } from '../../base/files/portable-name.js';
import { lockFolder } from '../../base/folder-lock.js';
import { makeFolder } from '../../base/make-folder.js';
import { allExternalTensors } from '../../onnx/file/external-data.js';
import { scanModel } from '../../onnx/file/scan/scan.js';
import { openFileSource } from '../../onnx/file/wire/source.js';
import { chooseModelFile, listCompanions, listWeightFiles } from './choose-files.js';
import { checksumMismatch, downloadFile, type DownloadOptions } from './download-file.js';
import {
  addressOf,
  authorizationOf,
  completeFile,
  explainRefusal,
  listRepository,
  type HubAccess,
  type NamedFile,
  type RepositoryFile,
  type RepositoryListing,
} from './hub-api.js';
import { CachedRepository, IS_GIT_HASH } from './hub-cache.js';
import { readHubSettings, type HubSettings } from './hub-settings.js';
import type { KnownModel } from './known-models.js';
import { PartialFile, sizeOfFile } from './partial-file.js';
import { describeFile, type PulledFile, type PulledModel } from './pulled-model.js';
import { formatReference, isRelativePath, type RepositoryReference } from './repository-reference.js';

/** What a download will fetch. */
export interface RepositoryPlan {
  readonly reference: RepositoryReference;
  readonly listing: RepositoryListing;
  /** The model file, its weights, its configurations and its tokenizer. */
  readonly files: readonly NamedFile[];
  /** The files that the cache lacks. */
  readonly missing: readonly RepositoryFile[];
  readonly access: HubAccess;
  readonly cache: CachedRepository;
}

/** Asks the hub for the files of a model, and finds out which of them the cache lacks. Without `folder`, it is the shared cache. */
export async function planRepository(
  reference: RepositoryReference,
  options: DownloadOptions,
  folder?: string,
): Promise<RepositoryPlan> {
  const settings = await readHubSettings();
  if (settings.isOffline) throw offline(reference, folder ?? settings.cacheFolder);
  const access = { settings, options };
  const listing = await listRepository(reference, access);
  const names = listing.files.map(({ name }) => name).filter(isRelativePath);
  const model = chooseModelFile(names, reference).name;
  const wanted = [model, ...listWeightFiles(names, model), ...listCompanions(names, model)];
  checkAlike(wanted, reference);
  const cache = new CachedRepository(folder ?? settings.cacheFolder, reference.repository);
  const files = [];
  const missing = [];
  for (const name of new Set(wanted)) {
    const file = await completeFile(findFile(listing, name)!, reference, listing.commit, access);
    files.push(file);
    if ((await findIntact(cache, listing.commit, file, false)) === null) missing.push(file);
  }
  return { reference, listing, files, missing, access, cache };
}

/** Where case does not count, one file would replace the other. */
function checkAlike(names: readonly string[], reference: RepositoryReference): void {
  const alike = firstAlike(names);
  if (alike !== undefined)
    throw invalidOption(
      'model',
      'a repository whose files differ by more than case',
      `${formatReference(reference)}: ${alike}`,
    );
}

function findFile({ files }: RepositoryListing, name: string): RepositoryFile | undefined {
  return files.find((file) => file.name === name);
}

function offline(reference: RepositoryReference, cacheFolder: string): TapirError {
  const reason = 'HF_HUB_OFFLINE is set, and the model is not in the cache';
  const url = formatReference(reference);
  return new TapirError('DOWNLOAD_FAILED', `cannot download ${url}: ${reason} ("${cacheFolder}")`, {
    details: { url, reason },
  });
}

export interface CachedModel {
  /** Path of the model file. */
  readonly path: string;
  /** The model file's name in the repository, and those of its weights and companions. */
  readonly names: readonly string[];
  readonly commit: string;
  readonly cache: CachedRepository;
}

/**
 * Finds a model in the cache without asking the hub; null if it or its weights are missing.
 *
 * @param isGuess - Whether to choose among the cached files alone, although the repository may hold a better match.
 */
export async function findCachedRepository(
  reference: RepositoryReference,
  isGuess: boolean,
  folder?: string,
): Promise<CachedModel | null> {
  const cache = new CachedRepository(folder ?? (await readHubSettings()).cacheFolder, reference.repository);
  const commit = await cache.readCommit(reference.revision);
  const there = commit === null ? [] : await cache.listFiles(commit);
  if (commit === null || !there.some((name) => name === reference.file || name.endsWith('.onnx')))
    return null;
  // Another variant may be there.
  if (!isGuess && !isSure(there, reference)) return null;
  const { name } = chooseModelFile(there, reference);
  const path = cache.file(commit, name);
  const weights = listStatedWeights(path, name);
  if (!weights.every((other) => there.includes(other))) return null;
  const names = new Set([name, ...weights, ...listCompanions(there, name)]);
  return { path, names: [...names], commit, cache };
}

/** Whether the choice among the cached files is also the choice among all files of the repository. */
function isSure(there: readonly string[], reference: RepositoryReference): boolean {
  try {
    return chooseModelFile(there, reference).isSure;
  } catch {
    return false;
  }
}

/** Reads a model from the cache if `HF_HUB_OFFLINE` is set, else returns null. Throws `DOWNLOAD_FAILED` if it is not there. */
export async function readOffline(
  reference: RepositoryReference,
  folder: string | undefined,
): Promise<PulledModel | null> {
  const settings = await readHubSettings();
  if (!settings.isOffline) return null;
  const cached = await findCachedRepository(reference, true, folder);
  if (cached === null) throw offline(reference, folder ?? settings.cacheFolder);
  const { cache, commit, names, path } = cached;
  const facts = await Promise.all(names.map((name) => describeFile(name, cache.file(commit, name))));
  const files = facts.map((file) => Object.assign(file, { checked: 'first', isNew: false } as const));
  const licence = { spdx: 'not known offline', url: `${settings.endpoint}/${reference.repository}` };
  return { model: describe(reference, commit, licence, files, settings), path, files };
}

/** Lists the weight files that a model names, as paths in the repository. The list of a damaged model is empty. */
function listStatedWeights(path: string, model: string): string[] {
  const source = openFileSource(path);
  try {
    const stated = allExternalTensors(scanModel(source));
    return [...new Set(stated.map(({ location }) => posix.join(posix.dirname(model), location)))];
  } catch {
    // The error appears when the model is opened.
    return [];
  } finally {
    source.close();
  }
}

/** Downloads the missing files of a plan, checks all files, and links them into the snapshot, the model file last. */
export async function pullRepository(plan: RepositoryPlan): Promise<PulledModel> {
  const { cache, listing, reference } = plan;
  await makeFolder(cache.lockFolder);
  await cache.prepare();
  await using _lock = await lockFolder(cache.lockFolder);
  const [first, ...others] = plan.files;
  // The model file names its weight files. Unusual names are known only after it is downloaded.
  const fetched = await fetchBlob(first!, plan);
  const known = new Set(plan.files.map(({ name }) => name));
  for (const name of listStatedWeights(fetched.path, first!.name)) {
    const file = isRelativePath(name) && !known.has(name) ? findFile(listing, name) : undefined;
    if (file) others.push(await completeFile(file, reference, listing.commit, plan.access));
  }
  checkAlike([first!.name, ...others.map(({ name }) => name)], reference);
  const files: PulledFile[] = [];
  for (const file of others) files.push(await nameBlob(file, await fetchBlob(file, plan), plan));
  files.unshift(await nameBlob(first!, fetched, plan));
  await cache.writeCommit(reference.revision, listing.commit);
  const model = describe(reference, listing.commit, listing.licence, files, plan.access.settings);
  return { model, path: files[0]!.path, files };
}

/** A repository's model as an entry of a list. */
function describe(
  { repository }: RepositoryReference,
  commit: string,
  licence: KnownModel['licence'],
  files: readonly PulledFile[],
  settings: HubSettings,
): KnownModel {
  return {
    name: repository,
    description: `${repository} at ${commit}`,
    files: files.map(({ name, sizeBytes, sha256 }) => {
      return { name, sizeBytes, sha256, url: addressOf(repository, commit, name, settings) };
    }),
    licence,
    transform: null,
    inputSize: null,
    nodes: [],
    note: '',
    source: `${settings.endpoint}/${repository}`,
  };
}

/** Where the content of a file lies: in a blob, or under its own name on systems without links. */
interface Fetched {
  readonly path: string;
  readonly isNew: boolean;
}

async function fetchBlob(
  file: NamedFile,
  { reference, listing, access, cache }: RepositoryPlan,
): Promise<Fetched> {
  const intact = await findIntact(cache, listing.commit, file, true);
  if (intact !== null) return { path: intact, isNew: false };
  const { name, etag, sizeBytes } = file;
  const { settings, options } = access;
  const url = addressOf(reference.repository, listing.commit, name, settings);
  const path = cache.blob(etag);
  const partial = new PartialFile(path);
  const sha256 = isSha256(etag) ? etag : null;
  const authorized = { ...options, authorization: authorizationOf(settings) };
  await explainRefusal(reference, settings, () =>
    downloadFile({ name, url, sizeBytes, sha256 }, partial, authorized),
  );
  const actual = await hashOf(partial.path, etag);
  if (actual !== null && actual !== etag) {
    await partial.discard();
    throw checksumMismatch(url, path, etag, actual, { kind: isSha256(etag) ? 'SHA-256' : 'git checksum' });
  }
  await partial.finish();
  return { path, isNew: true };
}

async function nameBlob(
  file: NamedFile,
  { path, isNew }: Fetched,
  { listing, cache }: RepositoryPlan,
): Promise<PulledFile> {
  const { name, etag } = file;
  const named = cache.file(listing.commit, name);
  const sha256 = isSha256(etag) ? etag : await digestFile(path);
  if (path !== named) await cache.link(etag, listing.commit, name, isNew);
  const checked = isSha256(etag) || IS_GIT_HASH.test(etag) ? 'list' : 'first';
  return { ...(await describeFile(name, named, sha256)), checked, isNew };
}

/** Finds the content of a file in the cache; null if it is missing or has another size or checksum. */
async function findIntact(
  cache: CachedRepository,
  commit: string,
  { name, etag, sizeBytes }: NamedFile,
  isHashed: boolean,
): Promise<string | null> {
  for (const path of [cache.blob(etag), cache.file(commit, name)]) {
    const size = await sizeOfFile(path);
    if (size === null || (sizeBytes !== null && size !== sizeBytes)) continue;
    const actual = isHashed ? await hashOf(path, etag) : null;
    if (actual === null || actual === etag) return path;
  }
  return null;
}

function isSha256(etag: string): boolean {
  return /^[0-9a-f]{64}$/.test(etag);
}

/** The checksum of a file in the form of an ETag; null if the ETag is no checksum. */
async function hashOf(path: string, etag: string): Promise<string | null> {
  if (isSha256(etag)) return digestFile(path);
  if (!IS_GIT_HASH.test(etag)) return null;
  const bytes = await readFile(path);
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}
