/** What the name of a file says: an image that is read, an image or a video that is not, or something else. */
import { HEIF_EXTENSIONS, IMAGE_EXTENSIONS } from '../formats/image-format.js';
import { adviceFor } from '../formats/unread-formats.js';
import { isLibheifInstalled, LIBHEIF_ADVICE } from './open-libheif.js';

/** `image` is read; `unread` holds pictures in a format that is not read; `other` is something else. */
export type NameKind = 'image' | 'unread' | 'other';

/** The kind of a file by the extension of its name, upper or lower case. HEIF is read if libheif-js is installed. */
export function kindOfName(name: string): NameKind {
  const extension = extensionOf(name);
  if (IMAGE_EXTENSIONS.has(extension)) return 'image';
  if (HEIF_EXTENSIONS.has(extension)) return isLibheifInstalled() ? 'image' : 'unread';
  return adviceFor(extension) === undefined ? 'other' : 'unread';
}

/** Whether a file is an image that is read, by its name. */
export function isImageName(name: string): boolean {
  return kindOfName(name) === 'image';
}

/** The last dot of a name and what follows, in lower case; empty without a dot. */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.');
  return dot < 0 ? '' : name.slice(dot).toLowerCase();
}

/** What to do with files of an extension that is not read. */
export function unreadAdvice(extension: string): string {
  return adviceFor(extension) ?? `to read them, ${LIBHEIF_ADVICE}`;
}
