/** Elements of the page. Text is set as text, never as HTML. */
import type { PageImages } from './data.js';

/** The element of an id, which the page has. */
export function byId(id: string): HTMLElement {
  const element = document.querySelector<HTMLElement>(`#${id}`);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Makes an element. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  className: string,
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (className !== '') element.className = className;
  element.append(...children);
  return element;
}

/** The address of an image's picture. */
export function pictureUrl(images: PageImages, image: number): string | undefined {
  const data = images.thumbnails[image];
  return typeof data === 'string' ? `data:image/webp;base64,${data}` : undefined;
}

/** An image's picture, or what stands for it. */
export function makePicture(images: PageImages, image: number): HTMLElement {
  const url = pictureUrl(images, image);
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

/** A picture to press: it shows the image on the map. */
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
