/** Pictures that are drawn on the canvas. */
import type { PageImages } from './data.js';
import { pictureUrl } from './elements.js';

/** Decodes pictures when they are first asked for. */
export class PictureCache {
  readonly #images: PageImages;
  readonly #onLoad: () => void;
  readonly #pictures = new Map<number, HTMLImageElement>();

  /** @param onLoad - Called when one can be drawn. */
  constructor(images: PageImages, onLoad: () => void) {
    this.#images = images;
    this.#onLoad = onLoad;
  }

  /** An image's picture, which may still be loading; undefined if it has none. */
  pictureOf(image: number): HTMLImageElement | undefined {
    const url = pictureUrl(this.#images, image);
    if (url === undefined) return undefined;
    let picture = this.#pictures.get(image);
    if (!picture) {
      picture = new Image();
      picture.addEventListener('load', this.#onLoad);
      picture.src = url;
      this.#pictures.set(image, picture);
    }
    return picture;
  }
}
