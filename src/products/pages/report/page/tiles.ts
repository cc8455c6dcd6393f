/** Pictures of images, and tiles that show an image when they are pressed. */
import { askServer } from '../../../../base/html/browser/ask-server.js';
import { make } from '../../../../base/html/browser/elements.js';
import type { PageImages, PagePicture } from './data.js';

/** The images, and the key to ask for pictures that the page does not carry; null for a page that is a file. */
export interface ShownImages extends PageImages {
  readonly key: string | null;
}

/** The address of a picture of WebP in base64. */
export function pictureUrl(webp: string): string {
  return `data:image/webp;base64,${webp}`;
}

/** Decodes pictures to draw on a canvas on first use: a picture may still be loading, and is undefined if the image has none. */
export function cachePictures(
  { thumbnails }: PageImages,
  onLoad: () => void,
): (image: number) => HTMLImageElement | undefined {
  const pictures = new Map<number, HTMLImageElement>();
  return (image) => {
    const webp = thumbnails[image];
    if (!webp || pictures.has(image)) return pictures.get(image);
    const picture = make('img', '', { load: onLoad, src: pictureUrl(webp) });
    pictures.set(image, picture);
    return picture;
  };
}

/** A picture of WebP in base64, or a placeholder. */
export function makePicture(webp: string | null | undefined): HTMLElement {
  return webp
    ? make('img', 'picture', { src: pictureUrl(webp), alt: '', decoding: 'async' })
    : make('span', 'picture missing tiny', { 'aria-hidden': 'true' }, 'no picture');
}

/** The picture of an image, or a placeholder; the command that serves the page puts the picture in its place. */
export function makePictureOf({ thumbnails, key }: ShownImages, image: number): HTMLElement {
  const shown = makePicture(thumbnails[image]);
  if (thumbnails[image] === undefined && key !== null)
    void askServer<PagePicture>(key, `picture?image=${image}`).then((outcome) => {
      if ('value' in outcome && outcome.value.picture) shown.replaceWith(makePicture(outcome.value.picture));
    });
  return shown;
}

/** The last part of a path. */
export function shortName(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

/** A picture with a note under it; pressing it shows the image on the map. */
export function makeTile(
  images: ShownImages,
  image: number,
  label: string,
  note: string,
  click: () => void,
): HTMLButtonElement {
  const traits = { title: images.names[image]!, 'aria-label': label, click };
  return make('button', 'tile', traits, makePictureOf(images, image), make('span', 'tiny clip', note));
}
