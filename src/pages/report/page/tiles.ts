/** Pictures of images, and tiles that show an image when they are pressed. */
import { make } from '../../../html/browser/elements.js';
import type { PageImages } from './data.js';

/** The address of an image's picture; undefined if it has no picture. */
export function pictureUrl(images: PageImages, image: number): string | undefined {
  return urlOf(images.thumbnails[image] ?? null);
}

function urlOf(webp: string | null): string | undefined {
  return webp === null ? undefined : `data:image/webp;base64,${webp}`;
}

/** An image's picture, or a placeholder. */
export function makePicture(images: PageImages, image: number): HTMLElement {
  return makePictureOf(images.thumbnails[image] ?? null);
}

/** A picture of WebP in base64, or a placeholder. */
export function makePictureOf(webp: string | null): HTMLElement {
  const url = urlOf(webp);
  if (url === undefined) {
    const placeholder = make('span', 'picture missing', 'no picture');
    placeholder.setAttribute('aria-hidden', 'true');
    return placeholder;
  }
  const picture = make('img', 'picture');
  picture.src = url;
  picture.alt = '';
  picture.decoding = 'async';
  return picture;
}

/** The last part of a path. */
export function shortName(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

/** A picture with a note under it; pressing it shows the image on the map. */
export function makeTile(
  images: PageImages,
  image: number,
  label: string,
  note: string,
  onPress: () => void,
): HTMLButtonElement {
  const button = make('button', 'tile', makePicture(images, image), make('span', 'tile-note', note));
  button.type = 'button';
  button.setAttribute('aria-label', label);
  button.title = images.names[image]!;
  button.addEventListener('click', onPress);
  return button;
}
