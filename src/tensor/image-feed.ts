/** Feeds made from images in shared memory. Nothing is copied on the way to the lane: it reads each pixel once and writes the feed. */
import { encodeFloat16 } from './float16.js';
import { copyPlanes, spreadPixels, type ImageAxes } from './spread-pixels.js';
import { elementCount, makeTensor, nameTensor, type NamedTensor, type Tensor } from './tensor.js';

/** Element types of the image inputs that a lane can feed. */
export type ImageType = 'float32' | 'float16' | 'uint8';

/** Images from which a lane makes its feed. They must not change until the run has settled. */
export interface SharedImages extends ImageAxes {
  readonly name: string;
  readonly dtype: ImageType;
  /** Dims of the feed: the rows, and the axes of an image. */
  readonly dims: readonly number[];
  /**
   * Images one after the other, in a SharedArrayBuffer: `height × width × 3` bytes each, or the bytes of float32 planes that are
   * normalised already.
   */
  readonly pixels: Uint8Array;
  readonly holds: 'bytes' | 'planes';
  /** Index of the image in each row. Rows after the last of these are zero. */
  readonly images: readonly number[];
  /** Value of each channel and byte in the feed (`channels × 256`), float16 as bits; null to copy pixels unchanged. */
  readonly values: Float32Array | Uint16Array | Uint8Array | null;
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

const ARRAYS = { float32: Float32Array, float16: Uint16Array, uint8: Uint8Array } as const;

/** Makes the feed, in the buffer of an earlier one if that has the right length. */
export function fillFeed(feed: SharedImages, spare?: ArrayBuffer): NamedTensor {
  const { name, dtype, dims } = feed;
  const bytes = elementCount(dims) * ARRAYS[dtype].BYTES_PER_ELEMENT;
  const buffer = spare?.byteLength === bytes ? spare : new ArrayBuffer(bytes);
  const data = new ARRAYS[dtype](buffer);
  const elements = elementCount(dims.slice(1));
  const size = imageBytes(feed);
  feed.images.forEach((image, row) => {
    const pixels = feed.pixels.subarray(image * size, (image + 1) * size);
    fillRow(feed, pixels, data.subarray(row * elements, (row + 1) * elements));
  });
  data.fill(0, feed.images.length * elements);
  return nameTensor(name, makeTensor(dtype, dims, data));
}

function fillRow(
  feed: SharedImages,
  pixels: Uint8Array,
  into: Float32Array | Uint16Array | Uint8Array,
): void {
  if (feed.holds === 'planes') {
    const planes = new Float32Array(pixels.buffer, pixels.byteOffset, pixels.length / 4);
    copyPlanes(feed.dtype === 'float16' ? encodeFloat16(planes) : planes, into, feed);
  } else if (feed.values) spreadPixels(pixels, feed.values, into, feed);
  else into.set(pixels);
}

/** Bytes of one image. */
function imageBytes({ dims, channels, holds }: SharedImages): number {
  const elements = elementCount(dims.slice(1));
  return holds === 'planes' ? elements * Float32Array.BYTES_PER_ELEMENT : (elements / channels) * 3;
}
