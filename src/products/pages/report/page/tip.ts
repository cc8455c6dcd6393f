/** The small card beside the point under the pointer or the keyboard cursor. */
import { byId, make } from '../../../../base/html/browser/elements.js';
import type { Place } from './geometry.js';
import { makePictureOf, type ShownImages } from './tiles.js';

/** Pixels between the card and the map's edge. */
const EDGE = 4;

/** Lays out an image's card above a place of the map, or below it if there is no room above. */
export function showTip(
  images: ShownImages,
  image: number,
  { x, y }: Place,
  gap: number,
  { width, height }: { readonly width: number; readonly height: number },
): void {
  const tip = byId('tip');
  tip.replaceChildren(makePictureOf(images, image), make('bdi', 'tip-name tiny', images.names[image]!));
  const [w, h] = [tip.offsetWidth, tip.offsetHeight];
  const above = y - gap - h;
  const left = Math.max(EDGE, Math.min(width - w - EDGE, x - w / 2));
  const top = above >= EDGE ? above : Math.min(height - h - EDGE, y + gap);
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
