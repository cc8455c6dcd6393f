/** A transform as operators of ONNX, run by ONNX Runtime, against the product's own pixels: the same bits. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../src/extract/prune-model.js';
import { decodeImage } from '../../../src/photos/images/decode/decode.js';
import { makeTransform, type Transform } from '../../../src/photos/images/transform/transform.js';
import {
  TRANSFORM_PRESETS,
  type TransformOptions,
  type TransformPreset,
} from '../../../src/photos/images/transform/transform-options.js';
import {
  createPhotoFront,
  PROOF_ENTRY,
  testPicture,
  TRANSFORM_ENTRY,
  type PhotoProof,
} from '../../../src/photos/graph/photo-front.js';
import { readModelMetadata } from '../../../src/onnx/file/model-metadata.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import { WireReader } from '../../../src/onnx/file/wire/wire.js';
import { fixturePath } from '../../support/fixtures.js';
import { madePhoto, photoFile, PhotoSession, type FileKind, type Photo } from '../../support/photo-files.js';

/** Made by torchvision and Pillow. */
const golden = JSON.parse(readFileSync(fixturePath('preprocess/expected.json'), 'utf8')) as {
  readonly images: Readonly<
    Record<
      string,
      {
        readonly presets: Readonly<
          Record<string, { readonly sha256: string; readonly chw_float32_sha256?: string }>
        >;
      }
    >
  >;
};
const GOLDEN = {
  v1: 'ImageNet1K_V1',
  v2: 'ImageNet1K_V2',
  bicubic256: 'Bicubic256',
  squash224: 'Squash224',
} as const;

const SQUARE = { height: 48, width: 48 };
const WIDE = { height: 30, width: 45 };

/** Every kind of resize, crop, filter and arithmetic. */
const TRANSFORMS: Readonly<Record<string, Partial<TransformOptions>>> = {
  'shorter side, bilinear': { resize: 64, crop: 56 },
  'shorter side, bicubic': { resize: 64, crop: 56, interpolation: 'bicubic' },
  squashed: { resize: SQUARE, crop: null },
  'Pillow 13': { resize: SQUARE, crop: null, resampler: 'pillow-13', interpolation: 'bicubic' },
  box: { resize: 40, crop: 40, interpolation: 'box' },
  hamming: { resize: 40, crop: 40, interpolation: 'hamming' },
  lanczos: { resize: 40, crop: 40, interpolation: 'lanczos' },
  nearest: { resize: 40, crop: 33, interpolation: 'nearest' },
  'torch, bilinear': { resize: 64, crop: 56, resampler: 'torch' },
  'torch, bicubic': { resize: SQUARE, crop: null, resampler: 'torch', interpolation: 'bicubic' },
  'torch, lanczos': { resize: 40, crop: 40, resampler: 'torch', interpolation: 'lanczos' },
  'torch, nearest': { resize: 40, crop: 33, resampler: 'torch', interpolation: 'nearest' },
  'torch without antialias': { resize: 64, crop: 56, resampler: 'torch', antialias: false },
  'padded with a colour': { resize: 30, crop: { height: 50, width: 41 }, fill: [12, 34, 56] },
  'padded with zeros': { resize: { longest: 50 }, crop: 50, cropPlace: 'start', fill: null },
  'edges, floor': { resize: { shortest: 30, longest: 50 }, crop: 48, cropOffset: 'floor', fill: 7 },
  inside: { resize: { fit: 'inside', ...WIDE }, crop: WIDE, fill: 114 },
  outside: { resize: { fit: 'outside', ...WIDE }, crop: WIDE, cropOffset: 'trunc' },
  thumbnail: { resize: { fit: 'thumbnail', ...WIDE }, crop: WIDE, cropOffset: 'ceil' },
  'nearest multiple': { resize: { fit: 'nearest', ...WIDE, multiple: 3 }, crop: null },
  'whole multiples': { resize: { shortest: 28, multiple: 7 }, crop: null },
  'multiples of its own': { resize: { multiple: 7 }, crop: null },
  'multiples of the height': { resize: { height: 28, multiple: 7 }, crop: null },
  'multiples of the longer side': { resize: { longest: 28, multiple: 7 }, crop: null },
  'its own size': { resize: null, crop: 40 },
  grey: { resize: 48, crop: 40, channelOrder: 'grey', mean: [0.5], std: [0.5] },
  'blue first, 0 to 255': { resize: 30, crop: 40, channelOrder: 'bgr', scale: 1, mean: [103.9, 116.8, 123.7], std: [1, 1, 1], fill: [1, 2, 3] },
  fused: { resize: 40, crop: 40, arithmetic: 'fused' },
  'in double precision': { resize: 40, crop: 40, arithmetic: 'transformers', scale: 1 / 127.5, offset: 1, mean: null, std: null },
  'cut before': { first: { crop: { height: 0.875, width: 0.8 } }, resize: 40, crop: 40 },
  'resized before': { first: { resize: { longest: 60 } }, resize: { fit: 'thumbnail', ...WIDE }, crop: WIDE },
}; // prettier-ignore

/** Heights and widths: a pixel, strips, its own size, odd numbers. */
const SIZES = [
  [1, 1],
  [97, 61],
  [48, 48],
  [3, 250],
  [311, 2],
  [207, 340],
  [64, 56],
] as const;

