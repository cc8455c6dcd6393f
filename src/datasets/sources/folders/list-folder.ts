/** Lists the images of a folder, subfolders included, in an order that depends only on their paths. */
import { isUtf8 } from 'node:buffer';
import type { Dirent } from 'node:fs';
import { opendir, realpath, stat } from 'node:fs/promises';
import { join, resolve, sep } from 'node:path';
import { reasonOf } from '../../../base/errors.js';
import { spellBytes } from '../../../base/printable.js';
import { liesInside } from '../../../base/files/lies-inside.js';
import { isImageName, kindOfName } from '../../../photos/images/decode/image-names.js';
import { fileError } from '../../../photos/images/file/image-errors.js';
import { invalidSource } from '../items/source-errors.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { UnreadFiles } from '../items/unread-files.js';

/**
 * Lists the images below a folder, by extension (upper or lower case), in the order of the bytes of their paths.
 *
 * Follows links, except into the folder itself: their targets are listed under their own paths, and a loop must end.
 *
 * @remarks Holds the names of one folder in memory, and those of the folders above it.
 * @throws {@link TapirError} `SOURCE_INVALID` if the folder cannot be listed. A file or subfolder that cannot be read is an
 * item with an error.
 */
export async function* listImages(
  folder: string,
  unread: UnreadFiles = new UnreadFiles(),
): AsyncGenerator<SourceItem> {
  const root = await openRoot(folder);
  const walk = { root, visited: new Set([root]), unread };
  let entries: Iterable<Entry>;
  try {
    entries = await readFolder(root, walk);
  } catch (error) {
    throw notListed(folder, error);
  }
  yield* listEntries(entries, root, '', walk);
}

async function openRoot(folder: string): Promise<string> {
  try {
    const root = await realpath(resolve(folder));
    if ((await stat(root)).isDirectory()) return root;
  } catch (error) {
    throw notListed(folder, error);
  }
  throw invalidSource(folder, 'it is a file; give the folder that holds it');
}

function notListed(folder: string, error: unknown): Error {
  return invalidSource(folder, `the folder cannot be listed: ${reasonOf(error)}`, { cause: error });
}

interface Walk {
  readonly root: string;
  /** Real paths of the root and of the folders behind links. */
  readonly visited: Set<string>;
  readonly unread: UnreadFiles;
}

interface Entry {
  readonly name: string;
  readonly kind: 'folder' | 'file';
  /** Why it cannot be read. */
  readonly error?: unknown;
}

async function* listEntries(
  entries: Iterable<Entry>,
  folder: string,
  prefix: string,
  walk: Walk,
): AsyncGenerator<SourceItem> {
  const inside = join(folder, sep);
  for (const { name, kind, error } of entries) {
    const path = prefix + name;
    const image = inside + name;
    if (error !== undefined) yield { path, image, error: fileError(path, error) };
    else if (kind === 'file') yield { path, image, listed: true };
    else yield* listFolder(image, `${path}/`, walk);
  }
}

async function* listFolder(folder: string, prefix: string, walk: Walk): AsyncGenerator<SourceItem> {
  let entries: Iterable<Entry>;
  try {
    entries = await readFolder(folder, walk);
  } catch (error) {
    yield { path: prefix, image: folder, listed: true, error: fileError(prefix, error) };
    return;
  }
  yield* listEntries(entries, folder, prefix, walk);
}

/**
 * Names are read as bytes, because decoding could make one name of two. Bun reads no entries as bytes; Deno ignores the
 * encoding, and wants a size beside it.
 */
const READING = { bufferSize: 2048, ...('bun' in process.versions ? {} : { encoding: 'buffer' }) };

/**
 * The images and subfolders of a folder, in order.
 *
 * @remarks Until they are yielded, names are strings of one character per byte: they take the least memory, and sort by bytes.
 */
async function readFolder(folder: string, walk: Walk): Promise<Iterable<Entry>> {
  const keys: string[] = [];
  const links: { readonly key: string; readonly item: Dirent }[] = [];
  const errors = new Map<string, unknown>();
  // The types of opendir lack the encoding.
  for await (const item of await opendir(folder, READING as { bufferSize: number })) {
    const bytes = item.name as string | Buffer;
    const key = typeof bytes === 'string' ? Buffer.from(bytes).toString('latin1') : bytes.toString('latin1');
    if (item.isDirectory()) keys.push(`${key}/`);
    else if (item.isFile()) {
      const kind = kindOfName(key);
      if (kind === 'image') keys.push(key);
      else if (kind === 'unread') walk.unread.add(key);
    } else if (item.isSymbolicLink() || isUnknown(item)) links.push({ key, item });
  }
  // In order: of two links to one folder, the first is followed.
  links.sort((a, b) => compareKeys(a.key, b.key));
  for (const { key, item } of links) {
    try {
      const kind = await classify(join(folder, decodeKey(key)), key, item, walk);
      if (kind) keys.push(kind === 'folder' ? `${key}/` : key);
    } catch (error) {
      if (!isImageName(key)) continue;
      keys.push(key);
      errors.set(key, error);
    }
  }
  keys.sort(compareKeys);
  return toEntries(keys, errors);
}

/** A folder sorts as the paths in it do: with a slash at the end. */
function compareKeys(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function decodeKey(key: string): string {
  return Buffer.from(key, 'latin1').toString('utf8');
}

/** What needs no decoding, as most names. */
const PLAIN = /^[ -~]*$/;

function* toEntries(keys: readonly string[], errors: ReadonlyMap<string, unknown>): Generator<Entry> {
  for (const key of keys) {
    const kind = key.endsWith('/') ? 'folder' : 'file';
    const given = kind === 'folder' ? key.slice(0, -1) : key;
    const bytes = PLAIN.test(given) ? undefined : Buffer.from(given, 'latin1');
    const isReadable = bytes === undefined || isUtf8(bytes);
    const error = isReadable ? errors.get(key) : new Error('its name is not UTF-8; rename it');
    const name = bytes === undefined ? given : isReadable ? bytes.toString('utf8') : spellBytes(bytes);
    yield { name, kind, ...(error === undefined ? {} : { error }) };
  }
}

/** Resolves a link, or an entry of a file system that does not say what it is. Undefined if it is left out. */
async function classify(
  path: string,
  key: string,
  item: Dirent,
  walk: Walk,
): Promise<Entry['kind'] | undefined> {
  const target = await realpath(path);
  const stats = await stat(target);
  // The target is listed under its own path.
  const isListed = item.isSymbolicLink() && liesInside(walk.root, target);
  if (stats.isFile()) {
    const kind = kindOfName(key);
    if (isListed && kind === 'image' && isImageName(target)) walk.unread.addLink('symbolic');
    if (kind === 'other' || (isListed && kindOfName(target) !== 'other')) return undefined;
    if (kind === 'unread') walk.unread.add(key);
    return kind === 'image' ? 'file' : undefined;
  }
  if (!stats.isDirectory()) return undefined;
  // A folder that holds the root would lead back into it.
  const leadsBack = isListed || (item.isSymbolicLink() && liesInside(target, walk.root));
  if (leadsBack || walk.visited.has(target)) {
    if (item.isSymbolicLink()) walk.unread.addLink('symbolic');
    return undefined;
  }
  walk.visited.add(target);
  return 'folder';
}

function isUnknown(item: Dirent): boolean {
  return !item.isFIFO() && !item.isSocket() && !item.isBlockDevice() && !item.isCharacterDevice();
}

/** Orders names by their bytes, as folders are listed. */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
