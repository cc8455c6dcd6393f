/** Options of a transform. Pixels: preprocess.golden.test.ts. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import {
  TRANSFORM_PRESETS,
  type TransformPreset,
} from '../../../../src/photos/images/transform/transform-options.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { projectPath } from '../../../support/fixtures.js';

const photo = projectPath('examples/photos/sea/sea-0.jpg');

describe('createTransform', () => {
  it('gives the size of results if it is fixed', () => {
    expect(createTransform().outputSize).toEqual({ height: 224, width: 224 });
    expect(createTransform('imagenet1k_v2' as 'ImageNet1K_V2').preset).toBe('ImageNet1K_V2');
    expect(createTransform({ resize: { height: 10, width: 20 }, crop: null }).outputSize).toEqual({
      height: 10,
      width: 20,
    });
    expect(createTransform({ crop: null }).outputSize).toBeNull();
  });

  it.each([
    'resnet',
    { size: 256 },
    { resize: 0 },
    { resize: '256' },
    { crop: { height: 1 } },
    { crop: { height: 1, width: 1.5 } },
    { interpolation: 'cubic' },
    { mean: [0, 0] },
    { std: [1, 0, 1] },
    { std: [1, NaN, 1] },
    { orientation: 'up' },
    { decode: 'draft' },
    { limitPixels: 0 },
  ])('refuses %j', (given) => {
    expect(() => createTransform(given as 'ImageNet1K_V1')).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    );
  });

  it('returns a transform unchanged', () => {
    const transform = createTransform({ resize: 8 });
    expect(createTransform(transform)).toBe(transform);
  });

  it('keeps a copy of the options: what the caller changes afterwards has no effect', async () => {
    const given = {
      mean: [0.1, 0.2, 0.3] as [number, number, number],
      std: [0.4, 0.5, 0.6] as [number, number, number],
      resize: { height: 40, width: 50 },
      crop: { height: 30, width: 20 },
    };
    const transform = createTransform(given);
    const before = JSON.stringify(transform.options);
    const pixels = await loadImage(readFileSync(photo), transform);
    const floats = pixels.toTensor().data;
    given.mean.fill(9);
    given.std[1] = 9;
    given.resize.width = 9;
    Object.assign(given.crop, { height: 1, width: 1 });
    expect(JSON.stringify(transform.options)).toBe(before);
    expect(transform.outputSize).toEqual({ height: 30, width: 20 });
    const again = await loadImage(readFileSync(photo), transform);
    expect(Buffer.compare(again.data, pixels.data)).toBe(0);
    expect(again.toTensor().data).toEqual(floats);
  });

  it.each([
    { crop: { height: 3, width: 4 }, resize: { height: 5, width: 6 } },
    ...(Object.keys(TRANSFORM_PRESETS) as TransformPreset[]),
  ])('freezes everything that a manifest records: %j', (given) => {
    const transform = createTransform(given);
    const objects = [transform, transform.options, ...Object.values(transform.options), transform.outputSize];
    for (const value of objects) expect(Object.isFrozen(value)).toBe(true);
    expect(() => Object.assign(transform.options.mean!, [0])).toThrow(TypeError);
    expect(() => Object.assign(transform.options, { crop: null })).toThrow(TypeError);
  });
});