/** The tensor of a photo without a graph; undefined where the transform refuses the size. */
function expected(transform: Transform, photos: readonly Photo[], kind: FileKind = {}) {
  const { dtype = 'float32', isLast = false } = kind;
  const target = { dtype, isLast, input: 'pixels', hasBatch: kind.input === 'photo-batch' };
  try {
    const { dims, data } = createPhotoFront(transform, target).tensorOf(photos);
    const { buffer, byteOffset, byteLength } = data as Uint8Array;
    return { dims, sha256: digest(new Uint8Array(buffer, byteOffset, byteLength)) };
  } catch (error) {
    if ((error as { code?: unknown }).code === 'IMAGE_MISFIT') return undefined;
    throw error;
  }
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

async function computed(bytes: Uint8Array, photos: readonly Photo[]) {
  const session = await PhotoSession.open(bytes);
  const found = [];
  for (const photo of photos) {
    const { dims, bytes: elements } = await session.run(photo);
    found.push({ dims: [...dims], sha256: digest(elements) });
  }
  await session.close();
  return found;
}

describe('the pixels of a transform in the graph', () => {
  it.each(Object.entries(TRANSFORMS))('%s', async (_, options) => {
    const transform = makeTransform(options);
    const all = SIZES.map(([height, width], seed) => madePhoto(height, width, seed));
    const wanted = all.map((photo) => expected(transform, [photo]));
    const photos = all.filter((_photo, i) => wanted[i]);
    expect(photos.length).toBeGreaterThan(2);
    expect(await computed(await photoFile(transform), photos)).toEqual(wanted.filter((one) => one));
  });

  it('photos of torchvision’s golden data', async () => {
    const names = Object.keys(golden.images);
    const photos = await Promise.all(
      names.map((name) =>
        decodeImage(fixturePath(`preprocess/images/${name}`), TRANSFORM_PRESETS.ImageNet1K_V1),
      ),
    );
    const resultsOf = async (options: TransformPreset, kind: FileKind): Promise<string[]> =>
      (await computed(await photoFile(makeTransform(options), kind), photos)).map(({ sha256 }) => sha256);
    for (const [preset, name] of Object.entries(GOLDEN)) {
      const found = await resultsOf(name, { dtype: 'uint8', isLast: true });
      expect(found).toEqual(names.map((image) => golden.images[image]!.presets[preset]!.sha256));
    }
    const floats = await resultsOf('ImageNet1K_V1', {});
    expect(floats).toEqual(names.map((image) => golden.images[image]!.presets['v1']!.chw_float32_sha256));
  });

  it('a photo of 12,000 × 100, which Pillow takes by rows first', async () => {
    const transform = makeTransform({ resize: 32, crop: 32 });
    const photos = [madePhoto(12_000, 100, 1), madePhoto(100, 12_000, 2)];
    const wanted = photos.map((photo) => expected(transform, [photo]));
    expect(await computed(await photoFile(transform), photos)).toEqual(wanted);
  });

  const kinds: Readonly<Record<string, FileKind>> = {
    'float16, channels last': { dtype: 'float16', isLast: true },
    bytes: { dtype: 'uint8' },
    'bytes, channels last': { dtype: 'uint8', isLast: true },
    'operator set 18': { opset: 18 },
    'operator set 21': { opset: 21 },
  };
  it.each(Object.entries(kinds))('for an input of %s', async (_, kind) => {
    const transform = makeTransform({ resize: 30, crop: 36, channelOrder: 'bgr', fill: 9 });
    const photo = madePhoto(71, 53, 4);
    const found = await computed(await photoFile(transform, kind), [photo]);
    expect(found).toEqual([expected(transform, [photo], kind)]);
  });

  it.each([1, 5])('%i photos of one size', async (count) => {
    const transform = makeTransform({ resize: 40, crop: 40 });
    const photos = Array.from({ length: count }, (_, seed) => madePhoto(50, 81, seed));
    const kind = { input: 'photo-batch' } as const;
    const session = await PhotoSession.open(await photoFile(transform, kind));
    const data = new Uint8Array(Buffer.concat(photos.map((photo) => photo.data)));
    const { dims, bytes } = await session.run({ height: 50, width: 81, data }, count);
    await session.close();
    expect({ dims: [...dims], sha256: digest(bytes) }).toEqual(expected(transform, photos, kind));
  });
});

describe('what is refused', () => {
  it.each([
    ['resampler', { resampler: 'torch-float' }],
    ['crops', { crops: 'five' }],
  ] as const)('%s', async (field, options) => {
    await expect(photoFile(makeTransform(options))).rejects.toMatchObject({
      code: 'TRANSFORM_UNSUPPORTED',
      details: { field },
    });
  });
});

describe('the metadata of a file', () => {
  it('has the transform, and a picture that proves the runtime', async () => {
    const transform = makeTransform({ resize: 40, crop: 40, interpolation: 'bicubic' });
    const bytes = await photoFile(transform);
    const reader = new WireReader(memorySource(bytes));
    const metadata = readModelMetadata(reader, [TRANSFORM_ENTRY, PROOF_ENTRY]);
    expect(JSON.parse(metadata.get(TRANSFORM_ENTRY)!)).toEqual(transform.options);
    const proof = JSON.parse(metadata.get(PROOF_ENTRY)!) as PhotoProof;
    expect(proof).toMatchObject({ tensor: 'pixels', dtype: 'float32', dims: [1, 3, 40, 40] });
    expect(await computed(bytes, [testPicture(proof)])).toEqual([{ dims: proof.dims, sha256: proof.sha256 }]);
  });

  it('the plan lists the nodes', async () => {
    const model = await openModel(await photoFile(makeTransform({ resize: 40, crop: 40 })));
    const { added } = (await pruneModel(model, ['tensor:tensor'])).plan;
    expect(added.nodes).toEqual([]);
    expect(model.inputs).toEqual([{ name: 'photo', dtype: 'uint8', dims: ['height', 'width', 3] }]);
  });
});
