/**
 * Feeds made from 8-bit images in shared memory. Nothing is copied on the way to the lane: it reads each pixel once and writes the
 * feed.
 */
import { elementCount, makeTensor, nameTensor, type NamedTensor, type Tensor } from './tensor.js';

/** Images from which a lane makes its feed. They must not change until the run has settled. */
export interface SharedImages {
  readonly name: string;
  readonly dtype: 'float32' | 'uint8';
  /** Dims of the feed: `[rows, 3, height, width]` float32, or `[rows, height, width, 3]` uint8. */
  readonly dims: readonly number[];
  /** Images one after the other, `height × width × 3` bytes each, RGB; in a SharedArrayBuffer. */
  readonly pixels: Uint8Array;
  /** Index of the image in each row. Rows after the last of these are zero. */
  readonly images: readonly number[];
  /** Value of each channel and byte in a float32 feed (3 × 256); null for uint8. */
  readonly values: Float32Array | null;
}

/** One input of a run: a tensor, or images from which the lane makes one. */
export type Feed = NamedTensor | SharedImages;

/** Whether the lane has yet to make this feed. */
export function isShared(feed: Feed | Tensor): feed is SharedImages {
  return 'pixels' in feed;
}

/** The feeds that are tensors already. */
export function madeFeeds(feeds: readonly Feed[]): NamedTensor[] {
  return feeds.filter((feed): feed is NamedTensor => !isShared(feed));
}

/** `count` rows from `start` on, with rows of zeros after them up to `size`. */
export function takeImages(feed: SharedImages, start: number, count: number, size: number): SharedImages {
  return { ...feed, images: feed.images.slice(start, start + count), dims: feed.dims.with(0, size) };
}

/** The same images in unshared memory, for a lane in another process. */
export function ownImages(feed: SharedImages): SharedImages {
  const bytes = imageBytes(feed);
  const pixels = new Uint8Array(feed.images.length * bytes);
  feed.images.forEach((image, row) =>
    pixels.set(feed.pixels.subarray(image * bytes, (image + 1) * bytes), row * bytes),
  );
  return { ...feed, pixels, images: feed.images.map((_, row) => row) };
}

/**
 * Makes the feed.
 *
 * @param spare - Buffer of an earlier feed, reused if it has the right length.
 */
export function fillFeed(feed: SharedImages, spare?: ArrayBuffer): NamedTensor {
  const { name, dtype, dims, values } = feed;
  const bytes = elementCount(dims) * (values ? Float32Array.BYTES_PER_ELEMENT : 1);
  const buffer = spare?.byteLength === bytes ? spare : new ArrayBuffer(bytes);
  const data = values ? new Float32Array(buffer) : new Uint8Array(buffer);
  const size = imageBytes(feed);
  feed.images.forEach((image, row) => {
    const pixels = feed.pixels.subarray(image * size, (image + 1) * size);
    if (values) spreadPlanes(pixels, values, data.subarray(row * size, (row + 1) * size) as Float32Array);
    else data.set(pixels, row * size);
  });
  data.fill(0, feed.images.length * size);
  return nameTensor(name, makeTensor(dtype, dims, data));
}

/** RGB bytes → three planes, with each byte replaced by its value. */
function spreadPlanes(pixels: Uint8Array, values: Float32Array, planes: Float32Array): void {
  const plane = planes.length / 3;
  for (let i = 0, from = 0; i < plane; i++, from += 3) {
    planes[i] = values[pixels[from]!]!;
    planes[i + plane] = values[256 + pixels[from + 1]!]!;
    planes[i + 2 * plane] = values[512 + pixels[from + 2]!]!;
  }
}

/** Bytes of one image. A row of the feed has as many elements. */
function imageBytes({ dims }: SharedImages): number {
  return elementCount(dims.slice(1));
}
