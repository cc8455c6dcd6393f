/** A folder per class, as torchvision's ImageFolder takes it. */
import { counted } from '../../../base/printable.js';
import { readdir } from 'node:fs/promises';
import { checkText } from '../../../base/checks.js';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { createRandom, seedOf, shuffled } from '../../../base/random.js';
import { compareBytes, listImages } from '../../../datasets/sources/folders/list-folder.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { describeUnread, UnreadFiles } from '../../../datasets/sources/items/unread-files.js';

/** An image and its class. */
export interface ClassImage extends SourceItem {
  /** Relative to the folder of classes, with `/`: `cat/1.jpg`. */
  readonly path: string;
  /** Index of its class. */
  readonly label: number;
}

/** The images of a folder by class. */
export interface ClassFolders {
  /** Names of the class folders, in the order of their bytes. */
  readonly classes: readonly string[];
  /** In the order of the bytes of their paths. */
  readonly images: readonly ClassImage[];
  /** What was left out, and why. */
  readonly warnings: readonly string[];
}

/** Names in messages. */
const SHOWN = 5;

/**
 * Reads a folder of class folders. The images of a class may lie in subfolders. Folders whose names begin with a dot are left out.
 *
 * @param known - The classes, if they are known already: another one is an error, and all need not be there.
 * @throws {@link TapirError} `SOURCE_INVALID` for a folder without images in class folders, a class folder without images, fewer than two
 * classes, or an unknown class.
 */
export async function readClassFolders(folder: string, known?: readonly string[]): Promise<ClassFolders> {
  checkText('folder', folder);
  const unread = new UnreadFiles();
  const listed: Omit<ClassImage, 'label'>[] = [];
  const outside: string[] = [];
  for await (const item of listFiles(folder, unread)) {
    const path = item.path!;
    if (!path.includes('/')) outside.push(path);
    else if (!path.startsWith('.')) listed.push({ ...item, path });
  }
  const found = [...new Set(listed.map(({ path }) => classOf(path)))].toSorted(compareBytes);
  await checkClasses(folder, found, known);
  const classes = known ?? found;
  const labels = new Map(classes.map((name, label) => [name, label]));
  const labelled = listed.map((item) => Object.assign(item, { label: labels.get(classOf(item.path))! }));
  const images = labelled.toSorted((a, b) => compareBytes(a.path, b.path));
  const warnings = [...describeUnread(unread.counts)];
  if (outside.length > 0)
    warnings.unshift(
      `${counted(outside.length, 'image')} left out, outside class folders: ${listSome(outside)}`,
    );
  return { classes, images, warnings };
}

/** As `listImages`, whose errors speak of embedding. */
async function* listFiles(folder: string, unread: UnreadFiles): AsyncGenerator<SourceItem> {
  try {
    yield* listImages(folder, unread);
  } catch (error) {
    if (!(error instanceof TapirError) || error.code !== 'SOURCE_INVALID') throw error;
    throw unusable(folder, (error as TapirError<'SOURCE_INVALID'>).details.reason, error);
  }
}

function classOf(path: string): string {
  return path.slice(0, path.indexOf('/'));
}

async function checkClasses(
  folder: string,
  found: readonly string[],
  known: readonly string[] | undefined,
): Promise<void> {
  const empty = (await listFolders(folder)).filter((name) => !found.includes(name));
  if (empty.length > 0)
    throw unusable(folder, `class folders without images: ${listSome(empty)}; fill or remove them`);
  const unknown = known && found.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw unusable(folder, `class "${unknown}" is not among the classes in training: ${listSome(known!)}`);
  if (found.length === 0)
    throw unusable(folder, 'it has no class folders; put the images of each class into its own folder');
  if (known === undefined && found.length === 1)
    throw unusable(folder, `"${found[0]!}" is its only class; two or more are needed`);
}

async function listFolders(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
      .map(({ name }) => name)
      .toSorted(compareBytes);
  } catch (error) {
    throw unusable(folder, `it cannot be listed: ${reasonOf(error)}`, error);
  }
}

function listSome(names: readonly string[]): string {
  const quoted = names.slice(0, SHOWN).map((name) => `"${name}"`);
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : '';
  return quoted.join(', ') + more;
}

/** Makes the error for a folder that cannot be trained on. */
export function unusable(folder: string, reason: string, cause?: unknown): TapirError<'SOURCE_INVALID'> {
  return new TapirError('SOURCE_INVALID', `"${folder}" cannot be trained on: ${reason}`, {
    details: { source: folder, reason },
    cause,
  });
}

/** Images to train on, and images to measure on. */
export interface ImageSplit {
  readonly training: readonly ClassImage[];
  readonly heldOut: readonly ClassImage[];
  readonly warnings: readonly string[];
}

/**
 * Holds images of each class out of training: the same ones for the same paths and seed, in whatever order the file system lists them.
 *
 * @param share - Of each class, from 0 to below 1. At least one image of a class is held out, and at least one trains; a class with one
 * image trains.
 */
export function holdOut({ classes, images }: ClassFolders, share: number, seed: number): ImageSplit {
  if (share === 0) return { training: images, heldOut: [], warnings: [] };
  const heldOut = new Set<ClassImage>();
  const single: string[] = [];
  for (const [label, name] of classes.entries()) {
    const ofClass = images.filter((image) => image.label === label);
    if (ofClass.length === 1) single.push(name);
    const count = Math.min(ofClass.length - 1, Math.max(1, Math.round(ofClass.length * share)));
    const drawn = shuffled(ofClass, createRandom(seedOf(seed, 'held out', name)));
    for (const image of drawn.slice(0, count)) heldOut.add(image);
  }
  const warning = `classes with a single image, which trains, so that they are not measured: ${listSome(single)}`;
  return {
    training: images.filter((image) => !heldOut.has(image)),
    heldOut: images.filter((image) => heldOut.has(image)),
    warnings: single.length === 0 ? [] : [warning],
  };
}
