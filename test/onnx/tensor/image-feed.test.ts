/** Feeds that a lane makes of shared images. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFloat16, fromFloat16Bits, toFloat16Bits } from '../../../src/onnx/tensor/float16.js';
import { fillFeed, ownImages, takeImages, type SharedImages } from '../../../src/onnx/tensor/image-feed.js';

const HEIGHT = 2;
const WIDTH = 3;
const IMAGE = HEIGHT * WIDTH * 3;
/** Each channel has values of its own. */
const values = Float32Array.from({ length: 768 }, (_, i) => Math.floor(i / 256) * 1000 + (i % 256));

function feedOf(pixels: Uint8Array, places: readonly number[], rows: number, isFloat: boolean): SharedImages {
  const images = places.map((place) => pixels.subarray(place * IMAGE, (place + 1) * IMAGE));
  const images3 = { name: 'x', channels: 3, holds: 'bytes', images } as const;
  return isFloat
    ? { ...images3, dtype: 'float32', dims: [rows, 3, HEIGHT, WIDTH], isLast: false, values }
    : { ...images3, dtype: 'uint8', dims: [rows, HEIGHT, WIDTH, 3], isLast: true, values: null };
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

  it('has the channels last, one channel, or the bits of float16, as the graph takes them', () => {
    const pixels = shared(2);
    const plain = feedOf(pixels, [1], 1, true);
    const planes = [...(fillFeed(plain).data as Float32Array)];
    const size = HEIGHT * WIDTH;
    const last = { ...plain, dims: [1, HEIGHT, WIDTH, 3], isLast: true };
    const interleaved = Array.from({ length: size }, (_, i) =>
      [0, 1, 2].map((channel) => planes[channel * size + i]),
    );
    expect([...(fillFeed(last).data as Float32Array)]).toEqual(interleaved.flat());
    const grey = { ...plain, dims: [1, 1, HEIGHT, WIDTH], channels: 1 };
    expect([...(fillFeed(grey).data as Float32Array)]).toEqual(planes.slice(0, size));
    const half = fillFeed({ ...plain, dtype: 'float16', values: encodeFloat16(values) });
    expect(half.dtype).toBe('float16');
    expect([...(half.data as Uint16Array)].map(fromFloat16Bits)).toEqual(
      planes.map((value) => fromFloat16Bits(toFloat16Bits(value))),
    );
  });

  it('copies planes that are normalised already', () => {
    const floats = Float32Array.from({ length: 2 * IMAGE }, (_, i) => i / 8);
    const feed: SharedImages = {
      ...feedOf(new Uint8Array(0), [], 2, true),
      images: [new Uint8Array(floats.buffer, floats.byteLength / 2)],
      holds: 'planes',
      values: null,
    };
    expect([...(fillFeed(feed).data as Float32Array)]).toEqual([
      ...floats.subarray(IMAGE),
      ...new Float32Array(IMAGE),
    ]);
    const own = fillFeed({ ...ownImages(feed), dtype: 'float16' });
    expect(fromFloat16Bits((own.data as Uint16Array)[1]!)).toBe(floats[IMAGE + 1]);
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
          for (const image of own.images) expect((image as Uint8Array).buffer).toBeInstanceOf(ArrayBuffer);
          expect(fillFeed(own)).toEqual(fillFeed(whole));
        },
      ),
    );
  });
});
