/** Clips and photos of torchvision's weights of other tasks, bit for bit (shared/fixtures/zoo2), and what loadClip refuses. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { transformFromConfig } from '../../../src/photos/images/configs/transform-from-config.js';
import { loadClip } from '../../../src/photos/feeds/load-clip.js';
import { loadImage } from '../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../src/photos/feeds/create-transform.js';
import { projectPath, sharedFixtures, sharedNote } from '../../support/fixtures.js';

interface Expected {
  readonly shape: readonly number[];
  readonly f32_sha256: string;
}

interface Presets {
  readonly images: Readonly<Record<string, string>>;
  readonly segmentation: Readonly<Record<string, Readonly<Record<string, Expected>>>>;
  readonly video: Readonly<Record<string, Expected>>;
  readonly clip: { readonly frames: readonly string[] };
}

const sea = projectPath('examples/photos/sea/sea-0.jpg');
const presets =
  sharedFixtures === undefined
    ? undefined
    : (JSON.parse(readFileSync(join(sharedFixtures, 'zoo2/presets.json'), 'utf8')) as Presets);

const digestOf = ({ data: { buffer, byteOffset, byteLength } }: { readonly data: Float32Array }): string =>
  createHash('sha256')
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest('hex');

describe(`pixels of torchvision’s weights of other tasks${sharedNote}`, () => {
  const photos = Object.entries(presets?.segmentation ?? {}).flatMap(([weights, images]) =>
    Object.entries(images).map(([image, expected]) => ({ weights, image, expected })),
  );

  it.each(photos)('$weights: $image', async ({ weights, image, expected }) => {
    const path = join(sharedFixtures!, presets!.images[image]!);
    const tensor = (await loadImage(path, transformFromConfig(`torchvision:${weights}`))).toTensor();
    expect([tensor.dims, digestOf(tensor)]).toEqual([expected.shape, expected.f32_sha256]);
  });

  const clips = Object.entries(presets?.video ?? {}).map(([weights, expected]) => ({ weights, expected }));

  it.each(clips)('$weights: frames', async ({ weights, expected }) => {
    const frames = presets!.clip.frames.map((name) => join(sharedFixtures!, 'zoo2/clip', name));
    const tensor = (await loadClip(frames, transformFromConfig(`torchvision:${weights}`))).toTensor();
    expect([tensor.dims, digestOf(tensor)]).toEqual([expected.shape, expected.f32_sha256]);
  });

  it('scales only for detectors', () => {
    const { options } = transformFromConfig('torchvision:FCOS_ResNet50_FPN_Weights.DEFAULT');
    expect(options).toMatchObject({ resize: null, crop: null, mean: null, std: null, scale: 1 / 255 });
  });
});

describe('loadClip', () => {
  const small = { resize: 32, crop: 24 };

  it('takes frames from a start in strides, channels before time', async () => {
    const frames = Array.from({ length: 6 }, (_, at) => projectPath(`examples/photos/sea/sea-${at % 2}.jpg`));
    const clip = await loadClip(frames, small, { start: 1, stride: 2, frames: 2 });
    const { dims, data } = clip.toTensor();
    expect(dims).toEqual([1, 3, 2, 24, 24]);
    const { data: frame } = (await loadImage(frames[3]!, small)).toTensor();
    const pixels = 24 * 24;
    for (const channel of [0, 1, 2])
      expect(data.subarray((2 * channel + 1) * pixels, (2 * channel + 2) * pixels)).toEqual(
        frame.subarray(channel * pixels, (channel + 1) * pixels),
      );
    expect((await loadClip(frames, small, { stride: 3 })).images).toHaveLength(2);
  });

  it('refuses fewer frames than asked for, and frames of unlike sizes', async () => {
    await expect(loadClip([sea], small, { frames: 2 })).rejects.toMatchObject({ code: 'IMAGE_MISFIT' });
    await expect(loadClip([], small)).rejects.toMatchObject({ code: 'IMAGE_MISFIT' });
    const other = projectPath('test/fixtures/preprocess/images/enlarge_100x75.jpg');
    await expect(loadClip([sea, other], small)).rejects.toMatchObject({ code: 'IMAGE_MISFIT' });
    await expect(loadClip([sea], small, { stride: 0 })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it.each(['nchw', 'nhwc'] as const)('refuses several crops of a frame, %s', async (layout) => {
    const crops = loadClip([sea], { ...small, crops: 'five', layout });
    await expect(crops).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'crops' } });
  });

  it('takes antialias: false with torch’s arithmetic only', () => {
    expect(() => createTransform({ antialias: false })).toThrow('antialias');
    expect(() => createTransform({ antialias: false, resampler: 'torch', interpolation: 'bicubic' })).toThrow(
      'antialias',
    );
    expect(createTransform({ antialias: false, resampler: 'torch' }).options.antialias).toBe(false);
  });
});
