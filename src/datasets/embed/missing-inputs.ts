/** Inputs of a dataset that the source no longer has: which of them are gone. */
import { existsSync } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { invalidSource } from '../sources/items/source-errors.js';
import { readPattern } from '../sources/folders/pattern.js';
import { isImageName } from '../../photos/images/decode/image-names.js';
import { spanOf, type ClipPlan } from '../../photos/images/transform/clip-options.js';
import type { MetadataRow } from '../formats/metadata.js';
import type { SourceDescription } from '../sources/open-source.js';

/** How inputs are marked as removed. */
export interface Removal {
  /** For messages. */
  readonly source: string;
  /** Whether an input that the source does not list is gone. */
  readonly isGone: (input: MissingInput) => Promise<boolean>;
}

/** An input of the dataset that the source does not list. */
export interface MissingInput extends Pick<MetadataRow, 'path' | 'clipStart'> {
  /** Of a clip: the source has the first clip of its folder or file, so it was read, and gives no frames for this one. */
  readonly isShorter: boolean;
}

/** Files of a folder or pattern are gone if they do not exist. Lists, archives and streams say themselves what exists. */
export function planRemoval({ kind, location }: SourceDescription, clips: ClipPlan | undefined): Removal {
  const source = location ?? 'the source';
  const isOnDisk = location !== null && (kind === 'folder' || kind === 'glob');
  if (!isOnDisk) return { source, isGone: () => Promise.resolve(true) };
  const root = resolve(kind === 'glob' ? readPattern(location).base : location);
  return {
    source,
    isGone: async ({ path, clipStart, isShorter }) => {
      const file = join(root, path ?? '');
      if (clipStart === null || !clips) return isGone(root, path ?? '');
      const frames = await countImages(file);
      // A pattern may leave out frames that exist.
      if (isShorter && (kind === 'folder' || frames === undefined)) return true;
      return frames === undefined ? isGone(root, path ?? '') : frames < clipStart + spanOf(clips);
    },
  };
}

/** The number of files in a folder that are called like images; undefined for what is no folder that can be read. */
async function countImages(folder: string): Promise<number | undefined> {
  const names = await readdir(folder).catch(() => undefined);
  return names?.filter(isImageName).length;
}

/**
 * A file that exists is not gone, whatever the listing says, and neither is a file in a folder that cannot be read or behind a link that leads
 * nowhere (an unmounted disk). A folder that could not be read is an input, too, as long as it is listed.
 */
async function isGone(root: string, name: string): Promise<boolean> {
  if (name.endsWith('/')) return true;
  const file = join(root, name);
  for (let place = file; place !== dirname(root); place = dirname(place)) {
    try {
      await lstat(place);
    } catch (error) {
      if (isMissing(error)) continue;
      return false;
    }
    // Follows links.
    return place !== file && existsSync(place);
  }
  return false;
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Makes the error for a source that has no image of the dataset: an unmounted disk, or another folder. */
export function noneFound(source: string, held: number): Error {
  return invalidSource(
    source,
    `it has none of the ${held} images of the dataset, so none is marked as removed; check that the source is the right one and mounted, run without option "removeMissing", or replace the dataset (option "overwrite")`,
  );
}
