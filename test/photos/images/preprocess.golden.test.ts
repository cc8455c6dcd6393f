/** Pixels and floats compared with Pillow and torchvision by hash: equal to the last bit. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../../src/photos/images/decode/decode.js';
import { cropOf, resizedSize } from '../../../src/photos/images/pixels/geometry.js';
import type { RgbImage } from '../../../src/photos/images/pixels/rgb-image.js';
import { createResample } from '../../../src/photos/images/resample/resample.js';
import { startSimdModule, type SimdModule } from '../../../src/photos/images/simd/simd-module.js';
import {
  TRANSFORM_PRESETS,
  type TransformOptions,
  type TransformPreset,
} from '../../../src/photos/images/transform/transform-options.js';
import { loadImage } from '../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../src/photos/feeds/create-transform.js';
import { fixturePath, sharedFixtures } from '../../support/fixtures.js';

interface Expected {
  readonly images: Readonly<
    Record<
      string,
      {
        readonly decoded_rgb_sha256: string;
        readonly policy?: string;
        readonly presets: Readonly<
          Record<string, { readonly sha256: string; readonly chw_float32_sha256?: string }>
        >;
        readonly presets_after_exif_transpose?: Readonly<
          Record<string, { readonly sha256: string } | string>
        >;
      }
    >
  >;
  readonly bad: Readonly<Record<string, { readonly expect: readonly string[] }>>;
}

const PRESETS = {
  v1: 'ImageNet1K_V1',
  v2: 'ImageNet1K_V2',
  bicubic256: 'Bicubic256',
  squash224: 'Squash224',
} as const;
const OPTIONS: Readonly<Record<string, Partial<TransformOptions>>> = {
  v1: {},
  v2: { resize: 232 },
  bicubic256: { interpolation: 'bicubic' },
  squash224: { resize: { height: 224, width: 224 }, crop: null },
};
const LIMIT = 178_956_970;
const BAD = {
  'bomb_32768x32768.png': 'IMAGE_TOO_LARGE',
  'crc.png': 'IMAGE_UNREADABLE',
  'header_only.jpg': 'IMAGE_TRUNCATED',
  'text.jpg': 'IMAGE_UNREADABLE',
  'truncated.jpg': 'IMAGE_TRUNCATED',
  'truncated.png': 'IMAGE_TRUNCATED',
  'zero.jpg': 'IMAGE_EMPTY',
} as const;

/** Both implementations; `loadImage` uses the first one if it is available. */
const TWINS = [
  ['WebAssembly', startSimdModule()],
  ['JavaScript', null],
] as const;

function transformed(image: RgbImage, preset: TransformPreset, simd: SimdModule | null): RgbImage {
  const { resize, crop, interpolation } = createTransform(preset).options;
  const sampling = { interpolation, resampler: 'pillow' } as const;
  const size = resizedSize(image, resize);
  const side = typeof crop === 'number' ? { height: crop, width: crop } : crop;
  return createResample(() => simd)(image, size, cropOf(size, side), sampling);
}

function sha256(data: Uint8Array | Float32Array): string {
  return createHash('sha256')
    .update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    .digest('hex');
}

const folders = [
  fixturePath('preprocess'),
  ...(sharedFixtures === undefined ? [] : [join(sharedFixtures, 'preprocess')]),
];

describe.each(folders)('preprocessing, %s', (folder) => {
  const expected = JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8')) as Expected;
  const images = Object.entries(expected.images).filter(([name]) => existsSync(join(folder, 'images', name)));

  it('has images', () => expect(images.length).toBeGreaterThan(15));
  it('runs in WebAssembly too', () => expect(TWINS[0][1]).not.toBeNull());

  it.each(images)('%s is Pillow’s and torchvision’s', async (name, image) => {
    const file = join(folder, 'images', name);
    const decoded = await decodeImage(file, TRANSFORM_PRESETS.ImageNet1K_V1);
    expect(sha256(decoded.data)).toBe(image.decoded_rgb_sha256);
    for (const [preset, answer] of Object.entries(image.presets)) {
      const loaded = await loadImage(file, PRESETS[preset as keyof typeof PRESETS]);
      expect(loaded).toMatchObject({ height: 224, width: 224 });
      expect(sha256(loaded.data), preset).toBe(answer.sha256);
      if (answer.chw_float32_sha256 !== undefined)
        expect(sha256(loaded.toTensor().data)).toBe(answer.chw_float32_sha256);
      for (const [twin, simd] of TWINS) {
        const pixels = transformed(decoded, PRESETS[preset as keyof typeof PRESETS], simd);
        expect(sha256(pixels.data), `${preset}, ${twin}`).toBe(answer.sha256);
      }
    }
    for (const [preset, answer] of Object.entries(image.presets_after_exif_transpose ?? {})) {
      const upright = createTransform({ ...OPTIONS[preset], orientation: 'exif' });
      expect(sha256((await loadImage(file, upright)).data)).toBe(
        typeof answer === 'string' ? answer : answer.sha256,
      );
    }
  });

  const bad = readdirSync(join(folder, 'bad')).filter((name) => expected.bad[name]);
  it.each(bad)('%s is refused', async (name) => {
    const code = BAD[name as keyof typeof BAD];
    expect(code === 'IMAGE_TOO_LARGE').toBe(expected.bad[name]!.expect.includes('too-large'));
    await expect(loadImage(join(folder, 'bad', name))).rejects.toMatchObject({ code });
  });
});

describe('a decompression bomb', () => {
  it('is refused from its header, without memory for its pixels', async () => {
    const before = process.memoryUsage.rss();
    await expect(loadImage(fixturePath('preprocess/bad/bomb_32768x32768.png'))).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      details: { limitPixels: LIMIT },
    });
    expect(process.memoryUsage.rss() - before).toBeLessThan(100e6);
  });
});
