/** Pictures of images, and tiles that show an image when they are pressed. */
import { make } from '../../../html/browser/elements.js';
import type { PageImages } from './data.js';

/** The address of a picture of WebP in base64. */
export function pictureUrl(webp: string): string {
  return `data:image/webp;base64,${webp}`;
}

/** A picture of WebP in base64, or a placeholder. */
export function makePicture(webp: string | null | undefined): HTMLElement {
  return webp
    ? make('img', 'picture', { src: pictureUrl(webp), alt: '', decoding: 'async' })
    : make('span', 'picture missing tiny', { 'aria-hidden': 'true' }, 'no picture');
}

/** The last part of a path. */
export function shortName(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

/** A picture with a note under it; pressing it shows the image on the map. */
export function makeTile(
  { names, thumbnails }: PageImages,
  image: number,
  label: string,
  note: string,
  click: () => void,
): HTMLButtonElement {
  const traits = { title: names[image]!, 'aria-label': label, click };
  return make('button', 'tile', traits, makePicture(thumbnails[image]), make('span', 'tiny clip', note));
}
