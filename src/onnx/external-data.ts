/** Weights that lie outside the model file: never read, never moved, never let out of their folder. */
import { realpathSync, statSync } from 'node:fs';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { TapirError, reasonOf } from '../errors.js';
import type { ScannedNode } from './scan-graph.js';
import type { ScannedTensor } from './scan-value.js';

/** A tensor whose payload lies in another file. */
export interface ExternalTensor {
  readonly tensor: string;
  /** Path as the model states it, relative to the model's folder. */
  readonly location: string;
}

/** The external tensors among initializers and in the attributes and bodies of nodes. */
export function listExternalTensors(
  nodes: Iterable<ScannedNode>,
  initializers: Iterable<ScannedTensor>,
  found: ExternalTensor[] = [],
): ExternalTensor[] {
  const add = (tensor: ScannedTensor, name: string): void => {
    if (tensor.external) found.push({ tensor: name, location: tensor.external.get('location') ?? '' });
  };
  for (const tensor of initializers) add(tensor, tensor.name);
  for (const node of nodes) {
    for (const { attribute, tensor } of node.tensors)
      add(tensor, `${node.outputs[0] ?? node.name}.${attribute}`);
    for (const body of node.bodies) listExternalTensors(body.graph.nodes, body.graph.initializers, found);
  }
  return found;
}

function unsafe({ tensor, location }: ExternalTensor, reason: string, cause?: unknown): TapirError {
  return new TapirError(
    'EXTERNAL_DATA_UNSAFE',
    `the weights of "${tensor}" are said to lie in "${location}", but ${reason}; get the model from its source again`,
    { details: { location, tensor, reason }, ...(cause === undefined ? {} : { cause }) },
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
  for (const external of tensors) {
    const { location } = external;
    if (location === '' || location === '.') throw unsafe(external, 'that names no file');
    if (location.includes('\0') || location.includes('_ORT_MEM_ADDR_'))
      throw unsafe(external, 'that is no file path');
    if (isAbsolute(location) || /^[a-zA-Z]:|^[\\/]/.test(location)) {
      throw unsafe(external, 'only a path relative to the model is allowed');
    }
    if (location.split(/[\\/]/).includes('..')) throw unsafe(external, "it leaves the model's folder");
    locations.add(location);
  }
  return [...locations];
}

/**
 * Checks the files themselves: each must exist, be a regular file and, links followed, lie in the folder.
 *
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE`.
 */
export function checkExternalFiles(tensors: readonly ExternalTensor[], folder: string): void {
  checkExternalLocations(tensors);
  const seen = new Set<string>();
  for (const external of tensors) {
    if (seen.has(external.location)) continue;
    seen.add(external.location);
    checkExternalFile(external, folder);
  }
}

function checkExternalFile(external: ExternalTensor, folder: string): void {
  const path = resolve(folder, external.location);
  let inside: string;
  try {
    inside = relative(realpathSync(folder), realpathSync(path));
  } catch (error) {
    throw unsafe(external, `there is no such file beside the model (${reasonOf(error)})`, error);
  }
  if (inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside)) {
    throw unsafe(external, "it is a link out of the model's folder");
  }
  const stats = statSync(path);
  if (!stats.isFile()) throw unsafe(external, 'that is not a regular file');
  // A hard link has no target to compare, so a second name of the file cannot be told from an escape.
  if (stats.nlink > 1) throw unsafe(external, 'that file has several names (hard links)');
}
