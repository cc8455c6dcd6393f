/** The resampling on WebAssembly SIMD compared with the one in JavaScript. Covers resample-js.ts, resample-simd.ts and simd-layout.ts, too. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Region, Size } from '../../../../src/photos/images/pixels/geometry.js';
import { planResample } from '../../../../src/photos/images/resample/resample-plan.js';
import { resampleInSimd } from '../../../../src/photos/images/resample/resample-simd.js';
import type { RgbImage } from '../../../../src/photos/images/pixels/rgb-image.js';
import type { Sampling } from '../../../../src/photos/images/resample/kernel.js';
import { createResample, resample, takesRowsFirst } from '../../../../src/photos/images/resample/resample.js';
import { startSimdModule, type WebAssemblyApi } from '../../../../src/photos/images/simd/simd-module.js';
import { BICUBIC, BILINEAR, samplings } from '../../../support/samplings.js';

const inJs = createResample(() => null);
const { WebAssembly: api } = globalThis as unknown as { WebAssembly: WebAssemblyApi };
/** Whether a pass was called since the last reset. */
const called = { columns: false, rows: false };
/** One instance for all images of this file, with its calls recorded. */
const simd = startSimdModule({
  validate: api.validate,
  Module: api.Module,
  Instance: class {
    readonly exports: Readonly<Record<string, unknown>>;

    constructor(module: object) {
      const exports = new api.Instance(module).exports as Record<string, (...given: unknown[]) => unknown>;
      const watched = (name: 'columns' | 'rows') => ({
        [name]: (...given: unknown[]): void => {
          called[name] = true;
          exports[name]!(...given);
        },
      });
      this.exports = { ...exports, ...watched('columns'), ...watched('rows') };
    }
  },
})!;
const inWasm = createResample(() => simd);

/** Patterns that stress sums and clipping, and noise. */
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

function expectTwins(image: RgbImage, size: Size, region: Region, kind: Sampling): void {
  const expected = inJs(image, size, region, kind);
  Object.assign(called, { columns: false, rows: false });
  const actual = inWasm(image, size, region, kind);
  expect(actual).toMatchObject({ height: region.height, width: region.width });
  expect(Buffer.compare(actual.data, expected.data)).toBe(0);
  const changed = { columns: image.width !== size.width, rows: image.height !== size.height };
  // Where the vertical pass comes first, the image lies on its side.
  const isTurned = takesRowsFirst(image, size, kind);
  expect(called).toEqual(isTurned ? { columns: changed.rows, rows: changed.columns } : changed);
}

const patterns = fc.constantFrom(...Object.keys(PATTERNS));
/** Often small, so that weights are cut off at both edges. */
const side = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 700 }));
const sizes = fc.record({ width: side, height: side });
/** Start and length of a region as fractions of a side; it may reach beyond both ends. */
const span = fc.tuple(
  fc.double({ min: -0.5, max: 0.9, noNaN: true }),
  fc.double({ min: 0.01, max: 1.6, noNaN: true }),
);

