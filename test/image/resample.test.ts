/** The two twins of the resampling: WebAssembly SIMD and JavaScript. */
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Region, Size } from '../../src/image/geometry.js';
import { planResample } from '../../src/image/resample-plan.js';
import { createSimdResampler } from '../../src/image/resample-simd.js';
import { createResample, resample, type Interpolation, type RgbImage } from '../../src/image/resample.js';

const inJs = createResample(() => null);
const simd = createSimdResampler()!;
/** One instance for all images of this file, and never JavaScript instead. */
const inWasm = createResample(() => ({
  run(image: RgbImage, plan: Parameters<typeof simd.run>[1], into: Uint8Array): boolean {
    if (simd.run(image, plan, into)) return true;
    throw new Error('left to JavaScript');
  },
}));

/** Pixels that stress sums and clipping, and noise. */
const PATTERNS: Readonly<
  Record<string, (seed: number) => (x: number, y: number, channel: number) => number>
> = {
  black: () => () => 0,
  white: () => () => 255,
  checkerboard: () => (x, y, channel) => ((x + y + channel) % 2) * 255,
  stripes: () => (x) => (x % 2) * 255,
  bars: () => (_x, y) => (y % 2) * 255,
  noise: (seed) => {
    let state = seed;
    return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0) >>> 24;
  },
};

function paint({ width, height }: Size, pattern: string, seed = 1): RgbImage {
  const pixel = PATTERNS[pattern]!(seed);
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < data.length; i++) {
    const at = Math.trunc(i / 3);
    data[i] = pixel(at % width, Math.trunc(at / width), i % 3);
  }
  return { width, height, data };
}

function expectTwins(image: RgbImage, size: Size, region: Region, kind: Interpolation): void {
  const expected = inJs(image, size, region, kind);
  const actual = inWasm(image, size, region, kind);
  expect(actual).toMatchObject({ height: region.height, width: region.width });
  expect(Buffer.compare(actual.data, expected.data)).toBe(0);
}

const kinds = fc.constantFrom<Interpolation>('bilinear', 'bicubic');
const patterns = fc.constantFrom(...Object.keys(PATTERNS));
/** Small ones often, so that edges meet. */
const side = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 700 }));
const sizes = fc.record({ width: side, height: side });
/** Where a region begins and ends, as shares of a side: beyond both ends too. */
const span = fc.tuple(
  fc.double({ min: -0.5, max: 0.9, noNaN: true }),
  fc.double({ min: 0.01, max: 1.6, noNaN: true }),
);

describe('the resampling in WebAssembly', () => {
  it('gives the pixels of the one in JavaScript: any sizes, any region, both interpolations', () => {
    fc.assert(
      fc.property(
        sizes,
        sizes,
        patterns,
        fc.nat(),
        span,
        span,
        kinds,
        (from, to, pattern, seed, [x, w], [y, h], kind) => {
          const left = Math.round(x * to.width);
          const top = Math.round(y * to.height);
          const width = Math.max(1 - Math.min(left, 0), Math.round(w * to.width));
          const height = Math.max(1 - Math.min(top, 0), Math.round(h * to.height));
          fc.pre(left < to.width && top < to.height);
          expectTwins(paint(from, pattern, seed), to, { left, top, width, height }, kind);
        },
      ),
      { numRuns: 250 },
    );
  });

  it('leaves an axis alone that keeps its size', () => {
    fc.assert(
      fc.property(sizes, side, fc.boolean(), patterns, kinds, (from, other, isWidth, pattern, kind) => {
        const to = isWidth ? { ...from, width: other } : { ...from, height: other };
        expectTwins(paint(from, pattern), to, { left: 0, top: 0, ...to }, kind);
      }),
      { numRuns: 100 },
    );
  });

  it.each<[string, Size, Size]>([
    [
      'a photo of 20 megapixels, in hundreds of strips',
      { width: 5000, height: 4000 },
      { width: 280, height: 224 },
    ],
    ['rows longer than a strip', { width: 70_001, height: 9 }, { width: 501, height: 31 }],
    ['a column', { width: 1, height: 50_000 }, { width: 3, height: 777 }],
    ['a result longer than a strip', { width: 40, height: 7 }, { width: 60_000, height: 10 }],
  ])('takes %s', (_what, from, to) => {
    const image = paint(from, 'noise');
    for (const kind of ['bilinear', 'bicubic'] as const) {
      expectTwins(image, to, { left: 0, top: 0, ...to }, kind);
      const crop = { width: Math.ceil(to.width / 2), height: Math.ceil(to.height / 2) };
      expectTwins(image, to, { left: to.width >> 2, top: to.height >> 2, ...crop }, kind);
    }
  });

  it('holds a few hundred KiB for photos of any size', () => {
    const own = createSimdResampler()!;
    for (const side of [500, 5000, 16_000]) {
      // The size alone matters: every row is the same one.
      const image = { width: side, height: 64, data: new Uint8Array(side * 64 * 3) };
      const size = { width: 224, height: 64 };
      const region = { left: 0, top: 0, width: 224, height: 64 };
      expect(own.run(image, planResample(image, size, region, 'bicubic'), new Uint8Array(224 * 64 * 3))).toBe(
        true,
      );
    }
    expect(own.memoryBytes).toBeLessThan(1_000_000);
  });

  it('leaves rows of millions of pixels to JavaScript, and goes on', () => {
    const wide = paint({ width: 6_000_000, height: 1 }, 'stripes');
    const size = { width: 50, height: 1 };
    const region = { left: 0, top: 0, ...size };
    expect(simd.run(wide, planResample(wide, size, region, 'bilinear'), new Uint8Array(150))).toBe(false);
    expect(resample(wide, size, region, 'bilinear').data).toEqual(inJs(wide, size, region, 'bilinear').data);
    expectTwins(
      paint({ width: 9, height: 9 }, 'noise'),
      { width: 4, height: 5 },
      { left: 0, top: 0, width: 4, height: 5 },
      'bicubic',
    );
  });
});

