/** The package's list of models, and lists with errors. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkKnownModel, findKnownModel, readModelList } from '../../../src/learn/hub/known-models.js';
import { transformFromConfig } from '../../../src/photos/images/configs/transform-from-config.js';
import { scratchFolder } from '../../support/fixtures.js';

const scratch = scratchFolder();
const models = await readModelList();

describe('the list of the package', () => {
  it('has models', () => expect(models.length).toBeGreaterThan(10));

  it.each(models.map((model) => [model.name, model] as const))('%s is complete', (_name, model) => {
    for (const { url } of model.files) expect(url).toMatch(/^https:\/\//);
    for (const url of [model.source, model.licence.url]) expect(url).toMatch(/^https:\/\//);
    const transform = transformFromConfig(model.transform);
    const size = model.inputSize && { height: model.inputSize[0], width: model.inputSize[1] };
    expect(transform.outputSize).toEqual(size);
    // Photos decide the size of patches.
    expect(transform.tensors.length).toBe(size ? 1 : 3);
    expect(model.nodes.length).toBeGreaterThan(0);
    expect(model.licence.spdx).toMatch(/^[A-Za-z0-9.-]+$/);
  });

  it('has the models that people embed photos with', () => {
    const names = models.map(({ name }) => name);
    for (const name of [
      'clip-vit-base-patch32',
      'siglip2-base-patch16-224',
      'dinov2-small',
      'dinov2-base',
      'dinov3-vits16',
      'siglip2-base-patch16-naflex',
      'mobileclip-s0',
      'mobileclip2-s2',
      'nomic-embed-vision-v1.5',
      'vit-base-patch16-224',
      'convnext-tiny-224',
      'resnet-50',
    ])
      expect(names).toContain(name);
  });

  it('feeds EfficientNet-Lite4 channels last, with (x − 127) / 128', () => {
    const { transform } = findKnownModel(models, 'efficientnet-lite4-11');
    const options = { scale: 1, mean: [127, 127, 127], std: [128, 128, 128], layout: 'nhwc' };
    expect(transformFromConfig(transform).options).toMatchObject(options);
  });
});

describe('findKnownModel', () => {
  it('finds a name; for an unknown name, the error has the nearest ones', () => {
    expect(findKnownModel(models, 'mobilenetv2-12').files[0]!.sizeBytes).toBe(13_964_571);
    expect(() => findKnownModel(models, 'mobilnetv2-12')).toThrow(
      expect.objectContaining({
        code: 'NAME_NOT_FOUND',
        details: { names: [{ request: 'mobilnetv2-12', nearest: ['mobilenetv2-12', 'mobilenetv2-7'] }] },
      }),
    );
  });
});

describe('a list with errors', () => {
  const model = {
    name: 'a',
    description: 'd',
    files: [{ name: 'a.onnx', url: 'https://example.org/a', sizeBytes: null, sha256: null }],
    licence: { spdx: 'MIT', url: 'https://example.org' },
    transform: null,
    inputSize: [1, 1],
    nodes: [{ name: 'n', meaning: 'm' }],
    note: '',
    source: 'https://example.org',
  };
  const file = model.files[0]!;

  it('reads a good one', async () => {
    const path = join(scratch, 'good.json');
    writeFileSync(path, JSON.stringify({ models: [model] }));
    expect(await readModelList(path)).toEqual([model]);
  });

  it.each([
    ['no JSON', '{'],
    ['no list', '[]'],
    ['no object in it', { models: [1] }],
    ['a name that leaves the folder', { models: [{ ...model, name: '../a' }] }],
    ['a hidden name', { models: [{ ...model, name: '.a' }] }],
    ['names that are one on some systems', { models: [model, { ...model, name: 'A' }] }],
    ['a file that leaves the folder', { models: [{ ...model, files: [{ ...file, name: 'b/a.onnx' }] }] }],
    ['two files of one name', { models: [{ ...model, files: [file, file] }] }],
    ['no file', { models: [{ ...model, files: [] }] }],
    ['no address', { models: [{ ...model, files: [{ ...file, url: 'here' }] }] }],
    ['a bad size', { models: [{ ...model, files: [{ ...file, sizeBytes: -1 }] }] }],
    ['a bad checksum', { models: [{ ...model, files: [{ ...file, sha256: 'A' }] }] }],
    ['no licence', { models: [{ ...model, licence: undefined }] }],
    ['no size of the input', { models: [{ ...model, inputSize: [1] }] }],
    ['no description', { models: [{ ...model, description: undefined }] }],
    ['a bad node', { models: [{ ...model, nodes: [{}] }] }],
  ])('%s', async (_what, content) => {
    const path = join(scratch, 'bad.json');
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    await expect(readModelList(path)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('is refused as a description of a model, too', () => {
    expect(checkKnownModel({ ...model, cached: null })).toEqual(model);
    for (const value of [null, 3, [], {}, { ...model, name: '../a' }])
      expect(() => checkKnownModel(value)).toThrow(/^option "model" must be the name or the description of/);
  });
});
