/** The attribution of a photo: from an extractor, with a picture. */
import { createFeatureExtractor, loadImage } from 'onnx-tapir';
import { attribute } from 'onnx-tapir/explain';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { tinyResNet } from '../../../support/fixtures.js';
import { photo, SMALL } from '../../../support/service.js';

const options = { method: 'grad-cam', layer: 'layer4', target: 1 } as const;

describe('attribute', () => {
  it('takes an extractor: its model, devices and sessions', async () => {
    const image = await loadImage(photo('city/city-0.jpg'), SMALL);
    const expected = await attribute(tinyResNet(), image.toTensor(), options);
    const devices = ['cpu:0', 'cpu:1'] as const;
    for (const place of [{}, { devices }]) {
      await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'vector' }, place);
      const { overlay: _, ...found } = await attribute(extractor, image, options);
      expect(found).toEqual(expected);
    }
  });

  it('draws the heat map of a photo over it', async () => {
    const image = await loadImage(photo('city/city-0.jpg'), SMALL);
    const { overlay } = await attribute(tinyResNet(), image, options);
    expect(await sharp(await overlay({ scale: false })).metadata()).toMatchObject({
      format: 'png',
      width: 64,
      height: 64,
    });
  });

  it('draws photos of models that take blue first in their colours', async () => {
    const rgb = await loadImage(photo('city/city-0.jpg'), SMALL);
    const bgr = await loadImage(photo('city/city-0.jpg'), SMALL.with({ channelOrder: 'bgr' }));
    const draw = async (image: typeof rgb): Promise<Uint8Array> =>
      (await attribute(tinyResNet(), image, options)).overlay({ opacity: 0 });
    expect(await draw(bgr)).toEqual(await draw(rgb));
  });

  it('gives no picture of a batch', async () => {
    const image = await loadImage(photo('city/city-0.jpg'), SMALL);
    expect(await attribute(tinyResNet(), image.toTensor(), options)).not.toHaveProperty('overlay');
  });
});
