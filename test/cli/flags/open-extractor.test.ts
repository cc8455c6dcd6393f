/** What a GPU is fed: the same rewrite runs on the CPU here. */
import { createFeatureExtractor, createTransform, embedImages, openModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { readRewriting, type ExtractorFlags } from '../../../src/cli/flags/open-extractor.js';
import { createTransform as createSourceTransform } from '../../../src/photos/feeds/create-transform.js';
import { openModel as openSourceModel } from '../../../src/run/model/open/open-model.js';
import { projectPath, tinyResNet } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

const photos = ['city/city-0.jpg', 'city/city-1.jpg'].map((name) => projectPath(`examples/photos/${name}`));
const size = { resize: 64, crop: 64 } as const;
const clip = {
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
} as const;

type Input = ReturnType<typeof readRewriting>['input'];

async function chooseInput(
  bytes: Uint8Array,
  options: object,
  flags: Partial<ExtractorFlags> = {},
): Promise<Input> {
  const given = { device: 'cuda', normalize: 'auto', ...flags } as ExtractorFlags;
  const transform = createSourceTransform({ ...size, ...options });
  return readRewriting(await openSourceModel(bytes), given, transform).input;
}

async function embed(bytes: Uint8Array, options: object, input: Input): Promise<unknown[]> {
  const [node] = (await openModel(bytes)).outputs;
  await using extractor = await createFeatureExtractor(bytes, { [node!.name]: 'f' }, { input });
  expect(extractor.inputs[0]!.dtype).toBe(input === 'tensor' ? 'float32' : 'uint8');
  const transform = createTransform({ ...size, ...options });
  const rows: unknown[] = [];
  for await (const { features } of embedImages(extractor, photos, { transform })) rows.push(features?.['f']);
  expect(rows).toHaveLength(photos.length);
  return rows;
}

/** A convolution over images of so many channels, whose sizes the file leaves open. */
const convolution = (channels: number, dims: readonly (string | number)[]): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'x', dims: [...dims] }],
    outputs: [{ name: 'y', dims: ['n', 2, 'h', 'w'] }],
    initializers: {
      w: { dims: [2, channels, 1, 1], values: Array.from({ length: 2 * channels }, (_, i) => 0.1 + i) },
    },
    nodes: [{ op: 'Conv', inputs: ['x', 'w'], outputs: ['y'] }],
  });

describe('what is fed to a GPU', () => {
  it.each([
    ['torchvision', false, tinyResNet(), {}],
    ['Pillow’s processors', false, tinyResNet(), { ...clip, arithmetic: 'transformers' }],
    ['fast processors', true, tinyResNet(), { ...clip, arithmetic: 'fused' }],
    [
      'scaling alone',
      true,
      tinyResNet(),
      { mean: null, std: null, arithmetic: 'transformers', scale: 1 / 127.5, offset: 1 },
    ],
    ['open channels', true, convolution(3, ['n', 'c', 'h', 'w']), { ...clip, arithmetic: 'fused' }],
    [
      'grey',
      true,
      convolution(1, ['n', 1, 'h', 'w']),
      { channelOrder: 'grey', mean: [0.1], std: [0.3], arithmetic: 'fused' },
    ],
  ] as const)(
    'is bytes, with the vectors of floats bit for bit: %s',
    async (_, isLookedUp, bytes, options) => {
      const input = await chooseInput(bytes, options);
      // Torchvision's steps are computed, others looked up.
      expect(input).toMatchObject({ type: 'image-uint8' });
      expect(Object.hasOwn(input as object, 'values')).toBe(isLookedUp);
      expect(await embed(bytes, options, input)).toEqual(await embed(bytes, options, 'tensor'));
    },
  );

  it('is floats where bytes do not tell the values, and on the CPU', async () => {
    const floats = { resampler: 'torch-float' };
    expect(await chooseInput(tinyResNet(), floats)).toBe('tensor');
    const open = convolution(3, ['n', 'h', 'w', 'c']);
    expect(await chooseInput(open, { layout: 'nhwc' })).toBe('tensor');
    expect(await chooseInput(convolution(4, ['n', 4, 'h', 'w']), {})).toBe('tensor');
    expect(await chooseInput(tinyResNet(), {}, { device: 'cpu' })).toBe('tensor');
    await expect(chooseInput(tinyResNet(), floats, { normalize: 'graph' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });

  it('is refused by a transform with other values', async () => {
    const options = { ...clip, arithmetic: 'fused' };
    const input = await chooseInput(tinyResNet(), options);
    await expect(embed(tinyResNet(), clip, input)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
    await expect(
      embed(tinyResNet(), options, { ...(input as object), values: new Float32Array(3) } as never),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'input.values' } });
  });
});
