/** How an image file is decoded. */
import type { ResizeTarget } from '../pixels/geometry.js';

/** `exact` gives the pixels that torchvision gives; `fast` lets the decoder reduce large images. */
export const DECODE_MODES = ['exact', 'fast'] as const;
export type DecodeMode = (typeof DECODE_MODES)[number];

/** Options of decoding. Their defaults are part of a transform's. */
export interface DecodeOptions {
  /** The size that the image is resized to afterwards, as in a transform; `decode: 'fast'` leaves enough pixels for it. */
  readonly resize: ResizeTarget;
  /**
   * `ignore` reads pixels as stored, as torchvision does; `exif` turns the image upright first.
   * @default 'ignore'
   */
  readonly orientation: 'ignore' | 'exif';
  /**
   * What becomes of transparent pixels. `drop` shows the colour under their alpha, as `Image.open(f).convert("RGB")` does. `white` lays
   * them over white, as transformers 5 does with pictures that it gets as `Image.open(f)`. Alpha of HEIC is always dropped.
   * @default 'drop'
   */
  readonly alpha: 'drop' | 'white';
  /**
   * `exact` decodes as torchvision does. `fast` decodes large JPEGs and opaque WebPs at 1/2, 1/4 or 1/8 of their size, as
   * Pillow's `draft` does: the smallest that leaves twice the size that `resize` asks for. It takes about half the time at 3
   * megapixels and a third at 12. Pixels differ by 0.2 to 1.3 of 255 levels on average; a run measures it on a
   * sample of its images, and the manifest records it. Other formats and smaller images are decoded exactly. The decoder reduces only files, so bytes go through a
   * temporary file.
   * @default 'exact'
   */
  readonly decode: DecodeMode;
  /**
   * Images with more pixels are refused (`IMAGE_TOO_LARGE`), from their header alone; an integer from 1 to 2^31 − 1. Decoding
   * takes 3 to 7 bytes of memory per pixel, whatever the size of the file.
   * @default 178956970
   */
  readonly limitPixels: number;
}
