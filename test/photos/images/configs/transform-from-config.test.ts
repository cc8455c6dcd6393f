/** Configurations → pixels, against the libraries themselves: bit for bit, by hash. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { transformFromConfig } from '../../../../src/photos/images/configs/transform-from-config.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { fixturePath, sharedFixtures, sharedNote } from '../../../support/fixtures.js';

interface Golden {
  readonly images: Readonly<Record<string, string>>;
  readonly cases: readonly {
    readonly name: string;
    readonly library: string;
    readonly weights?: string;
    readonly config: unknown;
    readonly model?: Readonly<Record<string, unknown>>;
    readonly expected: readonly {
      readonly backend: 'pil' | 'torchvision';
      readonly image: string;
      readonly shape: readonly number[];
      readonly bytes: string | null;
      readonly floats: string;
    }[];
  }[];
  readonly refused: readonly { readonly name: string; readonly reason: string; readonly text: string }[];
}

const readGolden = (file: string): Golden =>
  JSON.parse(readFileSync(fixturePath(`transforms/${file}`), 'utf8')) as Golden;
const golden = readGolden('golden.json');
/** Processors of transformers 5.24 whose results have one size. */
const fixed = readGolden('fixed-sizes.json');
/** Fields that few files have. */
const odd = JSON.parse(readFileSync(fixturePath('transforms/odd-fields.json'), 'utf8')) as {
  readonly cases: readonly {
    readonly name: string;
    readonly fields: Readonly<Record<string, unknown>>;
    readonly tensors: readonly (readonly [
      'pil' | 'torchvision',
      string,
      string,
      readonly number[],
      string,
    ])[];
  }[];
};
const images = { ...golden.images, ...fixed.images };

function pathOf(image: string): string | undefined {
  const path = images[image]!;
  const places = [fixturePath(`preprocess/images/${basename(path)}`), join(sharedFixtures ?? '', path)];
  return places.find(existsSync);
}

const hash = (data: Uint8Array | Float32Array): string =>
  createHash('sha256')
    .update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    .digest('hex')
    .slice(0, 16);

/** Twelve megapixels: once is enough. */
const LARGE = 'large_4000x3000.jpg';
const isTried = (name: string, image: string): boolean => image !== LARGE || name.startsWith('clip-vit');

