/** Feeds made of 8-bit images in shared memory: nothing is copied on the way to the lane, which passes over the pixels once. */
import { makeTensor, type NamedTensor, type Tensor } from './tensor.js';

/** Images that a lane makes its own feed of. They stay as they are until the run has settled. */
export interface SharedImages {
  readonly name: string;
  readonly dtype: 'float32' | 'uint8';
  /** Dims of the feed: `[rows, 3, height, width]` float32, or `[rows, height, width, 3]` uint8. */
  readonly dims: readonly number[];
  /** Images one after the other, `height × width × 3` bytes each, RGB; over a SharedArrayBuffer. */
  readonly pixels: Uint8Array;
  /** Which of them the rows are, in order; rows beyond them are zero. */
  readonly images: readonly number[];
  /** What a float32 feed holds for each channel and byte (3 × 256); null for uint8. */
  readonly values: Float32Array | null;
}

/** What a session is fed. */
export type Feed = NamedTensor | SharedImages;

/** Whether a feed has yet to be made by the lane. */
export function isShared(feed: Feed | Tensor): feed is SharedImages {
  return 'pixels' in feed;
}

/** The feeds that are made already. */
export function madeFeeds(feeds: readonly Feed[]): NamedTensor[] {
  return feeds.filter((feed): feed is NamedTensor => !isShared(feed));
}

/** Some of the rows, with zeros behind them up to `size`. */
export function takeImages(feed: SharedImages, start: number, count: number, size: number): SharedImages {
  return { ...feed, images: feed.images.slice(start, start + count), dims: feed.dims.with(0, size) };
}

/** The same images in memory that nobody shares, for a lane in another process. */
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
 * @param spare - A buffer of an earlier feed; used if it has the right length.
 */
export function fillFeed(feed: SharedImages, spare?: ArrayBuffer): NamedTensor {
  const { name, dtype, dims, values } = feed;
  const elements = dims.reduce((product, size) => product * size, 1);
  const bytes = elements * (values ? Float32Array.BYTES_PER_ELEMENT : 1);
  const buffer = spare?.byteLength === bytes ? spare : new ArrayBuffer(bytes);
  const data = values ? new Float32Array(buffer) : new Uint8Array(buffer);
  const size = imageBytes(feed);
  feed.images.forEach((image, row) => {
    const pixels = feed.pixels.subarray(image * size, (image + 1) * size);
    if (values) spreadPlanes(pixels, values, data.subarray(row * size, (row + 1) * size) as Float32Array);
    else data.set(pixels, row * size);
  });
  data.fill(0, feed.images.length * size);
  return { name, ...makeTensor(dtype, dims, data) };
}

/** RGB bytes → three planes of the values that they stand for. */
function spreadPlanes(pixels: Uint8Array, values: Float32Array, planes: Float32Array): void {
  const plane = planes.length / 3;
  for (let i = 0, from = 0; i < plane; i++, from += 3) {
    planes[i] = values[pixels[from]!]!;
    planes[i + plane] = values[256 + pixels[from + 1]!]!;
    planes[i + 2 * plane] = values[512 + pixels[from + 2]!]!;
  }
}

/** Bytes of one image, which is also the elements of one row. */
function imageBytes({ dims: [, ...row] }: SharedImages): number {
  return row.reduce((product, size) => product * size, 1);
}
