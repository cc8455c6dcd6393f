/** Photos with columns, as objects of a caller → items. */
import { invalidOption, isPlainObject } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';
import { nameOfUrl } from '../../base/url-names.js';
import type { EntryPlan } from '../../photos/feeds/items/entries.js';
import { itemOfImage } from '../../photos/feeds/items/item-of-image.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import type { ImageSource } from '../../photos/images/formats/image-source.js';
import { nameColumns } from '../formats/metadata.js';
import { withColumns } from './lists/column-names.js';

/** A photo with columns for a dataset's metadata: other fields, as values of JSON. */
export interface PhotoRow {
  /** Names the photo; it is the photo, too, where `image` is left out. */
  readonly path?: string;
  readonly image?: ImageSource;
  readonly [column: string]: unknown;
}

/** Tells a photo with columns from a photo alone: decoded pixels are an object, too. */
export function isPhotoRow(given: unknown): given is PhotoRow {
  return (
    isPlainObject(given) && !('data' in given) && ('image' in given || typeof given['path'] === 'string')
  );
}

/**
 * Makes the item of a photo with columns.
 *
 * @param isLent - Whether the memory of its image is the caller's again after the next row is asked for.
 * @throws {@link TapirError} `OPTION_INVALID` for an image or a column that is no value of its kind; `SOURCE_INVALID`
 * where the column is missing that names the photos.
 */
export function itemOfRow(row: PhotoRow, index: number, plan: EntryPlan, isLent: boolean): SourceItem {
  const { path, image, ...columns } = row;
  const item = itemOfImage(image === undefined ? path : image, plan, 'source', isLent);
  const refuse = (reason: string): Error =>
    invalidOption(`source[${index}]`, `a photo with columns: ${reason}`, row);
  const texts = Object.entries(columns).flatMap(([name, value]) => {
    const text = textOf(name, value, refuse);
    return text === undefined ? [] : [[name, text] as const];
  });
  const named =
    image === undefined || typeof path !== 'string' ? {} : { path: nameOfUrl(path), heldIn: index };
  return withColumns({ ...item, ...named }, index, nameColumns(texts, refuse), plan, 'the source');
}

/** Returns a value as JSON. Integers beyond 2^53 keep their digits; undefined for what JSON leaves out. */
function textOf(name: string, value: unknown, refuse: (reason: string) => Error): string | undefined {
  if (typeof value === 'bigint') return String(value);
  try {
    return JSON.stringify(value) as string | undefined;
  } catch (error) {
    throw refuse(`column "${name}" is no value of JSON (${reasonOf(error)})`);
  }
}
