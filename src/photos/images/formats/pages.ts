/** How many pictures follow each other in a file. */
import { countGifFrames } from './gif.js';
import { webpChunks } from './headers.js';
import { imageFormat } from './image-format.js';

/** The pages of a GIF or WebP; 1 for all other files. Throws `TooManyParts`. */
export function countPages(bytes: Uint8Array): number {
  const format = imageFormat(bytes);
  if (format === 'gif') return countGifFrames(bytes);
  if (format !== 'webp') return 1;
  let pages = 0;
  for (const { type } of webpChunks(bytes)) if (type === 'ANMF') pages++;
  return Math.max(1, pages);
}
