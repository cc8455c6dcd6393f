/** What entries of all archives have in common. */
import { IMAGE_EXTENSIONS } from '../../image/formats/image-format.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { SourceItem } from '../items/source-item.js';
import { unavailableImage } from '../items/source-errors.js';

/** Longer entries are refused: no photo that decodes within the pixel limit is this long. */
export const MAX_ENTRY_BYTES: number = 1024 ** 3;

/** An entry that is an image by its name. */
export interface ImageEntry {
  /** How the dataset names it. */
  readonly path: string;
  /** Why it cannot be read. */
  readonly error?: SourceItem['error'];
}

/**
 * How the dataset names an entry; undefined if it is no image by its name. Nothing is ever extracted, so that a name that
 * leads out of a folder is only a name.
 *
 * @param prefix - Of the archive's name, where there are several.
 */
export function nameEntry(name: Uint8Array, prefix: string, decoded?: string): ImageEntry | undefined {
  const text = decoded ?? Buffer.from(name).toString('utf8');
  const dot = text.lastIndexOf('.');
  if (dot < 0 || !IMAGE_EXTENSIONS.has(text.slice(dot).toLowerCase())) return undefined;
  const path = prefix + text.replaceAll('\0', '\u2400');
  const refused = (reason: string): ImageEntry => ({
    path,
    error: unavailableImage('IMAGE_UNREADABLE', path, reason),
  });
  if (text.includes('\0')) return refused('its name holds a NUL character');
  if (decoded === undefined && !Buffer.from(text, 'utf8').equals(name))
    return refused('its name is not UTF-8');
  return { path };
}

/** The item of an entry. */
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
