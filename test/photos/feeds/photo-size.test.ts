/** The transform of a model at another size. */
import { existsSync, readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkPhotoSize, fitSize, parseSize, type PhotoSize } from '../../../src/photos/feeds/photo-size.js';
import { loadImage } from '../../../src/photos/feeds/load-image.js';
import { createTransform, type TransformLike } from '../../../src/photos/feeds/create-transform.js';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { sharedFixtures, sharedNote } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

const convolution = (side: number | string) =>
  openModel(
    modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, side, side] }],
      outputs: [{ name: 'y', dims: ['n', 8, 'r', 'c'] }],
      initializers: { w: { dims: [8, 3, 16, 16], values: Array.from({ length: 8 * 3 * 256 }, () => 0) } },
      nodes: [
        {
          op: 'Conv',
          inputs: ['x', 'w'],
          outputs: ['y'],
          ints: { strides: [16, 16], kernel_shape: [16, 16] },
        },
      ],
    }),
  );
const sized = async (transform: TransformLike, size: PhotoSize, side: number | string = 'side') => {
  const { resize, crop } = fitSize(createTransform(transform), size, await convolution(side)).options;
  return { resize, crop };
};

describe('a size', () => {
  it('keeps the ratio of a transform that keeps it, unless both sides are asked for', async () => {
    const kept = { resize: { fit: 'nearest', height: 126, width: 98, multiple: 14 }, crop: null } as const;
    const { resize } = await sized(kept, 70);
    expect(resize).toEqual({ fit: 'nearest', height: 70, width: 70, multiple: 14 });
    expect(await sized(kept, { height: 70, width: 56 })).toEqual({
      resize: { height: 70, width: 56 },
      crop: null,
    });
  });

  it('keeps the ratio of resize and crop, as timm’s crop_pct', async () => {
    const square = (side: number) => ({ height: side, width: side });
    expect(await sized('ImageNet1K_V1', 448)).toEqual({ resize: 512, crop: square(448) });
    expect(await sized('ImageNet1K_V2', 448)).toEqual({ resize: 464, crop: square(448) });
    expect(await sized('Squash224', 448)).toEqual({ resize: square(448), crop: null });
    expect(await sized('ImageNet1K_V1', { height: 448, width: 672 })).toEqual({
      resize: { fit: 'outside', height: 512, width: 768 },
      crop: { height: 448, width: 672 },
    });
    expect(await sized({ resize: square(248), crop: 224 }, 112)).toEqual({
      resize: square(124),
      crop: square(112),
    });
  });

  it('of one side keeps the photo’s ratio, in multiples of the model’s patch', async () => {
    expect(await sized('ImageNet1K_V1', { height: 448 })).toEqual({
      resize: { height: 448, multiple: 16 },
      crop: null,
    });
    expect(await sized('ImageNet1K_V1', { longest: 448, multiple: 14 })).toEqual({
      resize: { longest: 448, multiple: 14 },
      crop: null,
    });
    expect(await sized('ImageNet1K_V1', { multiple: 14 })).toEqual({ resize: { multiple: 14 }, crop: null });
  });

  it('is refused by a graph whose sides are fixed, with these', async () => {
    const refused = expect.objectContaining({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('224 × 224'),
    });
    await expect(sized('ImageNet1K_V1', 448, 224)).rejects.toEqual(refused);
    await expect(sized('ImageNet1K_V1', { shortest: 448 }, 224)).rejects.toEqual(refused);
    await expect(sized('ImageNet1K_V1', 224, 224)).resolves.toMatchObject({ resize: 256 });
  });

  it('has several spellings, and no others', () => {
    const parsed = ['448', '512x768', 'height:448', 'shortest:448', 'longest:448'].map((text) =>
      checkPhotoSize('size', parseSize(text)),
    );
    expect(parsed).toEqual([
      448,
      { height: 512, width: 768 },
      { height: 448 },
      { shortest: 448 },
      { longest: 448 },
    ]);
    for (const wrong of [
      'large',
      '0',
      '512x',
      'width:448',
      { height: 1, width: 2, multiple: 3 },
      { width: 4 },
      [4, 4],
      null,
    ])
      expect(
        () => checkPhotoSize('size', typeof wrong === 'string' ? parseSize(wrong) : wrong),
        JSON.stringify(wrong),
      ).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});

const root = join(sharedFixtures ?? '', 'patches');
const isHere = existsSync(join(root, 'cases.json'));
const readJson = <Json>(path: string): Json => JSON.parse(readFileSync(path, 'utf8')) as Json;

describe.skipIf(!isHere)(`any size${sharedNote}`, () => {
  it('is that of DINOv3’s notebooks, bit for bit', async () => {
    const transform = createTransform({ resize: { height: 256, multiple: 16 }, crop: null });
    const { images: places } = readJson<{ images: Record<string, string> }>(join(root, 'cases.json'));
    const { backends } = readJson<{
      backends: {
        pil: {
          images: Record<
            string,
            {
              rgb: {
                pixel_values?: { shape: number[]; sha256: string; sha256_pillow13?: string };
                error?: string;
              };
            }
          >;
        };
      };
    }>(join(root, 'expected/dinov3-keep-aspect-256.json'));
    for (const [image, { rgb }] of Object.entries(backends.pil.images)) {
      const loading = loadImage(join(sharedFixtures!, places[image]!), transform);
      if (!rgb.pixel_values) {
        await expect(loading, image).rejects.toMatchObject({ code: 'IMAGE_MISFIT' });
        continue;
      }
      const { dims, data } = (await loading).toTensor();
      const sha256 = createHash('sha256').update(new Uint8Array(data.buffer)).digest('hex');
      expect({ image, dims: dims.slice(-3), sha256 }).toEqual({
        image,
        dims: rgb.pixel_values.shape.slice(-3),
        sha256: rgb.pixel_values.sha256,
      });
    }
  });

  it('is refused by a table of positions that was frozen for one size, which the message names', async () => {
    const model = await openModel(join(root, 'models/dinov2-registers-frozen/dinov2-registers-frozen.onnx'));
    const only = createTransform({ resize: { height: 70, width: 84 }, crop: null });
    expect(fitSize(only, undefined, model)).toBe(only);
    for (const size of [{ height: 140, width: 42 }, { height: 84, width: 70 }, 56, { shortest: 70 }] as const)
      expect(() => fitSize(only, size, model)).toThrow(
        expect.objectContaining({ code: 'SIZE_FIXED', details: { height: 70, width: 84 } }),
      );
    for (const name of ['dinov2-registers-tiny', 'dinov3-tiny']) {
      const open = await openModel(join(root, `models/${name}/${name}.onnx`));
      expect(fitSize(only, { shortest: 70 }, open).options.resize).toEqual({
        shortest: 70,
        multiple: name.startsWith('dinov2') ? 14 : 16,
      });
    }
  });
});
