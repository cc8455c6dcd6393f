/** Weights outside the model file: listed, located, and never read from outside the model's folder. */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, posix, sep } from 'node:path';
import { liesInside } from '../../base/files/lies-inside.js';
import { TapirError, reasonOf } from '../../base/errors.js';
import type { ScannedBodies } from './scan/scan-body.js';
import type { ScannedNode } from './scan/scan-graph.js';
import type { ScannedFunction, ScannedModel } from './scan/scan.js';
import type { ScannedTensor } from './scan/scan-value.js';
import type { Field } from './wire/wire.js';

/** A tensor whose payload lies in another file. */
export interface ExternalTensor {
  /** How messages name it: the initializer, or the attribute of a node. */
  readonly name: string;
  /** Path as the model states it, relative to the model's folder. */
  readonly location: string;
  readonly tensor: ScannedTensor;
  /** The field of the graph or model that contains it: an initializer, a node, a function. */
  readonly owner: Field;
}

/** What may hold tensors. */
interface TensorHolders {
  /** Each is its own owner. */
  readonly initializers: readonly ScannedTensor[];
  /** The owners of the tensors in their attributes and bodies. */
  readonly nodes?: readonly ScannedNode[];
  readonly functions?: Iterable<ScannedFunction>;
}

/** The external tensors of a model, or of a part of it. */
export function listExternal({ initializers, nodes = [], functions = [] }: TensorHolders): ExternalTensor[] {
  const inBodies = (bodies: ScannedBodies | undefined, owner: Field): ExternalTensor[] =>
    bodies?.external.flatMap(({ name, tensor }) => external(tensor, name, owner)) ?? [];
  return [
    ...initializers.flatMap((tensor) => external(tensor, tensor.name, tensor.field)),
    ...nodes.flatMap(({ field, name, outputs, tensors, bodies }) => [
      ...tensors.flatMap(({ attribute, tensor }) =>
        external(tensor, `${outputs[0] ?? name}.${attribute}`, field),
      ),
      ...inBodies(bodies, field),
    ]),
    ...[...functions].flatMap(({ content, field }) => inBodies(content, field)),
  ];
}

function external(tensor: ScannedTensor, name: string, owner: Field): ExternalTensor[] {
  if (tensor.parts) return tensor.parts.flatMap((part) => external(part, name, owner));
  const location = tensor.external?.get('location') ?? '';
  return tensor.external ? [{ name, location, tensor, owner }] : [];
}

/** All external tensors of a model. */
export function allExternalTensors({ graph, functions }: ScannedModel): ExternalTensor[] {
  return listExternal({ ...graph, functions });
}

/** The error for weights that cannot be used. */
export function unsafeWeights(
  { name, location }: ExternalTensor,
  reason: string,
  cause?: unknown,
): TapirError {
  return new TapirError(
    'EXTERNAL_DATA_UNSAFE',
    `the model states that the weights of "${name}" lie in "${location}", but ${reason}; get the model from its source again`,
    { details: { location, tensor: name, reason }, cause },
  );
}

/**
 * Checks the stated paths before any weight is needed; the files need not exist yet.
 *
 * @param folder - The model's folder. A path that climbs out of it, and comes back, can only be checked with it.
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE` for a path that is absolute, leaves the folder, or is a memory address.
 */
export function checkExternalLocations(tensors: readonly ExternalTensor[], folder?: string): void {
  const seen = new Set<string>();
  for (const item of tensors) {
    if (seen.has(item.location)) continue;
    seen.add(item.location);
    checkPath(item);
    if (!climbsOut(item.location)) continue;
    if (folder === undefined) throw unsafeWeights(item, "it leaves the model's folder");
    findFile(item, folder);
  }
}

function checkPath(item: ExternalTensor): void {
  const { location } = item;
  if (location === '' || location === '.') throw unsafeWeights(item, 'that names no file');
  if (location.includes('\0') || location.includes('_ORT_MEM_ADDR_'))
    throw unsafeWeights(item, 'that is not a file path');
  if (isAbsolute(location) || /^[a-zA-Z]:|^[\\/]/.test(location))
    throw unsafeWeights(item, 'only a path relative to the model is allowed');
}

