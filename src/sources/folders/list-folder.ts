/** Images of a folder: found recursively, in an order that depends on nothing but their paths. */
import type { Dirent } from 'node:fs';
import { opendir, realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { TapirError, reasonOf, type ImageErrorCode } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import { liesInside } from '../../base/lies-inside.js';
import { IMAGE_EXTENSIONS } from '../../image/formats/image-format.js';
import { fileError } from '../../image/file/image-errors.js';

/** An image to embed. */
export interface SourceItem {
  /** How the dataset names it: relative to the folder, with `/`; null for bytes. */
  readonly path: string | null;
  /** A file's path, the bytes of a file, or what fetches them when their turn comes (an entry of an archive, a URL). */
  readonly image: string | Uint8Array | (() => Promise<Uint8Array>);
  /** Where the source knows it: an archive's index at once, a URL once it was fetched. A file's is taken when it is read. */
  readonly stamp?: FileStamp;
  /** The source has found it there: if it is not when its turn comes, it has vanished (`IMAGE_VANISHED`). */
  readonly listed?: true;
  /** Why it cannot even be tried. */
  readonly error?: TapirError<ImageErrorCode>;
}

/**
 * Lists the images below a folder, by extension (any case), in the order of their paths' bytes.
 *
 * Links are followed, except into the folder itself: what they point to is listed under its own path already, and a loop
 * must end.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` if the folder cannot be read. A file or subfolder that cannot be read is
 * listed with its error.
 */
export async function* listImages(folder: string): AsyncGenerator<SourceItem> {
  const root = await openRoot(folder);
  yield* walk(root, '', { root, visited: new Set([root]) });
}

function invalidSource(source: string, reason: string, cause?: unknown): TapirError<'SOURCE_INVALID'> {
  return new TapirError('SOURCE_INVALID', `"${source}" is no folder of images: ${reason}`, {
    details: { source, reason },
    ...(cause === undefined ? {} : { cause }),
  });
}

async function openRoot(folder: string): Promise<string> {
  try {
    const root = await realpath(resolve(folder));
    if (!(await stat(root)).isDirectory()) throw new Error('it is a file; give the folder that holds it');
    await (await opendir(root)).close();
    return root;
  } catch (error) {
    throw invalidSource(folder, reasonOf(error), error);
  }
}

interface Walk {
  readonly root: string;
  /** Real paths of folders entered through links. */
  readonly visited: Set<string>;
}

interface Entry {
  readonly name: string;
  readonly kind: 'folder' | 'file';
  readonly error?: unknown;
}

async function* walk(folder: string, prefix: string, state: Walk): AsyncGenerator<SourceItem> {
  let entries: Entry[];
  try {
    entries = await readFolder(folder, state);
  } catch (error) {
    yield { ...failed(prefix, folder, error), listed: true };
    return;
  }
  for (const entry of entries) {
    const path = prefix + entry.name;
    const image = join(folder, entry.name);
    if (entry.error !== undefined) yield failed(path, image, entry.error);
    else if (entry.kind === 'folder') yield* walk(image, `${path}/`, state);
    else yield { path, image, listed: true };
  }
}

function failed(path: string, image: string, error: unknown): SourceItem {
  return { path, image, error: fileError(path, error) };
}

/** Names are read as bytes: one that is not UTF-8 must not be taken for another file. */
async function readFolder(folder: string, state: Walk): Promise<Entry[]> {
  // The types of opendir leave out the encoding that it takes.
  const options = { encoding: 'buffer' } as unknown as { encoding: 'utf8' };
  const items: { readonly name: Buffer; readonly item: Dirent }[] = [];
  for await (const item of await opendir(folder, options))
    items.push({ name: item.name as unknown as Buffer, item });
  // In order already here: of two links to one folder, the first one is followed.
  items.sort((a, b) => Buffer.compare(a.name, b.name));
  const entries: { readonly key: Buffer; readonly entry: Entry }[] = [];
  for (const { name, item } of items) {
    const entry = await readEntry(folder, name, item, state);
    // A folder sorts as its paths do, with the slash behind it.
    if (entry)
      entries.push({ key: entry.kind === 'folder' ? Buffer.concat([name, Buffer.from('/')]) : name, entry });
  }
  return entries.sort((a, b) => Buffer.compare(a.key, b.key)).map(({ entry }) => entry);
}

async function readEntry(
  folder: string,
  bytes: Buffer,
  item: Dirent,
  state: Walk,
): Promise<Entry | undefined> {
  const name = bytes.toString('utf8');
  if (Buffer.from(name, 'utf8').equals(bytes)) return classify(folder, name, item, state);
  return isImage(name)
    ? { name, kind: 'file', error: new Error('its name is not UTF-8; rename it') }
    : undefined;
}

async function classify(folder: string, name: string, item: Dirent, state: Walk): Promise<Entry | undefined> {
  if (item.isDirectory()) return { name, kind: 'folder' };
  if (item.isFile()) return isImage(name) ? { name, kind: 'file' } : undefined;
  // Some file systems do not say what an entry is.
  if (!item.isSymbolicLink() && !isUnknown(item)) return undefined;
  try {
    const target = await realpath(join(folder, name));
    const stats = await stat(target);
    if (stats.isFile())
      return isImage(name) && !isListed(item, target, state) ? { name, kind: 'file' } : undefined;
    if (!stats.isDirectory() || state.visited.has(target)) return undefined;
    // A folder inside is listed under its own path; one that holds the root would lead back into it.
    if (item.isSymbolicLink() && (liesInside(state.root, target) || liesInside(target, state.root)))
      return undefined;
    state.visited.add(target);
    return { name, kind: 'folder' };
  } catch (error) {
    return isImage(name) ? { name, kind: 'file', error } : undefined;
  }
}

/** Whether what a link points to is found under its own path. */
function isListed(item: Dirent, target: string, state: Walk): boolean {
  return item.isSymbolicLink() && liesInside(state.root, target) && isImage(target);
}

function isUnknown(item: Dirent): boolean {
  return !item.isFIFO() && !item.isSocket() && !item.isBlockDevice() && !item.isCharacterDevice();
}

/** Whether a file is taken for an image, by its extension. */
export function isImage(name: string): boolean {
  const dot = name.lastIndexOf('.');
  return dot >= 0 && IMAGE_EXTENSIONS.has(name.slice(dot).toLowerCase());
}
