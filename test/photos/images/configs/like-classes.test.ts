/** Classes of transformers with the bits of a known class: the digests of two pictures that a run of conformance/processors.py recorded. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Backend } from '../../../../src/photos/images/configs/config-fields.js';
import { LIKE_CLASSES } from '../../../../src/photos/images/configs/like-classes.js';
import { transformFromConfig } from '../../../../src/photos/images/configs/transform-from-config.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import type { Tensor } from '../../../../src/onnx/tensor/tensor.js';
import { fixturePath } from '../../../support/fixtures.js';

type Recorded = Readonly<Record<string, readonly [dtype: string, dims: readonly number[], sha256: string]>>;
interface Case {
  readonly given: Readonly<Record<string, unknown>>;
  readonly pictures: Readonly<Record<string, Recorded>>;
}
const { versions, classes } = JSON.parse(
  readFileSync(fixturePath('transforms/like-classes.json'), 'utf8'),
) as {
  readonly versions: Readonly<Record<'transformers' | 'Pillow', string>>;
  readonly classes: Readonly<Record<string, Readonly<Partial<Record<Backend, Case>>>>>;
};
const digest = ({ dtype, dims, data }: Tensor): Recorded[string] => {
  const { buffer, byteOffset, byteLength } = data as Float32Array;
  return [
    dtype,
    dims,
    createHash('sha256')
      .update(new Uint8Array(buffer, byteOffset, byteLength))
      .digest('hex'),
  ];
};
const read = (name: string, fields: object, backend: Backend = 'torchvision') =>
  transformFromConfig({ image_processor_type: `${name}ImageProcessor`, ...fields }, { backend });

describe(`classes of transformers ${versions.transformers} that are like others`, () => {
  it('are all recorded', () => {
    expect(Object.keys(LIKE_CLASSES)).toEqual(Object.keys(classes));
    expect(Object.keys(classes).length).toBeGreaterThan(15);
  });

  it.each(Object.entries(classes))('%s gives the recorded bits', async (name, backends) => {
    for (const [backend, { given, pictures }] of Object.entries(backends) as [Backend, Case][]) {
      const transform = read(name, given, backend);
      const isPil = backend === 'pil' && Number.parseInt(versions.Pillow) >= 13;
      const same = isPil ? transform.with({ resampler: 'pillow-13' }) : transform;
      expect(Object.keys(pictures).length).toBe(2);
      for (const [picture, recorded] of Object.entries(pictures)) {
        const tensors = (await loadImage(fixturePath(`preprocess/images/${picture}`), same)).toTensors();
        for (const [tensor, value] of Object.entries(tensors))
          expect([picture, tensor, ...digest(value)]).toEqual([picture, tensor, ...recorded[tensor]!]);
      }
    }
  });

  it.each([
    ['GotOcr2', { crop_to_patches: true }, 'crop_to_patches'],
    ['Cohere2Vision', {}, 'crop_to_patches'],
    ['Ovis2', { crop_to_patches: true, max_patches: 4 }, 'crop_to_patches'],
    ['Llava', { do_pad: true }, 'do_pad'],
    ['Glmga', { patch_expand_factor: 2 }, 'patch_expand_factor'],
    ['SuperPoint', { do_grayscale: true }, 'do_grayscale'],
    ['GotOcr2', { do_sharpen: true }, 'do_sharpen'],
  ])('%s with %j is refused for its %s', (name, fields, field) => {
    expect(() => read(name, fields)).toThrow(
      expect.objectContaining({ code: 'TRANSFORM_UNSUPPORTED', details: expect.objectContaining({ field }) }),
    );
  });

  it('are found by the type of their model, and answer what changes no pixels', () => {
    const nameless = { do_resize: true, max_patches: 4, size: { height: 90, width: 70 } };
    const { options, source } = transformFromConfig(nameless, { model: { model_type: 'internvl' } });
    expect(options).toMatchObject({
      resize: { height: 90, width: 70 },
      crop: null,
      interpolation: 'bicubic',
    });
    expect(source!.ignored).toEqual([]);
  });

  it('of torchvision alone have its arithmetic, whatever is asked for', () => {
    expect(read('Tipsv2Dpt', {}, 'pil').options.arithmetic).toBe('fused');
    expect(read('Chameleon', {}, 'pil').options.arithmetic).toBe('transformers');
  });
});