describe.each([
  ['WebAssembly', inWasm],
  ['JavaScript', inJs],
])('into, in %s', (_name, twin) => {
  const image = paint({ width: 61, height: 47 }, 'noise');
  const region = { left: -3, top: 5, width: 40, height: 50 };
  const bytes = region.width * region.height * 3;

  it.each<[string, Size]>([
    ['both passes', { width: 30, height: 35 }],
    ['one pass', { width: 61, height: 35 }],
    ['no pass', { width: 61, height: 47 }],
  ])('takes the pixels of %s, in a slot of shared memory', (_what, size) => {
    const shared = new Uint8Array(new SharedArrayBuffer(3 * bytes)).fill(77);
    const slot = shared.subarray(bytes, 2 * bytes);
    const result = twin(image, size, region, 'bicubic', slot);
    expect(result.data).toBe(slot);
    // Padding included, whatever lay there; neighbours not.
    expect(Buffer.compare(slot, twin(image, size, region, 'bicubic').data)).toBe(0);
    expect(shared.subarray(0, bytes).every((byte) => byte === 77)).toBe(true);
    expect(shared.subarray(2 * bytes).every((byte) => byte === 77)).toBe(true);
  });

  it('reads an image in shared memory', () => {
    const data = new Uint8Array(new SharedArrayBuffer(image.data.length));
    data.set(image.data);
    const size = { width: 30, height: 35 };
    const copy = twin({ ...image, data }, size, region, 'bilinear');
    expect(Buffer.compare(copy.data, twin(image, size, region, 'bilinear').data)).toBe(0);
  });

  it('is refused unless it has the region’s size', () => {
    for (const length of [bytes - 1, bytes + 1]) {
      expect(() =>
        twin(image, { width: 30, height: 35 }, region, 'bilinear', new Uint8Array(length)),
      ).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
    }
  });

  it('is an array of its own if it is not given, also where nothing is resized', () => {
    const whole = { left: 0, top: 0, width: 61, height: 47 };
    const copy = twin(image, image, whole, 'bilinear').data;
    expect(Buffer.compare(copy, image.data)).toBe(0);
    expect(copy.buffer).not.toBe(image.data.buffer);
  });
});

describe('without WebAssembly SIMD', () => {
  const image = paint({ width: 50, height: 40 }, 'noise');
  const size = { width: 20, height: 21 };
  const region = { left: 0, top: 0, ...size };
  afterEach(() => vi.unstubAllGlobals());

  it.each([
    ['the module is not valid', { validate: () => false }],
    ['there is no address space for its memory', { validate: () => true, Module: Object, Instance: failing }],
  ])('JavaScript is taken: %s', (_why, api) => {
    const start = vi.fn(() =>
      createSimdResampler(api as unknown as Parameters<typeof createSimdResampler>[0]),
    );
    const twin = createResample(start);
    expect(start).not.toHaveBeenCalled();
    for (let i = 0; i < 2; i++) {
      expect(twin(image, size, region, 'bilinear').data).toEqual(
        inWasm(image, size, region, 'bilinear').data,
      );
    }
    expect(start).toHaveBeenCalledTimes(1);
    expect(start).toHaveReturnedWith(null);
  });

  it('JavaScript is taken: there is no WebAssembly (node --jitless)', () => {
    vi.stubGlobal('WebAssembly', undefined);
    expect(createSimdResampler()).toBeNull();
  });

  it('errors that are not about memory are told', () => {
    const broken = { validate: () => true, Module: Broken, Instance: Object };
    expect(() => createSimdResampler(broken as unknown as Parameters<typeof createSimdResampler>[0])).toThrow(
      'broken',
    );
  });
});

function failing(): never {
  throw new RangeError('WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance');
}

class Broken {
  constructor() {
    throw new TypeError('broken');
  }
}
