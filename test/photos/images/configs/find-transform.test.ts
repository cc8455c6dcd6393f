/** The transform beside a model. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chooseTransform, type TransformRequest } from '../../../../src/photos/feeds/choose-transform.js';
import { findTransform } from '../../../../src/photos/images/configs/find-transform.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import type { Transform } from '../../../../src/photos/images/transform/transform.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();
let count = 0;

/** A model's folder, as Hugging Face lays it out, with files beside the model or one folder up. */
function layOut(files: Readonly<Record<string, unknown>>): string {
  const root = join(scratch, String(count++));
  mkdirSync(join(root, 'onnx'), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return join(root, 'onnx', 'vision_model.onnx');
}

const SIGLIP = { image_processor_type: 'SiglipImageProcessor', size: { height: 256, width: 256 } };
const TIMM = { architecture: 'resnet50', pretrained_cfg: { input_size: [3, 160, 160], crop_pct: 0.95 } };

describe('findTransform', () => {
  it('looks beside the model, then one folder up', async () => {
    const model = layOut({ 'preprocessor_config.json': SIGLIP, 'config.json': { model_type: 'siglip' } });
    const found = await findTransform(model);
    expect(found).toMatchObject({
      kind: 'transformers',
      from: join(model, '../../preprocessor_config.json'),
    });
    expect(found!.transform.source).toMatchObject({ file: found!.from, backend: 'torchvision' });
    expect(found!.transform.outputSize).toEqual({ height: 256, width: 256 });
    const nearer = layOut({ 'preprocessor_config.json': SIGLIP, 'onnx/config.json': TIMM });
    expect(await findTransform(nearer)).toMatchObject({
      kind: 'timm',
      transform: { options: { resize: 168 } },
    });
  });

  it.each([
    [
      'open_clip_config.json',
      { model_cfg: { vision_cfg: { image_size: 96 } }, preprocess_cfg: {} },
      'open_clip',
    ],
    [
      'preprocess_cfg.json',
      { size: [96, 96], mode: 'RGB', resize_mode: 'squash', fill_color: 0 },
      'open_clip',
    ],
    [
      'preprocessor_config.json',
      { image_processor_type: 'JinaCLIPImageProcessor', size: 96, resize_mode: 'shortest' },
      'open_clip',
    ],
    ['config.json', { ...TIMM, pretrained_cfg: { input_size: [3, 96, 96] } }, 'timm'],
    ['transform.json', { resize: 96, crop: 96 }, 'onnx-tapir'],
    ['transform.json', { resize_size: 110, crop_size: 96 }, 'torchvision'],
  ])('reads %s of the layout %j', async (name, content, kind) => {
    const found = await findTransform(layOut({ [`onnx/${name}`]: content }));
    expect(found).toMatchObject({ kind, transform: { outputSize: { height: 96, width: 96 } } });
  });

  it('takes a file of the model’s own name first, then transform.json', async () => {
    const own = { ...createTransform('Squash224').options };
    const model = layOut({
      'onnx/vision_model.onnx.transform.json': own,
      'onnx/transform.json': createTransform().options,
      'onnx/preprocessor_config.json': SIGLIP,
    });
    expect((await findTransform(model))!.transform.options).toEqual(own);
  });

  it('takes the model’s own file before an older one, and notes where that says otherwise', async () => {
    const files = {
      'onnx/vision_model.onnx.tapir.json': { transform: { resize: 96, crop: 96 }, labels: ['a'] },
      'onnx/vision_model.onnx.transform.json': { resize: 96, crop: 64 },
      'onnx/preprocessor_config.json': SIGLIP,
    };
    const model = layOut(files);
    const { from, kind, transform } = (await findTransform(model))!;
    expect({ from, kind }).toEqual({ from: `${model}.tapir.json`, kind: 'onnx-tapir' });
    expect(transform.outputSize).toEqual({ height: 96, width: 96 });
    expect(transform.source!.others).toEqual([{ file: `${model}.transform.json`, differs: ['crop: 64'] }]);
    const same = { resize: 96, crop: 96 };
    const alike = layOut({ ...files, 'onnx/vision_model.onnx.transform.json': same });
    expect((await findTransform(alike))!.transform.source!.others).toBeUndefined();
    const silent = layOut({ ...files, 'onnx/vision_model.onnx.tapir.json': { labels: ['a'] } });
    expect((await findTransform(silent))!.from).toBe(`${silent}.transform.json`);
  });

  it('gives null where nothing tells: the config.json of a model tells no pixels', async () => {
    expect(await findTransform(layOut({ 'config.json': { model_type: 'vit', image_size: 224 } }))).toBeNull();
    expect(
      await findTransform(layOut({ 'processor_config.json': { processor_class: 'CLIPProcessor' } })),
    ).toBeNull();
    expect(await findTransform(join(scratch, 'nothing/here.onnx'))).toBeNull();
  });

  it('reads the class of a nameless processor from the model’s config.json', async () => {
    const model = layOut({
      'config.json': { model_type: 'deit' },
      'preprocessor_config.json': { size: 219, crop_size: 192 },
    });
    expect((await findTransform(model, { backend: 'pil' }))!.transform).toMatchObject({
      options: { resize: { height: 219, width: 219 }, crop: { height: 192, width: 192 } },
      source: { backend: 'pil' },
    });
  });

  it('reads the image processor inside processor_config.json', async () => {
    const model = layOut({ 'processor_config.json': { image_processor: SIGLIP } });
    expect((await findTransform(model))!.transform.outputSize).toEqual({ height: 256, width: 256 });
  });

  it('takes what processor_config.json says of images before preprocessor_config.json, and notes what that says otherwise', async () => {
    const old = { ...SIGLIP, size: { height: 224, width: 224 } };
    const model = layOut({
      'processor_config.json': { image_processor: SIGLIP },
      'preprocessor_config.json': old,
      'config.json': { model_type: 'siglip' },
    });
    const { from, transform } = (await findTransform(model))!;
    expect(basename(from)).toBe('processor_config.json');
    expect(transform.outputSize).toEqual({ height: 256, width: 256 });
    expect(transform.source!.others).toEqual([
      {
        file: join(model, '../../preprocessor_config.json'),
        differs: ['resize: {"height":224,"width":224}'],
      },
    ]);
    expect(transform.with({ orientation: 'exif' }).source!.others).toHaveLength(1);
  });

  it('notes a library whose configuration says otherwise, and not how libraries round', async () => {
    const crop = { image_processor_type: 'CLIPImageProcessor', size: 224, crop_size: 224 };
    const openClip = (resize_mode: string): unknown => ({
      model_cfg: { vision_cfg: { image_size: 224 } },
      preprocess_cfg: {
        mean: [0.48145466, 0.4578275, 0.40821073],
        std: [0.26862954, 0.26130258, 0.27577711],
        resize_mode,
      },
    });
    const others = async (files: Readonly<Record<string, unknown>>): Promise<unknown> =>
      (await findTransform(layOut(files)))!.transform.source!.others;
    const beside = { 'preprocessor_config.json': crop };
    expect(await others({ ...beside, 'open_clip_config.json': openClip('shortest') })).toBeUndefined();
    expect(await others({ ...beside, 'open_clip_config.json': openClip('squash') })).toMatchObject([
      { differs: ['resize: {"height":224,"width":224}'] },
    ]);
    expect(await others({ ...beside, 'open_clip_config.json': '{' })).toMatchObject([
      { differs: [expect.stringMatching(/cannot be read/)] },
    ]);
    expect(await others({ ...beside, 'transform.json': { crop: 96 } })).toBeUndefined();
  });

  it.each([
    [
      'modules.json',
      { 'modules.json': [{ idx: 0, path: 'vision' }], 'vision/preprocessor_config.json': SIGLIP },
    ],
    ['its name', { '0_CLIPModel/preprocessor_config.json': SIGLIP }],
  ])('looks into the first part of a sentence-transformers model, known by %s', async (_how, files) => {
    const found = await findTransform(layOut(files));
    expect(found!.transform.outputSize).toEqual({ height: 256, width: 256 });
  });

  it('follows no path of modules.json out of the model', async () => {
    const outside = layOut({ 'preprocessor_config.json': SIGLIP });
    const model = layOut({
      'modules.json': [{ path: join(outside, '../..') }, { path: '..' }, { path: '' }, 7],
    });
    expect(await findTransform(model)).toBeNull();
  });

  it('names the file and the field that it cannot follow', async () => {
    const model = layOut({ 'preprocessor_config.json': { ...SIGLIP, do_thumbnail: true } });
    await expect(findTransform(model)).rejects.toMatchObject({
      code: 'TRANSFORM_UNSUPPORTED',
      message: expect.stringMatching(/preprocessor_config\.json.*"do_thumbnail"/),
      details: { field: 'do_thumbnail' },
    });
  });

  it('reads timm’s configuration with 21,841 label names', async () => {
    const names = Array.from({ length: 21_841 }, (_, i) => `n${String(i).padStart(8, '0')}`);
    const label_descriptions = Object.fromEntries(names.map((name) => [name, 'x'.repeat(60)]));
    const config = {
      ...TIMM,
      pretrained_cfg: { ...TIMM.pretrained_cfg, label_descriptions },
      label_names: names,
    };
    const model = layOut({ 'config.json': config });
    expect(await findTransform(model)).toMatchObject({
      kind: 'timm',
      transform: { options: { crop: { height: 160 } } },
    });
  });

  it.each([
    ['config.json', '{"pretrained_cfg": {'],
    ['preprocessor_config.json', ''],
    ['onnx/vision_model.onnx.transform.json', '{"crop": 96,}'],
    ['preprocessor_config.json', `{"image_mean":${'['.repeat(1000)}`],
  ])('never counts %s as absent if it cannot be read: %j', async (name, text) => {
    const model = layOut({ 'onnx/config.json': { model_type: 'vit' }, [name]: text });
    const refused = {
      code: 'TRANSFORM_UNSUPPORTED',
      message: expect.stringContaining(`${basename(name)}" cannot be read: `),
    };
    await expect(findTransform(model)).rejects.toMatchObject(refused);
    expect(() => choose('auto', model)).toThrow(expect.objectContaining(refused));
  });

  it('reads the model’s own configuration only where a processor needs it', async () => {
    const damaged = { 'config.json': '{', 'preprocessor_config.json': SIGLIP };
    expect(await findTransform(layOut(damaged))).toMatchObject({ kind: 'transformers' });
    await expect(
      findTransform(layOut({ ...damaged, 'preprocessor_config.json': { size: 219, do_resize: true } })),
    ).rejects.toThrow(/config\.json" cannot be read/);
  });

  it('lists the fields that change nothing', async () => {
    const model = layOut({ 'preprocessor_config.json': { ...SIGLIP, my_note: 'x', do_thumbnail: false } });
    expect((await findTransform(model))!.transform.source!.ignored).toEqual(['my_note', 'do_thumbnail']);
  });
});

const choose = (request: TransformRequest, model?: string): Transform | undefined =>
  chooseTransform(request, model, () => undefined).transform;

describe('chooseTransform', () => {
  const model = layOut({ 'preprocessor_config.json': SIGLIP });
  const file = join(model, '../../preprocessor_config.json');

  it('takes auto, presets, weights, JSON, files and options', () => {
    const side = (request: TransformRequest, of?: string): unknown => choose(request, of)?.outputSize;
    expect(side('auto', model)).toEqual({ height: 256, width: 256 });
    expect(choose('auto')).toBeUndefined();
    expect(choose('imagenet1k_v2', model)?.preset).toBe('ImageNet1K_V2');
    expect(side('torchvision:ViT_H_14_Weights.IMAGENET1K_SWAG_E2E_V1')).toEqual({ height: 518, width: 518 });
    expect(side(JSON.stringify(SIGLIP))).toEqual({ height: 256, width: 256 });
    expect(side(file)).toEqual({ height: 256, width: 256 });
    expect(side({ crop: 96 })).toEqual({ height: 96, width: 96 });
  });

  it('lays changes over what belongs to the model, or over a base', () => {
    const own = choose('auto', model)!;
    const turned = { ...own.options, orientation: 'exif', alpha: 'white' };
    for (const request of [
      { orientation: 'exif', alpha: 'white' } as const,
      '{"orientation":"exif","alpha":"white"}',
      'orientation=exif,alpha=white',
      'auto,orientation=exif,alpha=white',
    ])
      expect(choose(request, model)).toMatchObject({ options: turned, source: own.source });
    expect(choose({ mean: null, std: null }, model)!.options).toEqual({
      ...own.options,
      mean: null,
      std: null,
    });
    for (const request of [
      { base: 'ImageNet1K_V1', resampler: 'pillow-13', mean: [0.5, 0.25, 0] } as const,
      'ImageNet1K_V1,resampler=pillow-13,mean=.5,0.25,0',
    ])
      expect(choose(request, model)!.options).toEqual({
        ...createTransform().options,
        resampler: 'pillow-13',
        mean: [0.5, 0.25, 0],
      });
  });

  it('lays changes of a call over those of the model’s user', () => {
    const { transform, size } = chooseTransform({ alpha: 'drop' }, model, () => undefined, {
      alpha: 'white',
      orientation: 'exif',
      size: 448,
    });
    expect([transform!.options.alpha, transform!.options.orientation, size]).toEqual(['drop', 'exif', 448]);
    const whole = chooseTransform('ImageNet1K_V1', model, () => undefined, { size: 448 });
    expect(whole).toMatchObject({ transform: { preset: 'ImageNet1K_V1' }, size: undefined });
  });

  it.each([
    ['size=448', 448],
    ['auto,size=448x672', { height: 448, width: 672 }],
    ['size=shortest:448,alpha=white', { shortest: 448 }],
    ['{"size":{"multiple":14}}', { multiple: 14 }],
  ])('gives the size of %s', (request, expected) => {
    expect(chooseTransform(request, model, () => undefined).size).toEqual(expected);
  });

  it.each([
    ['orientaton=exif', /changes of orientation/],
    ['auto,sise=448', /changes of size/],
    ['size=big', /a number, \{ height, width \}/],
    ['orientation=up', /"ignore", "exif"/],
    ['{"size":', /JSON that can be parsed/],
  ])('refuses %s', (request, message) => {
    expect(() => choose(request, model)).toThrow(message);
  });

  it('takes the backend of a configuration of transformers, and of no other', () => {
    const pil = choose({ backend: 'pil' }, model)!;
    expect(pil.source!.backend).toBe('pil');
    expect(pil.options).not.toEqual(choose('auto', model)!.options);
    for (const request of ['{"backend":"pil"}', 'backend=pil', { base: file, backend: 'pil' } as const])
      expect(choose(request, model)!.options).toEqual(pil.options);
    const refused = expect.objectContaining({
      code: 'OPTION_INVALID',
      details: expect.objectContaining({ option: 'backend' }),
    });
    expect(() => choose({ base: 'ImageNet1K_V1', backend: 'pil' })).toThrow(refused);
    expect(() => choose({ backend: 'pil' })).toThrow(refused);
  });

  it('needs more than the ways of reading where nothing belongs to the model', () => {
    expect(choose({ orientation: 'exif' })).toBeUndefined();
    expect(choose({ mean: null, std: null })!.options).toEqual({
      ...createTransform().options,
      mean: null,
      std: null,
    });
  });

  it('says what it could be', () => {
    expect(() => choose('ImageNet')).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(
          /"auto", "ImageNet1K_V1".*a configuration file or MODEL\.onnx that exists/,
        ),
      }),
    );
    expect(() => choose('torchvision:ResNet50_Weights.V2')).toThrow(/near it are/);
  });

  it.each(['orientation', 'exif_transpose', 'alpha', 'transparency'])(
    'refuses a file with a field %s, which no library reads',
    async (field) => {
      const file = layOut({ 'preprocessor_config.json': { ...SIGLIP, [field]: 'exif' } });
      await expect(findTransform(file)).rejects.toMatchObject({
        code: 'TRANSFORM_UNSUPPORTED',
        details: { field },
      });
    },
  );
});