describe('the resampling in WebAssembly', () => {
  it('gives the pixels of JavaScript: any sizes, any region, every interpolation', () => {
    fc.assert(
      fc.property(
        sizes,
        sizes,
        patterns,
        fc.nat(),
        span,
        span,
        samplings,
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

  it('does not resample an axis that keeps its size', () => {
    fc.assert(
      fc.property(sizes, side, fc.boolean(), patterns, samplings, (from, other, isWidth, pattern, kind) => {
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
  ])('handles %s', (_what, from, to) => {
    const image = paint(from, 'noise');
    for (const kind of [BILINEAR, BICUBIC]) {
      expectTwins(image, to, { left: 0, top: 0, ...to }, kind);
      const crop = { width: Math.ceil(to.width / 2), height: Math.ceil(to.height / 2) };
      expectTwins(image, to, { left: to.width >> 2, top: to.height >> 2, ...crop }, kind);
    }
  });

  it('needs at most 1.5 MB of memory, even for photos of 16000 × 16000', () => {
    const own = startSimdModule()!;
    const into = new Uint8Array(224 * 64 * 3);
    for (const width of [500, 5000, 16_000]) {
      // With fewer rows than the photo, but the same scale, the layout is the same.
      const image = { width, height: 640, data: new Uint8Array(width * 640 * 3) };
      const size = { width: 224, height: 9 };
      const plan = planResample(image, size, { left: 0, top: 0, ...size }, BICUBIC);
      expect(resampleInSimd(own, image, plan, into)).toBe(true);
    }
    expect(own.memoryBytes).toBeLessThan(1_500_000);
  });

  it('leaves rows of millions of pixels to JavaScript, and works afterwards', () => {
    const wide = paint({ width: 6_000_000, height: 1 }, 'stripes');
    const size = { width: 50, height: 1 };
    const region = { left: 0, top: 0, ...size };
    const plan = planResample(wide, size, region, BILINEAR);
    expect(resampleInSimd(simd, wide, plan, new Uint8Array(150))).toBe(false);
    expect(inWasm(wide, size, region, BILINEAR).data).toEqual(inJs(wide, size, region, BILINEAR).data);
    expectTwins(
      paint({ width: 9, height: 9 }, 'noise'),
      { width: 4, height: 5 },
      { left: 0, top: 0, width: 4, height: 5 },
      BICUBIC,
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
  ])('receives the pixels of %s, in a slot of shared memory', (_what, size) => {
    const shared = new Uint8Array(new SharedArrayBuffer(3 * bytes)).fill(77);
    const slot = shared.subarray(bytes, 2 * bytes);
    const result = twin(image, size, region, BICUBIC, slot);
    expect(result.data).toBe(slot);
    // Including the padding, over old contents, but without the neighbours.
    expect(Buffer.compare(slot, twin(image, size, region, BICUBIC).data)).toBe(0);
    expect(shared.subarray(0, bytes).every((byte) => byte === 77)).toBe(true);
    expect(shared.subarray(2 * bytes).every((byte) => byte === 77)).toBe(true);
  });

  it('reads an image in shared memory', () => {
    const data = new Uint8Array(new SharedArrayBuffer(image.data.length));
    data.set(image.data);
    const size = { width: 30, height: 35 };
    const copy = twin({ ...image, data }, size, region, BILINEAR);
    expect(Buffer.compare(copy.data, twin(image, size, region, BILINEAR).data)).toBe(0);
  });

  it('is refused unless it has the region’s size', () => {
    for (const length of [bytes - 1, bytes + 1]) {
      expect(() => twin(image, { width: 30, height: 35 }, region, BILINEAR, new Uint8Array(length))).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      );
    }
  });

  it('is a new array by default, even if nothing is resized', () => {
    const whole = { left: 0, top: 0, width: 61, height: 47 };
    const copy = twin(image, image, whole, BILINEAR).data;
    expect(Buffer.compare(copy, image.data)).toBe(0);
    expect(copy.buffer).not.toBe(image.data.buffer);
  });
});

describe('resample', () => {
  const image = fc
    .record({ width: fc.integer({ min: 1, max: 24 }), height: fc.integer({ min: 1, max: 24 }) })
    .chain(({ width, height }) =>
      fc
        .uint8Array({ minLength: width * height * 3, maxLength: width * height * 3 })
        .map((data) => ({ width, height, data })),
    );
  const side = fc.integer({ min: 1, max: 40 });
  const smooth = fc.constantFrom(BILINEAR, BICUBIC);

  it('gives a region the pixels that it has in the whole image', () => {
    fc.assert(
      fc.property(image, side, side, fc.nat(), fc.nat(), samplings, (source, width, height, x, y, kind) => {
        const size = { width, height };
        const whole = resample(source, size, { top: 0, left: 0, ...size }, kind);
        const [left, top] = [x % width, y % height];
        const part = resample(source, size, { top, left, width: width - left, height: height - top }, kind);
        for (let row = 0; row < part.height; row++) {
          const from = ((top + row) * width + left) * 3;
          expect(part.data.subarray(row * part.width * 3, (row + 1) * part.width * 3)).toEqual(
            whole.data.subarray(from, from + part.width * 3),
          );
        }
      }),
      { numRuns: 300 },
    );
  });

  // Rows on which the shares 0.54 and 0.46 of the Hamming window give another byte in double precision than in Pillow's single precision.
  it.each([
    [
      [25, 152, 164, 195, 255, 4, 164, 204, 70],
      [124, 167, 147],
    ],
    [
      [30, 87, 247, 43, 255, 156, 81, 73, 158, 74, 171, 30],
      [112, 167, 101, 107],
    ],
    [
      [229, 55, 69, 150, 24, 255, 181, 20, 197, 227, 119, 58, 43],
      [167, 75, 83, 223, 70, 208, 120, 48],
    ],
  ])('gives the Hamming pixels of Pillow for %j', (row, expected) => {
    const grey = (bytes: readonly number[]): Uint8Array => Uint8Array.from(bytes.flatMap((b) => [b, b, b]));
    const size = { width: expected.length, height: 1 };
    const source = { width: row.length, height: 1, data: grey(row) };
    const sampling = { interpolation: 'hamming', resampler: 'pillow' } as const;
    const { data } = resample(source, size, { top: 0, left: 0, ...size }, sampling);
    expect([...data]).toEqual([...grey(expected)]);
  });

  it('keeps an image of the same size, and keeps a flat colour flat', () => {
    fc.assert(
      fc.property(image, (source) => {
        const same = resample(
          source,
          source,
          { top: 0, left: 0, width: source.width, height: source.height },
          BICUBIC,
        );
        expect(Buffer.compare(same.data, source.data)).toBe(0);
      }),
    );
    fc.assert(
      fc.property(side, side, side, side, fc.nat(255), smooth, (width, height, w, h, value, kind) => {
        const flat = { width, height, data: new Uint8Array(width * height * 3).fill(value) };
        const out = resample(flat, { width: w, height: h }, { top: 0, left: 0, width: w, height: h }, kind);
        expect(out.data.every((byte) => byte === value)).toBe(true);
      }),
    );
  });

  it('pads with a colour, black by default, if the region is larger than the image', () => {
    const one = { width: 1, height: 1, data: Uint8Array.of(9, 8, 7) };
    const padded = resample(one, one, { top: -1, left: -1, width: 3, height: 2 }, BILINEAR);
    expect([...padded.data]).toEqual([...Array.from({ length: 12 }, () => 0), 9, 8, 7, 0, 0, 0]);
    const red = resample(
      one,
      one,
      { top: 0, left: 0, width: 2, height: 1 },
      BILINEAR,
      undefined,
      [255, 1, 2],
    );
    expect([...red.data]).toEqual([9, 8, 7, 255, 1, 2]);
  });

  it.each([
    [{ width: 40, height: 48 }, 'bilinear', '7a0bb8195157bad9'],
    [{ width: 40, height: 48 }, 'bicubic', '3f1eeccb48b0ab07'],
    // Twice as many rows as columns are lost, but not more.
    [{ width: 40, height: 161 }, 'bilinear', 'd12a06f6e6945697'],
  ] as const)('takes the passes in the order of Pillow 13: %o, %s', (size, interpolation, expected) => {
    const source = paint({ width: 61, height: 203 }, 'noise');
    const region =
      size.height === 48 ? { left: -3, top: 5, width: 38, height: 55 } : { left: 0, top: 0, ...size };
    const { data } = resample(source, size, region, { interpolation, resampler: 'pillow-13' });
    // Image.resize(size, filter).crop(box) of Pillow 13.
    expect(createHash('sha256').update(data).digest('hex').slice(0, 16)).toBe(expected);
  });
});
