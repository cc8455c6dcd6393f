/** Weights that lie outside the model file: found, checked, and never let out of their folder. */
import { realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { TapirError, reasonOf } from '../base/errors.js';
import { liesInside } from '../base/lies-inside.js';
import type { ScannedNode } from './scan-graph.js';
import type { ScannedTensor } from './scan-value.js';
import type { Field } from './wire.js';

/** A tensor whose payload lies in another file. */
export interface ExternalTensor {
  /** How messages name it: the initializer, or the attribute of a node. */
  readonly name: string;
  /** Path as the model states it, relative to the model's folder. */
  readonly location: string;
  readonly tensor: ScannedTensor;
  /** The field of the graph, or of the model, in which it lies: an initializer, a node, a function. */
  readonly owner: Field;
}

/** The external tensors among initializers, each an owner of its own. */
export function listExternalInitializers(initializers: Iterable<ScannedTensor>): ExternalTensor[] {
  return [...initializers].flatMap((tensor) => external(tensor, tensor.name, tensor.field));
}

/** The external tensors in the attributes and bodies of nodes; `owner` if the nodes themselves are none. */
export function listExternalInNodes(
  nodes: Iterable<ScannedNode>,
  owner?: Field,
  found: ExternalTensor[] = [],
): ExternalTensor[] {
  for (const node of nodes) {
    const within = owner ?? node.field;
    for (const { attribute, tensor } of node.tensors)
      found.push(...external(tensor, `${node.outputs[0] ?? node.name}.${attribute}`, within));
    for (const { graph } of node.bodies) {
      for (const tensor of graph.initializers) found.push(...external(tensor, tensor.name, within));
      listExternalInNodes(graph.nodes, within, found);
    }
  }
  return found;
}

function external(tensor: ScannedTensor, name: string, owner: Field): ExternalTensor[] {
  if (tensor.parts) return tensor.parts.flatMap((part) => external(part, name, owner));
  const location = tensor.external?.get('location') ?? '';
  return tensor.external ? [{ name, location, tensor, owner }] : [];
}

function unsafe({ name, location }: ExternalTensor, reason: string, cause?: unknown): TapirError {
  return new TapirError(
    'EXTERNAL_DATA_UNSAFE',
    `the weights of "${name}" are said to lie in "${location}", but ${reason}; get the model from its source again`,
    { details: { location, tensor: name, reason }, ...(cause === undefined ? {} : { cause }) },
  );
}

/**
 * Checks the stated paths alone, without touching a file.
 *
 * @returns The distinct locations, in order of first use.
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE` for a path that is absolute, climbs out, or is a memory tag.
 */
export function checkExternalLocations(tensors: readonly ExternalTensor[]): string[] {
  const locations = new Set<string>();
  for (const item of tensors) {
    const { location } = item;
    if (location === '' || location === '.') throw unsafe(item, 'that names no file');
    if (location.includes('\0') || location.includes('_ORT_MEM_ADDR_'))
      throw unsafe(item, 'that is no file path');
    if (isAbsolute(location) || /^[a-zA-Z]:|^[\\/]/.test(location)) {
      throw unsafe(item, 'only a path relative to the model is allowed');
    }
    if (location.split(/[\\/]/).includes('..')) throw unsafe(item, "it leaves the model's folder");
    locations.add(location);
  }
  return [...locations];
}

/** Where the files of external tensors are. */
export interface ExternalFiles {
  /** The folder in which all of them really lie, links followed. */
  readonly folder: string;
  /** The file by stated location: its real path. */
  readonly pathOf: ReadonlyMap<string, string>;
}

/**
 * Finds the files themselves: each must exist, be a regular file and, links followed, lie in the model's folder. In a
 * Hugging Face cache (`snapshots/REVISION/model.onnx`), they may be links to its `blobs`.
 *
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE`.
 */
export function findExternalFiles(tensors: readonly ExternalTensor[], folder: string): ExternalFiles {
  checkExternalLocations(tensors);
  const pathOf = new Map<string, string>();
  let allIn = realpathSync(folder);
  const cache = cacheOf(folder);
  for (const item of tensors) {
    if (pathOf.has(item.location)) continue;
    const path = realPathOf(item, folder);
    if (!liesInside(realpathSync(folder), path)) {
      if (!cache || !liesInside(join(cache, 'blobs'), path))
        throw unsafe(item, "it is a link out of the model's folder");
      allIn = cache;
    }
    pathOf.set(item.location, path);
  }
  return { folder: allIn, pathOf };
}

function realPathOf(item: ExternalTensor, folder: string): string {
  let path: string;
  try {
    path = realpathSync(resolve(folder, item.location));
  } catch (error) {
    throw unsafe(item, `there is no such file beside the model (${reasonOf(error)})`, error);
  }
  const stats = statSync(path);
  if (!stats.isFile()) throw unsafe(item, 'that is not a regular file');
  // A hard link has no target to compare, so a second name of the file cannot be told from an escape.
  if (stats.nlink > 1) throw unsafe(item, 'that file has several names (hard links)');
  return path;
}

/** The root of the Hugging Face cache that a folder is a snapshot of: it holds `snapshots` and `blobs`. */
function cacheOf(folder: string): string | undefined {
  let at = realpathSync(folder);
  for (let parent = dirname(at); parent !== at; at = parent, parent = dirname(at)) {
    if (basename(parent) !== 'snapshots') continue;
    const root = dirname(parent);
    return statSync(join(root, 'blobs'), { throwIfNoEntry: false })?.isDirectory() ? root : undefined;
  }
  return undefined;
}

/** Where the payload of an external tensor lies in its file. */
export interface PayloadRange {
  readonly path: string;
  readonly start: number;
  readonly end: number;
}

/** Bits per element by ONNX's element type; strings cannot lie outside. */
const BITS: Readonly<Record<number, number>> = {
  1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16,
  17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
}; // prettier-ignore

/**
 * The range of a tensor's payload, checked against the tensor's size and the file's.
 *
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE` if offset or length do not fit.
 */
export function payloadRange(item: ExternalTensor, { pathOf }: ExternalFiles): PayloadRange {
  const { tensor, location } = item;
  const path = pathOf.get(location)!;
  const bits = BITS[tensor.elemType];
  const elements = tensor.dims.reduce((product, size) => product * size, 1);
  if (bits === undefined || tensor.dims.some((size) => size < 0) || !Number.isSafeInteger(elements * bits))
    throw unsafe(
      item,
      `a tensor of type ${tensor.elemType} and dims [${tensor.dims.join(', ')}] has no size`,
    );
  const wanted = Math.ceil((elements * bits) / 8);
  const start = readOffset(item, 'offset') ?? 0;
  const length = readOffset(item, 'length') ?? wanted;
  if (length !== wanted) throw unsafe(item, `its length is ${length} bytes, and the tensor has ${wanted}`);
  const { size } = statSync(path);
  if (start + length > size)
    throw unsafe(item, `it ends at byte ${start + length}, and the file has ${size}`);
  return { path, start, end: start + length };
}

function readOffset(item: ExternalTensor, key: 'offset' | 'length'): number | undefined {
  const text = item.tensor.external?.get(key);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
  throw unsafe(item, `its ${key} "${text}" is no number of bytes`);
}
