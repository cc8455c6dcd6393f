/** Feeds made from images in shared memory. Nothing is copied on the way to the lane: it reads each pixel once and writes the feed. */
import { cutPatches, gridOf, patchLength, type PatchedPixels, type PatchLayout } from './cut-patches.js';
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
  readonly holds: 'bytes' | 'planes';
  /**
   * The image of each row, in a SharedArrayBuffer: `height × width × 3` bytes, or the bytes of float32 planes that are normalised
   * already. Rows after the last of these are zero.
   */
  readonly images: readonly Uint8Array[];
  /** Value of each channel and byte in the feed (`channels × 256`), float16 as bits; null to copy pixels unchanged. */
  readonly values: Float32Array | Uint16Array | Uint8Array | null;
}

/** Images that a lane cuts into patches for its feed. */
export interface SharedPatches {
  readonly name: string;
  readonly dtype: 'float32' | 'float16';
  /** `[rows, patches, numbers]` with a row per image, zeros after its patches; or `[patches, numbers]`, one image after the other. */
  readonly dims: readonly number[];
  /** As {@link SharedImages.images}. */
  readonly images: readonly PatchedPixels[];
  readonly layout: PatchLayout;
  readonly values: Float32Array | Uint16Array;
}

/** A feed that the lane makes. */
export type SharedFeed = SharedImages | SharedPatches;

/** One input of a run: a tensor, or images from which the lane makes one. */
export type Feed = NamedTensor | SharedFeed;

/** Whether the lane has yet to make this feed. */
export function isShared(feed: Feed | Tensor): feed is SharedFeed {
  return 'images' in feed;
}

/** The feeds that are tensors already. */
export function madeFeeds(feeds: readonly Feed[]): NamedTensor[] {
  return feeds.filter((feed): feed is NamedTensor => !isShared(feed));
}

/** `count` rows from `start` on, with rows of zeros after them up to `size`. Patches of images that have no row each stay together. */
export function takeImages(feed: SharedFeed, start: number, count: number, size: number): SharedFeed {
  const dims = feed.dims.with(0, size);
  if (!isPatches(feed)) return { ...feed, images: feed.images.slice(start, start + count), dims };
  return feed.dims.length === 2 ? feed : { ...feed, images: feed.images.slice(start, start + count), dims };
}

/** The same images in unshared memory, for a lane in another process. */
export function ownImages(feed: SharedFeed): SharedFeed {
  return isPatches(feed)
    ? { ...feed, images: feed.images.map((image) => ({ ...image, data: image.data.slice() })) }
    : { ...feed, images: feed.images.map((image) => image.slice()) };
}

/** Whether the lane cuts this feed out of images. */
export function isPatches(feed: Feed): feed is SharedPatches {
  return 'layout' in feed;
}

const ARRAYS = { float32: Float32Array, float16: Uint16Array, uint8: Uint8Array } as const;

/** Makes the feed, in the buffer of an earlier one if that has the right length. */
export function fillFeed(feed: SharedFeed, spare?: ArrayBuffer): NamedTensor {
  const { name, dtype, dims } = feed;
  const bytes = elementCount(dims) * ARRAYS[dtype].BYTES_PER_ELEMENT;
  const buffer = spare?.byteLength === bytes ? spare : new ArrayBuffer(bytes);
  const data = new ARRAYS[dtype](buffer);
  if (isPatches(feed)) fillPatches(feed, data as Float32Array | Uint16Array);
  else fillImages(feed, data);
  return nameTensor(name, makeTensor(dtype, dims, data));
}

function fillImages(feed: SharedImages, data: Float32Array | Uint16Array | Uint8Array): void {
  const elements = elementCount(feed.dims.slice(1));
  feed.images.forEach((image, row) =>
    fillRow(feed, image, data.subarray(row * elements, (row + 1) * elements)),
  );
  data.fill(0, feed.images.length * elements);
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

function fillPatches(
  { images, layout, values, dims }: SharedPatches,
  data: Float32Array | Uint16Array,
): void {
  const length = patchLength(layout);
  const rowLength = dims.length === 2 ? 0 : dims[1]! * length;
  let at = 0;
  for (const image of images) {
    const [rows, columns] = gridOf(image, layout);
    const end = at + rows * columns * length;
    cutPatches(image, layout, values, data.subarray(at, end));
    at = Math.max(end, at + rowLength);
    data.fill(0, end, at);
  }
  data.fill(0, at);
}