describe(`transformFromConfig${sharedNote}`, () => {
  it.each([...golden.cases, ...fixed.cases])(
    '$name gives the bits of $library',
    async ({ name, library, config, model, expected }) => {
      let tried = 0;
      for (const { backend, image, shape, bytes, floats } of expected) {
        const path = pathOf(image);
        if (path === undefined || !isTried(name, image)) continue;
        const reading = library === 'transformers' ? { backend, model } : {};
        const loaded = await loadImage(path, transformFromConfig(config, reading));
        const tensor = loaded.toTensor();
        const label = `${backend} ${image}`;
        expect.soft(tensor.dims, label).toEqual([1, ...shape]);
        if (bytes !== null) expect.soft(hash(loaded.data), `bytes, ${label}`).toBe(bytes);
        expect.soft(hash(tensor.data), `floats, ${label}`).toBe(floats);
        tried++;
      }
      expect(tried).toBeGreaterThan(3);
    },
  );

  it.each(golden.cases.filter(({ weights }) => weights))('knows $weights by name', ({ weights, config }) => {
    const named = transformFromConfig(`torchvision:${weights}`);
    expect(named.options).toEqual(transformFromConfig(config).options);
    expect(named.source).toMatchObject({ kind: 'torchvision' });
  });

  it.each([
    ['ResNet50', 'IMAGENET1K_V2'],
    ['EfficientNet_B1', 'IMAGENET1K_V2'],
    ['ViT_B_16', 'IMAGENET1K_V1'],
    ['VGG16', 'IMAGENET1K_V1'],
    ['RegNet_Y_128GF', 'IMAGENET1K_SWAG_E2E_V1'],
  ])("knows torchvision's DEFAULT weights of %s: %s", (network, version) => {
    const [meant, stated] = ['DEFAULT', version].map((one) =>
      transformFromConfig(`torchvision:${network}_Weights.${one}`),
    );
    expect(meant!.options).toEqual(stated!.options);
  });

  it('says how names of weights look, or names those of the nearest network', () => {
    expect(() => transformFromConfig('torchvision:my_own_network')).toThrow(
      /such as "torchvision:ResNet50_Weights.DEFAULT"/,
    );
    for (const name of ['resnet50', 'ResNet50_Weight.DEFAULT', 'ResNet50_Weights.V2'])
      expect(() => transformFromConfig(`torchvision:${name}`)).toThrow(
        /near it are "torchvision:ResNet50_Weights.IMAGENET1K_V[12]"/,
      );
  });

  it('reads back what JSON.stringify(transform.options) gives', () => {
    for (const { config, model } of [...golden.cases, ...fixed.cases]) {
      const { options } = transformFromConfig(config, { backend: 'pil', model });
      expect(transformFromConfig(JSON.stringify(options)).options).toEqual(options);
      expect(createTransform(options).options).toEqual(options);
    }
  });

  it.each([
    ['crop_size', { do_center_crop: true, crop_size: null }],
    ['image_mean', { image_mean: null }],
    ['rescale_factor', { rescale_factor: null }],
    ['rescale_factor', { rescale_factor: 2, do_normalize: false }],
    ['resample', { resample: null }],
    ['size', { size: null }],
    ['size', { size: [3, 224, 224] }],
    ['do_pad', { do_pad: true, do_center_crop: false }],
    ['do_sharpen', { do_sharpen: true }],
  ])('refuses a CLIP processor for its %s', (field, config) => {
    expect(() => transformFromConfig({ image_processor_type: 'CLIPImageProcessor', ...config })).toThrow(
      expect.objectContaining({ code: 'TRANSFORM_UNSUPPORTED', details: expect.objectContaining({ field }) }),
    );
  });

  it.each([
    ['Gemma3', 'do_pan_and_scan', { do_pan_and_scan: true }],
    ['DPT', 'ensure_multiple_of', { size: { height: 84, width: 50 }, ensure_multiple_of: 4 }],
    ['DPT', 'do_pad', { do_pad: true, size_divisor: 14 }],
    ['Donut', 'do_align_long_axis', { do_align_long_axis: true }],
    ['Sam', 'pad_size', { pad_size: { height: 512, width: 1024 } }],
    ['Sam', 'size', { size: { height: 1024, width: 1024 } }],
    ['Sapiens2', 'do_pad', { do_pad: true }],
    ['Tipsv2', 'image_mean', { do_normalize: true }],
    ['Perceiver', 'crop_size', { crop_size: 200 }],
    ['ConvNext', 'crop_pct', { size: 224, crop_pct: null }],
    ['Owlv2', 'image_processor_type', {}],
    ['CLIP', 'size', { size: { longest_edge: 224 } }],
  ])('refuses what %s would not give in one size, or not at all: %s', (name, field, config) => {
    expect(() => transformFromConfig({ image_processor_type: `${name}ImageProcessor`, ...config })).toThrow(
      expect.objectContaining({ code: 'TRANSFORM_UNSUPPORTED', details: expect.objectContaining({ field }) }),
    );
  });

  // Hashes of the tensors of transformers 5.23 with Pillow 12.3.
  it.each([
    ['ChineseCLIP', 'pil', 224, '51d1d7e0a091845d'],
    ['ChineseCLIP', 'torchvision', 224, '71e57e471d7bbad4'],
    ['Pvt', 'pil', 224, '2a7f3431653fe5e3'],
    ['Pvt', 'torchvision', 224, 'eba89d017fdca018'],
    ['Segformer', 'pil', 512, '97463978d955985b'],
    ['Segformer', 'torchvision', 512, '292d340a9175fdd7'],
  ] as const)(
    'gives the bits of %sImageProcessor with its defaults, backend %s',
    async (name, backend, side, floats) => {
      const transform = transformFromConfig({ image_processor_type: `${name}ImageProcessor` }, { backend });
      const tensor = (
        await loadImage(fixturePath('preprocess/images/png_rgb_333x500.png'), transform)
      ).toTensor();
      expect(tensor.dims).toEqual([1, 3, side, side]);
      expect(hash(tensor.data)).toBe(floats);
    },
  );

  it.each(odd.cases)('gives the bits of $name with $fields', async ({ name, fields, tensors }) => {
    for (const [backend, image, dtype, dims, digest] of tensors) {
      const config = { image_processor_type: `${name}ImageProcessor`, ...fields };
      const transform = transformFromConfig(config, { backend });
      const like = backend === 'pil' ? transform.with({ resampler: 'pillow-13' }) : transform;
      const loaded = await loadImage(fixturePath(`preprocess/images/${image}`), like);
      const { pixel_values: tensor } = loaded.toTensors();
      const stated = transform.tensors[0]!;
      expect([tensor!.dtype, tensor!.dims, hash(tensor!.data as Float32Array)]).toEqual([
        dtype,
        dims,
        digest,
      ]);
      expect([stated.dtype, stated.dims!.length]).toEqual([dtype, dims.length]);
    }
  });

  it('never crops for SegFormer, as its processor ignores the request', () => {
    const config = { image_processor_type: 'SegformerImageProcessor', do_center_crop: true, crop_size: 100 };
    expect(transformFromConfig(config).options).toMatchObject({
      resize: { height: 512, width: 512 },
      crop: null,
    });
  });

  it.each([
    ['RTDetr', 'pil', null],
    ['RTDetr', 'torchvision', null],
    ['Gemma3', 'torchvision', null],
    ['DPT', 'pil', null],
    ['DPT', 'torchvision', { height: 80, width: 90 }],
  ] as const)('crops for %s, backend %s, as its processor does', (name, backend, crop) => {
    const config = {
      image_processor_type: `${name}ImageProcessor`,
      size: { height: 64, width: 48 },
      do_center_crop: true,
      crop_size: { height: 80, width: 90 },
    };
    const { options } = transformFromConfig(config, { backend });
    expect(options).toMatchObject({ resize: { height: 64, width: 48 }, crop });
  });

  it('takes a list of sizes of Donut with the width first, and refuses an interpolation that Pillow changes on the way', () => {
    const donut = { image_processor_type: 'DonutImageProcessor', size: [192, 256] };
    for (const backend of ['pil', 'torchvision'] as const)
      expect(transformFromConfig(donut, { backend }).outputSize).toEqual({ height: 256, width: 192 });
    expect(() => transformFromConfig({ ...donut, resample: 0 }, { backend: 'pil' })).toThrow(
      /"resample": 0 means bicubic in the second step only/,
    );
    transformFromConfig({ ...donut, resample: 0 });
  });

  it('refuses two crops of a ConvNeXt, and edges that contradict each other', () => {
    const convNext = { image_processor_type: 'ConvNextImageProcessor', size: 224, do_center_crop: true };
    expect(transformFromConfig({ ...convNext, crop_size: 224 }).options.crop).toEqual({
      height: 224,
      width: 224,
    });
    expect(() => transformFromConfig({ ...convNext, crop_size: 200 })).toThrow(/"do_center_crop": below 384/);
    const size = { shortest_edge: 64, longest_edge: 40 };
    expect(() => transformFromConfig({ image_processor_type: 'CLIPImageProcessor', size })).toThrow(
      /"size": longest_edge is 40, less than shortest_edge/,
    );
  });

  it('rounds the colour of timm’s border half to even', () => {
    const pretrained_cfg = { crop_mode: 'border', mean: [0.5, 0.3, 0.1] };
    expect(transformFromConfig({ architecture: 'x', pretrained_cfg }).options.fill).toEqual([128, 76, 26]);
  });

  it.each([
    [{ img_size: 336 }, {}, [336, 336]],
    [{ img_size: [320, 256] }, {}, [320, 256]],
    [{ img_size: 336 }, { fixed_input_size: false }, [224, 224]],
    [{ img_size: 336, dynamic_img_size: true }, {}, [224, 224]],
    [{ img_size: 336, strict_img_size: false }, {}, [224, 224]],
    [{ img_size: null, in_chans: 3 }, {}, [224, 224]],
    [undefined, {}, [224, 224]],
  ])('takes the size that timm made the model for: %j, %j', (model_args, more, [height, width]) => {
    const pretrained_cfg = { input_size: [3, 224, 224], fixed_input_size: true, ...more };
    const { outputSize } = transformFromConfig({ architecture: 'x', model_args, pretrained_cfg });
    expect(outputSize).toEqual({ height, width });
  });

  it('refuses a timm model of other channels', () => {
    const config = { architecture: 'x', model_args: { in_chans: 1 }, pretrained_cfg: {} };
    expect(() => transformFromConfig(config)).toThrow(/"model_args": models of 1 channels are not supported/);
  });

  it('takes null as off, and ignores what only other classes read', () => {
    const { options, source } = transformFromConfig({
      image_processor_type: 'CLIPImageProcessor',
      do_center_crop: null,
      do_normalize: null,
      crop_pct: 0.9,
      include_top: true,
    });
    expect(options).toMatchObject({ crop: null, mean: null, std: null, secondStd: null, resize: 224 });
    expect(source!.ignored).toEqual(['crop_pct', 'include_top']);
  });

  it('gives channels first whatever data_format says, as either backend does', () => {
    const config = { image_processor_type: 'CLIPImageProcessor', data_format: 'channels_last' };
    for (const backend of ['pil', 'torchvision'] as const)
      expect(transformFromConfig(config, { backend }).options.layout).toBe('nchw');
  });

  it.each(golden.refused)('refuses $name: $reason', ({ text }) => {
    expect(() => transformFromConfig(text)).toThrow(
      expect.objectContaining({
        code: 'TRANSFORM_UNSUPPORTED',
        message: expect.stringMatching(/"[\w()]+": /),
      }),
    );
  });
});
