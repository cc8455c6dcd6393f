/** Feeds that a lane makes of shared images. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fillFeed, ownImages, takeImages, type SharedImages } from '../../src/tensor/image-feed.js';

const HEIGHT = 2;
const WIDTH = 3;
const IMAGE = HEIGHT * WIDTH * 3;
/** Each channel has values of its own. */
const values = Float32Array.from({ length: 768 }, (_, i) => Math.floor(i / 256) * 1000 + (i % 256));

function feedOf(pixels: Uint8Array, images: readonly number[], rows: number, isFloat: boolean): SharedImages {
  return isFloat
    ? { name: 'x', dtype: 'float32', dims: [rows, 3, HEIGHT, WIDTH], pixels, images, values }
    : { name: 'x', dtype: 'uint8', dims: [rows, HEIGHT, WIDTH, 3], pixels, images, values: null };
}

const shared = (images: number): Uint8Array => {
  const pixels = new Uint8Array(new SharedArrayBuffer(images * IMAGE));
  return pixels.map((_, i) => (i * 37) % 251);
};

describe('a feed of shared images', () => {
  it('holds each image as planes of values, then zeros', () => {
    const pixels = shared(4);
    const { dtype, dims, data } = fillFeed(feedOf(pixels, [3, 1], 3, true));
    expect({ dtype, dims }).toEqual({ dtype: 'float32', dims: [3, 3, HEIGHT, WIDTH] });
    const expected = [3, 1].flatMap((image) =>
      [0, 1, 2].flatMap((channel) =>
        Array.from(
          { length: HEIGHT * WIDTH },
          (_, i) => channel * 1000 + pixels[image * IMAGE + 3 * i + channel]!,
        ),
      ),
    );
    expect([...(data as Float32Array)]).toEqual([...expected, ...Array.from({ length: IMAGE }, () => 0)]);
  });

  it('holds the pixels themselves for a graph that takes them', () => {
    const pixels = shared(2);
    const { data } = fillFeed(feedOf(pixels, [1], 2, false));
    expect([...(data as Uint8Array)]).toEqual([...pixels.subarray(IMAGE), ...new Uint8Array(IMAGE)]);
  });

  it('takes the buffer of an earlier feed of its length, whatever is in it', () => {
    const spare = new Float32Array(2 * IMAGE).fill(9).buffer;
    const feed = feedOf(shared(2), [0], 2, true);
    const { data } = fillFeed(feed, spare);
    expect((data as Float32Array).buffer).toBe(spare);
    expect(data).toEqual(fillFeed(feed).data);
    expect((fillFeed(feed, new ArrayBuffer(8)).data as Float32Array).length).toBe(2 * IMAGE);
  });

  it('is the same cut in two, and in memory of its own', () => {
    const pixels = shared(6);
    fc.assert(
      fc.property(
        fc.array(fc.nat(5), { minLength: 1, maxLength: 8 }),
        fc.nat(8),
        fc.boolean(),
        (images, at, isFloat) => {
          const whole = feedOf(pixels, images, images.length, isFloat);
          const first = Math.min(at, images.length);
          const rest = images.length - first;
          const parts = [takeImages(whole, 0, first, first), takeImages(whole, first, rest, rest)];
          const joined = parts.flatMap((part) => Array.from(fillFeed(part).data as Float32Array));
          expect(joined).toEqual([...(fillFeed(whole).data as Float32Array)]);
          const own = ownImages(whole);
          expect(own.pixels.buffer).toBeInstanceOf(ArrayBuffer);
          expect(fillFeed(own)).toEqual(fillFeed(whole));
        },
      ),
    );
  });
});
