/** What a model's input asks of the images: layout, channels, element type; and the clear errors where they do not fit. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedImages,
  loadImage,
  transformFromConfig,
  type TransformLike,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { fromFloat16Bits, toFloat16Bits } from '../../../src/onnx/tensor/float16.js';
import { projectPath } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

const FLOAT = 1;
const UINT8 = 2;
const FLOAT16 = 10;
const folder = projectPath('examples/photos');
const photos = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.jpg'))
  .slice(0, 3)
  .map((name) => join(folder, name));

/** A model whose output is its input, with one row per image. */
const echo = (dims: readonly (number | string)[], elemType = FLOAT): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'pixels', dims, elemType }],
    outputs: [{ name: 'seen', dims: ['N', 'all'], elemType }],
    nodes: [{ op: 'Flatten', inputs: ['pixels'], outputs: ['seen'] }],
  });

async function seenBy(model: Uint8Array, transform: TransformLike): Promise<readonly ArrayLike<number>[]> {
  await using extractor = await createFeatureExtractor(model, ['seen'], { outputDtype: 'keep' });
  const rows: ArrayLike<number>[] = [];
  for await (const { features, error } of embedImages(extractor, photos, { transform, batch: 2 })) {
    if (error) throw error;
    rows.push(features['seen']!.data as ArrayLike<number>);
  }
  return rows;
}

const CLIP = transformFromConfig({ image_processor_type: 'CLIPImageProcessor', size: 16, crop_size: 16 });
const tensors = (transform: TransformLike): Promise<Float32Array[]> =>
  Promise.all(photos.map(async (photo) => (await loadImage(photo, transform)).toTensor().data));

describe('embedImages feeds', () => {
  it.each<[string, readonly (number | string)[], TransformLike]>([
    ['channels first', ['N', 3, 16, 16], CLIP],
    ['channels last, as the graph says', ['N', 16, 16, 3], CLIP.with({ layout: 'nhwc' })],
    ['sizes that the graph leaves open', ['N', 3, 'h', 'w'], CLIP],
    ['channels last, as the transform says', ['N', 'a', 'b', 'c'], CLIP.with({ layout: 'nhwc' })],
    ['blue first', ['N', 3, 16, 16], CLIP.with({ channelOrder: 'bgr' })],
    [
      'grey',
      ['N', 1, 16, 16],
      createTransform({ resize: 16, crop: 16, channelOrder: 'grey', mean: [0.5], std: [0.5] }),
    ],
    [
      'floats that are resized as floats',
      ['N', 3, 16, 16],
      transformFromConfig({
        image_processor_type: 'DINOv3ViTImageProcessorFast',
        size: { height: 16, width: 16 },
      }),
    ],
    [
      'floats of grey, channels last',
      ['N', 16, 16, 1],
      createTransform({
        resize: { height: 16, width: 16 },
        crop: null,
        channelOrder: 'grey',
        mean: null,
        std: null,
        resampler: 'torch-float',
        layout: 'nhwc',
      }),
    ],
    ['0 to 255', ['N', 3, 16, 16], CLIP.with({ scale: 1, mean: null, std: null })],
  ])('%s', async (_name, dims, transform) => {
    expect(await seenBy(echo(dims), transform)).toEqual(await tensors(transform));
  });

  it('float16, rounded from the float32 values', async () => {
    for (const transform of [
      CLIP,
      transformFromConfig({
        image_processor_type: 'DINOv3ViTImageProcessorFast',
        size: { height: 16, width: 16 },
      }),
    ]) {
      const halves = (await tensors(transform)).map((tensor) =>
        Array.from(tensor, (value) => fromFloat16Bits(toFloat16Bits(value))),
      );
      const seen = await seenBy(echo(['N', 3, 16, 16], FLOAT16), transform);
      expect(seen.map((row) => Array.from(row, fromFloat16Bits))).toEqual(halves);
    }
  });

  it('bytes, channels last or first', async () => {
    const pixels = await Promise.all(photos.map((photo) => loadImage(photo, CLIP)));
    expect(await seenBy(echo(['N', 16, 16, 3], UINT8), CLIP)).toEqual(pixels.map(({ data }) => data));
    const planes = pixels.map(({ data }) =>
      Uint8Array.from({ length: data.length }, (_, i) => data[(i % 256) * 3 + Math.floor(i / 256)]!),
    );
    expect(await seenBy(echo(['N', 3, 16, 16], UINT8), CLIP)).toEqual(planes);
  });
});

describe('a transform that the model cannot take is refused before the first image', () => {
  it.each<[string, readonly (number | string)[], number, RegExp]>([
    [
      'another size',
      ['N', 3, 518, 518],
      FLOAT,
      /"pixels" \[N, 3, 518, 518\]: 3 channels, crop 518 × 518.*images of \[3, 16, 16\]/,
    ],
    [
      'one channel',
      ['N', 1, 16, 16],
      FLOAT,
      /channelOrder "grey", with one number as mean and one as std, crop 16 × 16/,
    ],
    ['another element type', ['N', 3, 16, 16], 7, /of float32, float16 or uint8.*int64/],
    ['another rank', ['N', 16], FLOAT, /single image input, \[N, C, H, W\] or \[N, H, W, C\]/],
  ])('%s', async (_name, dims, elemType, message) => {
    await using extractor = await createFeatureExtractor(echo(dims, elemType), ['seen'], {
      outputDtype: 'keep',
    });
    const read: string[] = [];
    const asked = async (): Promise<unknown> => {
      for await (const row of embedImages(
        extractor,
        (function* () {
          read.push('x');
          yield photos[0]!;
        })(),
        { transform: CLIP },
      ))
        return row;
      return undefined;
    };
    await expect(asked()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(message),
    });
    expect(read).toEqual([]);
  });
});

it('says which sizes the file left open where a run fails', async () => {
  // Adds a row of eight to pixels of any width.
  const model = modelBytes({
    inputs: [{ name: 'pixels', dims: ['N', 3, 'H', 'W'] }],
    outputs: [{ name: 'seen', dims: ['N', 3, 'H', 'W'] }],
    initializers: { row: { dims: [8], values: [0, 0, 0, 0, 0, 0, 0, 0] } },
    nodes: [
      { op: 'Relu', inputs: ['pixels'], outputs: ['plain'] },
      { op: 'Add', inputs: ['plain', 'row'], outputs: ['seen'] },
    ],
  });
  await expect(seenBy(model, CLIP)).rejects.toMatchObject({
    code: 'RUN_FAILED',
    message: expect.stringMatching(/"pixels" was fed \[2, 3, 16, 16\], of sizes that the file leaves open/),
  });
});
