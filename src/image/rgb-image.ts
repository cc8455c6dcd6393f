/** Decoded pixels. */
import type { Size } from './geometry.js';

/** An 8-bit RGB image: rows of pixels, three bytes each. */
export interface RgbImage extends Size {
  /** `height × width × 3` bytes. */
  readonly data: Uint8Array;
  /** What a resize takes for its size, in its pixels: that of a reduced image is not a whole number of them. Its own if absent. */
  readonly span?: Size;
}
