/** Small pictures of the sampled images. */
import { readdir, stat } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { isImageName } from '../../../../photos/images/decode/image-names.js';
import { tryThumbnail } from '../../../../photos/images/thumbnail.js';
import { liesInside } from '../../../../base/files/lies-inside.js';
import { reasonOf, TapirError } from '../../../../base/errors.js';
import type { SampledImage } from '../collect/collect-inputs.js';

/** Pictures, and why some are missing. */
export interface Thumbnails {
  /** WebP in base64, in the order of the images; null for an image without a picture. */
  readonly pictures: readonly (string | null)[];
  /** Images whose file is missing or damaged now, or whose path leaves the folder. */
  readonly unreadable: number;
  /** Images without a picture because the page would become too large. */
  readonly leftOut: number;
}

/** An image, a tile of one, or a clip, to make a picture of. */
export type Pictured = Pick<SampledImage, 'path'> & Partial<Pick<SampledImage, 'tile' | 'clipStart'>>;

/** Longer side in pixels, if there are few images and if there are many. */
const LARGE_SIDE = 96;
const SMALL_SIDE = 64;
const MANY_IMAGES = 1500;
/** Images decoded at once. */
const AT_ONCE = 8;

/** Makes pictures until they take `maxBytes` of base64; without the folder of the images, none. */
export async function makeThumbnails(
  images: readonly Pictured[],
  folder: string | undefined,
  maxBytes: number,
  onPicture: (done: number) => Promise<void>,
): Promise<Thumbnails> {
  const pictures: (string | null)[] = images.map(() => null);
  if (folder === undefined) return { pictures, unreadable: 0, leftOut: 0 };
  const side = images.length > MANY_IMAGES ? SMALL_SIDE : LARGE_SIDE;
  let unreadable = 0;
  let leftOut = 0;
  let bytes = 0;
  const order = spreadOut(images.length);
  for (let start = 0; start < order.length; start += AT_ONCE) {
    await onPicture(start);
    const places = order.slice(start, start + AT_ONCE);
    if (bytes >= maxBytes) {
      leftOut += places.length;
      continue;
    }
    const made = await Promise.all(places.map((place) => makePicture(folder, images[place]!, side)));
    made.forEach((picture, index) => {
      if (picture === null) unreadable++;
      else if (bytes + picture.length > maxBytes) leftOut++;
      else {
        pictures[places[index]!] = picture;
        bytes += picture.length;
      }
    });
  }
  return { pictures, unreadable, leftOut };
}

/** All places in an order whose beginnings are spread evenly over the list: by their bits in reverse. */
function spreadOut(length: number): number[] {
  const bits = Math.max(1, Math.ceil(Math.log2(Math.max(2, length))));
  const reversed = (value: number): number => {
    let result = 0;
    for (let bit = 0; bit < bits; bit++) result = (result << 1) | ((value >> bit) & 1);
    return result;
  };
  return Array.from({ length: 2 ** bits }, (_, i) => reversed(i)).filter((place) => place < length);
}

/** A picture of an image in a folder, as WebP in base64; null if its file cannot be read, or lies outside the folder. */
export async function makePicture(
  folder: string,
  { path, tile, clipStart = null }: Pictured,
  side: number,
): Promise<string | null> {
  const file = path === null ? undefined : pathInside(folder, path);
  if (file === undefined) return null;
  return tryThumbnail(clipStart === null ? file : await frameOf(file, clipStart), side, tile);
}

/** The frame of a folder at which a clip begins; the file itself of a GIF or WebP. */
async function frameOf(place: string, start: number): Promise<string> {
  try {
    const frames = (await readdir(place)).filter(isImageName).toSorted();
    return join(place, frames[start] ?? '');
  } catch {
    return place;
  }
}

/** The file that a path of the metadata names; undefined if it lies outside the folder. */
export function pathInside(folder: string, path: string): string | undefined {
  if (path === '' || path.includes('\0')) return undefined;
  const file = isAbsolute(path) ? resolve(path) : resolve(join(folder, path));
  const root = resolve(folder);
  return file !== root && liesInside(root, file) ? file : undefined;
}

/** The given folder of the images, else the recorded one if it still exists. Throws `SOURCE_INVALID` if the given one is no folder. */
export async function findImageFolder(
  given: string | undefined,
  recorded: string | undefined,
): Promise<string | undefined> {
  const folder = given ?? recorded;
  if (folder === undefined) return undefined;
  let reason = 'it is no folder';
  try {
    if ((await stat(folder)).isDirectory()) return folder;
  } catch (error) {
    reason = reasonOf(error);
  }
  if (given === undefined) return undefined;
  throw new TapirError('SOURCE_INVALID', `"${given}" cannot be the folder of the images: ${reason}`, {
    details: { source: given, reason },
  });
}
