/** A transform in any spelling, wherever a photo is read. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createTransform,
  findTransform,
  loadClip,
  loadImage,
  loadTiles,
  transformFromConfig,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { recordTransform } from '../../../src/datasets/embed/describe-run.js';
import { createTransform as ownTransform } from '../../../src/photos/feeds/create-transform.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';

const photo = projectPath('examples/photos/city/city-1.jpg');
const folder = scratchFolder();
const CLIP = { image_processor_type: 'CLIPImageProcessor', size: { shortest_edge: 32 }, crop_size: 32 };

function put(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const clip = put('preprocessor_config.json', JSON.stringify(CLIP));

describe('createTransform', () => {
  it.each([
    [
      'weights of torchvision',
      'torchvision:R3D_18_Weights.DEFAULT',
      'torchvision:R3D_18_Weights.KINETICS400_V1',
    ],
    ['a configuration file', clip, CLIP],
  ])('takes %s', (_, given, config) => {
    const transform = createTransform(given);
    expect(transform.options).toEqual(transformFromConfig(config).options);
    expect(transform.source?.file).toBe(given === clip ? clip : null);
  });

  it('takes a model, its own file, and what a dataset records', async () => {
    const { options } = createTransform('demo');
    expect((await findTransform('demo'))?.transform.options).toEqual(options);
    expect(createTransform(`${projectPath('models/demo.onnx')}.tapir.json`).options).toEqual(options);
    const recorded = recordTransform(ownTransform('demo'));
    expect(createTransform(recorded).options).toEqual(options);
    expect(createTransform(put('manifest.json', JSON.stringify({ transform: recorded }))).options).toEqual(
      options,
    );
    expect(() => createTransform(join(scratchFolder(), 'nothing.onnx'))).toThrow(
      'a model with a configuration beside it',
    );
  });

  it('says what there is, and what is wrong with a file', () => {
    expect(() => createTransform('ResNet50_Weights.DEFAULT')).toThrow(
      /must be "ImageNet1K_V1", .*"torchvision:WEIGHTS", a configuration file or MODEL\.onnx that exists, or options, got "ResNet50_/,
    );
    const broken = put('broken.json', '{');
    expect(() => createTransform(broken)).toThrow(expect.objectContaining({ code: 'TRANSFORM_UNSUPPORTED' }));
  });
});

it('every function that reads a photo takes every spelling', async () => {
  const expected = (await loadImage(photo, transformFromConfig(CLIP))).toTensor();
  expect((await loadImage(photo, clip)).toTensor()).toEqual(expected);
  const { data } = (await loadClip([photo], clip)).toTensor();
  expect(data).toEqual(expected.data);
  for await (const tile of loadTiles(photo, clip, { size: 4096 }))
    expect(tile.toTensor().dims).toEqual(expected.dims);
});
