/** Entries of archives: their names and their items. */
import { isUtf8 } from 'node:buffer';
import { spellBytes } from '../../../base/printable.js';
import { kindOfName } from '../../../photos/images/decode/image-names.js';
import { unavailableImage } from '../../../photos/images/file/image-errors.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import type { UnreadFiles } from '../items/unread-files.js';

/** Longer entries are refused. No photo within the pixel limit is this long. */
export const MAX_ENTRY_BYTES: number = 1024 ** 3;

/** The kind of archive that a file name says; undefined for other files. */
export function archiveKind(name: string): 'tar' | 'zip' | undefined {
  if (/\.zip$/i.test(name)) return 'zip';
  return /\.(tar|tgz|tar\.gz)$/i.test(name) ? 'tar' : undefined;
}

/** An entry whose name says that it is an image. */
export interface ImageEntry {
  /** The name of the image in the dataset. */
  readonly path: string;
  /** Why it cannot be read. */
  readonly refusal?: string | undefined;
}

/**
 * Names an entry. Returns undefined if its name does not say that it is an image. Nothing is extracted to disk, so a name such
 * as `../a.jpg` is only a name.
 *
 * @param prefix - Goes before the name: the archive, if there are several.
 * @param unread - Counts the entry if it is left out.
 * @param decoded - The name as text, if the archive says how to decode it. Without it the name must be UTF-8.
 */
export function nameEntry(
  name: Uint8Array,
  prefix: string,
  unread: UnreadFiles,
  decoded?: string,
): ImageEntry | undefined {
  const text = decoded ?? (isUtf8(name) ? Buffer.from(name).toString('utf8') : spellBytes(name));
  const kind = kindOfName(text);
  if (kind === 'unread') unread.add(text);
  if (kind === 'other') unread.addOther(archiveKind(text) ? 'archive' : 'other file');
  if (kind !== 'image') return undefined;
  const path = prefix + text.replaceAll('\0', '\u2400');
  if (text.includes('\0')) return { path, refusal: 'its name holds a NUL character' };
  if (decoded === undefined && !isUtf8(name)) return { path, refusal: 'its name is not UTF-8' };
  return { path };
}

/** Why an entry of a size is refused. */
export function refuseSize(sizeBytes: number): string | undefined {
  return sizeBytes > MAX_ENTRY_BYTES ? `it has ${sizeBytes} bytes, more than ${MAX_ENTRY_BYTES}` : undefined;
}

/** Makes the item of an entry. An entry that is too long gets an error. */
export function itemOfArchive(
  { path, refusal }: ImageEntry,
  stamp: FileStamp,
  image: SourceItem['image'],
): SourceItem {
  const reason = refusal ?? refuseSize(stamp.sizeBytes);
  if (reason === undefined) return { path, image, stamp };
  return { path, image, stamp, error: unavailableImage('IMAGE_UNREADABLE', path, reason) };
}