/** Whether a path leaves its folder by its text alone, links not followed. */
function climbsOut(location: string): boolean {
  return /^\.\.(\/|$)/.test(posix.normalize(location.replaceAll('\\', '/')));
}

/** Where the files of external tensors are. */
export interface ExternalFiles {
  /** The folder that contains all of them, links followed. */
  readonly folder: string;
  /** The real path of a file, by its stated location. */
  readonly pathOf: ReadonlyMap<string, string>;
}

/**
 * Finds the files themselves. Each must exist, be a regular file and, links followed, lie in the model's folder. In a
 * Hugging Face cache (`snapshots/REVISION/model.onnx`), links may lead to its `blobs`, and to those that repositories share.
 *
 * @param folder - The model's folder; undefined for one that was opened from bytes.
 * @returns undefined if there are no such tensors.
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE`, also without a folder.
 */
export function findExternalFiles(
  tensors: readonly ExternalTensor[],
  folder: string | undefined,
): ExternalFiles | undefined {
  const [first] = tensors;
  if (!first) return undefined;
  if (folder === undefined) {
    const { name, location } = first;
    const reason = 'the model was opened from bytes, so its folder is unknown';
    throw new TapirError(
      'EXTERNAL_DATA_UNSAFE',
      `the weights of "${name}" are in "${location}", but ${reason}; open it by path`,
      { details: { location, tensor: name, reason } },
    );
  }
  const root = realpathSync.native(folder);
  const cache = cacheOf(root);
  const pathOf = new Map<string, string>();
  let commonFolder = root;
  for (const item of tensors) {
    if (pathOf.has(item.location)) continue;
    checkPath(item);
    const path = findFile(item, folder);
    for (const wider of cache === undefined ? [] : [cache, dirname(cache)])
      if (!liesInside(commonFolder, path)) commonFolder = wider;
    pathOf.set(item.location, path);
  }
  return { folder: commonFolder, pathOf };
}

/**
 * The path at which the system finds a stated location. The parts are not normalised: if `inner` is a link, `inner/..` is
 * the parent of the link's target, for ONNX Runtime too.
 */
export function locateExternal(folder: string, location: string): string {
  return `${folder}${sep}${location}`;
}

/** The real path of a tensor's file. */
function findFile(item: ExternalTensor, folder: string): string {
  let path: string;
  try {
    // Not realpathSync itself, which normalises the path before it follows links.
    path = realpathSync.native(locateExternal(folder, item.location));
  } catch (error) {
    throw unsafeWeights(item, `there is no such file beside the model (${reasonOf(error)})`, error);
  }
  const root = realpathSync.native(folder);
  const cache = cacheOf(root);
  const isBlob = cache !== undefined && !climbsOut(item.location) && isBlobOf(cache, path);
  if (!liesInside(root, path) && !isBlob) throw unsafeWeights(item, "it leaves the model's folder");
  const stats = statSync(path);
  if (!stats.isFile()) throw unsafeWeights(item, 'that is not a regular file');
  // Hard links are equals: the second name may lie outside the folder, and nothing shows it.
  if (stats.nlink > 1) throw unsafeWeights(item, 'that file has several names (hard links)');
  return path;
}

/** Whether a file is a blob of a repository's cache, or of the store that the repositories of a cache share. */
function isBlobOf(cache: string, path: string): boolean {
  const shared = join(dirname(cache), 'blobs');
  const isShared = liesInside(shared, path) && existsSync(join(shared, '.huggingface-shared-blobs'));
  return isShared || liesInside(join(cache, 'blobs'), path);
}

/** The root of the Hugging Face cache in which a folder is a snapshot: it contains `snapshots` and `blobs`. */
function cacheOf(folder: string): string | undefined {
  for (let at = folder, parent = dirname(at); parent !== at; at = parent, parent = dirname(at)) {
    if (basename(parent) !== 'snapshots') continue;
    const root = dirname(parent);
    return statSync(join(root, 'blobs'), { throwIfNoEntry: false })?.isDirectory() ? root : undefined;
  }
  return undefined;
}
