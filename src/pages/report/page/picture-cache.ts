/** Pictures to draw on the canvas. */
import type { PageImages } from './data.js';
import { pictureUrl } from './tiles.js';

/** Decodes pictures on first use. */
export class PictureCache {
  readonly #images: PageImages;
  readonly #onLoad: () => void;
  readonly #pictures = new Map<number, HTMLImageElement>();

  /** @param onLoad - Called when a picture is ready to draw. */
  constructor(images: PageImages, onLoad: () => void) {
    this.#images = images;
    this.#onLoad = onLoad;
  }

  /** An image's picture, which may still be loading; undefined if the image has no picture. */
  pictureOf(image: number): HTMLImageElement | undefined {
    const webp = this.#images.thumbnails[image];
    if (!webp) return undefined;
    let picture = this.#pictures.get(image);
    if (!picture) {
      picture = new Image();
      picture.addEventListener('load', this.#onLoad);
      picture.src = pictureUrl(webp);
      this.#pictures.set(image, picture);
    }
    return picture;
  }
}
