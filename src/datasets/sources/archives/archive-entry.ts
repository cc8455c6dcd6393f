/** Entries of archives: their names and their items. */
import { isUtf8 } from 'node:buffer';
import { spellBytes } from '../../../base/printable.js';
import { kindOfName } from '../../../images/decode/image-names.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import type { SourceItem } from '../items/source-item.js';
import { unavailableImage } from '../items/source-errors.js';
import type { UnreadFiles } from '../items/unread-files.js';

/** Longer entries are refused. No photo within the pixel limit is this long. */
export const MAX_ENTRY_BYTES: number = 1024 ** 3;

/** An entry whose name says that it is an image. */
export interface ImageEntry {
  /** The name of the image in the dataset. */
  readonly path: string;
  /** Why it cannot be read. */
  readonly error?: SourceItem['error'];
}

/**
 * Names an entry. Returns undefined if its name does not say that it is an image. Nothing is extracted to disk, so a name such
 * as `../a.jpg` is only a name.
 *
 * @param prefix - Goes before the name: the archive, if there are several.
 * @param unread - Counts the entry if it looks like an image that is not read.
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
  if (kind !== 'image') return undefined;
  const path = prefix + text.replaceAll('\0', '\u2400');
  const refused = (reason: string): ImageEntry => ({
    path,
    error: unavailableImage('IMAGE_UNREADABLE', path, reason),
  });
  if (text.includes('\0')) return refused('its name holds a NUL character');
  if (decoded === undefined && !isUtf8(name)) return refused('its name is not UTF-8');
  return { path };
}

/** Makes the item of an entry. An entry that is too long gets an error. */
export function itemOfArchive(
  { path, error }: ImageEntry,
  stamp: FileStamp,
  image: SourceItem['image'],
): SourceItem {
  const tooLong =
    stamp.sizeBytes > MAX_ENTRY_BYTES
      ? unavailableImage(
          'IMAGE_UNREADABLE',
          path,
          `it has ${stamp.sizeBytes} bytes, more than ${MAX_ENTRY_BYTES}`,
        )
      : undefined;
  const failure = error ?? tooLong;
  return { path, image, stamp, ...(failure ? { error: failure } : {}) };
}
