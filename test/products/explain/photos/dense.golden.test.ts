/** Tokens, maps and pictures of dense features against transformers and sklearn's PCA: DINOv2 with registers and DINOv3, at several sizes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  loadImage,
  transformFromConfig,
  type Tensor,
  type TensorLike,
} from 'onnx-tapir';
import { drawFeatures } from 'onnx-tapir/explain';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { sharedFixtures, sharedNote } from '../../../support/fixtures.js';
import { readNpy } from '../../../support/npy.js';

interface Picture {
  readonly file: string;
  readonly size: readonly [width: number, height: number];
}
interface Dense {
  readonly model: string;
  readonly processor: string;
  readonly images: readonly string[];
  readonly tokens: Readonly<Record<'class' | 'registers' | 'patches', readonly [number, number]>>;
  readonly grid: readonly [number, number];
  readonly together: { readonly pictures: readonly Picture[] };
  readonly alone: readonly Picture[];
}

interface Towers {
  readonly models: Readonly<
    Record<
      string,
      {
        readonly tolerance: number;
        readonly processors: Readonly<
          Record<string, { readonly file: string; readonly backend: 'pil' | 'torchvision' }>
        >;
      }
    >
  >;
}

const folder = join(sharedFixtures ?? '', 'patches');
const read = <Json>(path: string): Json => JSON.parse(readFileSync(join(folder, path), 'utf8')) as Json;
const cases = sharedFixtures ? Object.entries(read<Record<string, Dense>>('dense.json')) : [];
const { models } = sharedFixtures ? read<Towers>('models.json') : { models: {} };

async function extract(
  { model, processor, images }: Dense,
  file: string,
  options: { readonly part?: 'class' | 'registers' | 'patches'; readonly tokensToMap?: boolean },
) {
  await using extractor = await createFeatureExtractor(
    join(folder, 'models', model, file),
    { last_hidden_state: 'tokens' },
    options,
  );
  const { file: config, backend } = models[model]!.processors[processor]!;
  const transform = transformFromConfig(read(config), { backend });
  const outputs: Tensor<'float32'>[] = [];
  for (const image of images) {
    // oxlint-disable-next-line no-await-in-loop -- one session
    const photo = await loadImage(join(folder, '../preprocess/images', image), transform);
    // oxlint-disable-next-line no-await-in-loop -- one session
    outputs.push((await extractor.run(photo.toTensor())).tokens as Tensor<'float32'>);
  }
  return { outputs, info: extractor.outputs[0]! };
}

/** Levels between a drawn picture, one pixel a place, and its golden file. */
async function levelsApart(drawn: Uint8Array, left: number, { file, size: [width, height] }: Picture) {
  const image = sharp(drawn).extract({ left, top: 0, width, height });
  const [ours, theirs] = await Promise.all([
    image.removeAlpha().raw().toBuffer(),
    sharp(join(folder, file)).removeAlpha().raw().toBuffer(),
  ]);
  expect(ours).toHaveLength(theirs.length);
  return ours.reduce((most, byte, i) => Math.max(most, Math.abs(byte - theirs[i]!)), 0);
}

const joined = (tensors: readonly Tensor<'float32'>[]): TensorLike => ({
  dtype: 'float32',
  dims: tensors[0]!.dims.with(0, tensors.length),
  data: Float32Array.from(tensors.flatMap(({ data }) => [...data])),
});

describe(`dense features${sharedNote}`, () => {
  const files = (model: string): string[] =>
    model === 'dinov3-tiny' ? [`${model}.onnx`, `${model}-script.onnx`] : [`${model}.onnx`];
  const rows = cases.flatMap(([name, dense]) =>
    files(dense.model).map((file) => [name, file, dense] as const),
  );

  it.each(rows)('%s of %s: the parts of the tokens', async (_, file, dense) => {
    for (const part of ['class', 'registers', 'patches'] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one session at a time
      const { outputs } = await extract(dense, file, { part });
      const [start, end] = dense.tokens[part];
      outputs.forEach(({ dims, data }, i) => {
        const name = `${dense.images[i]}@${dense.processor}.last_hidden_state.npy`;
        const whole = readNpy(join(folder, 'outputs', dense.model, name));
        expect(dims).toEqual([1, end - start, 32]);
        const golden = (whole.data as Float32Array).slice(start * 32, end * 32);
        golden.forEach((value, j) =>
          expect(Math.abs(value - data[j]!)).toBeLessThan(models[dense.model]!.tolerance),
        );
      });
    }
  });

  it.each(rows)('%s of %s: a map, and its pictures together and alone', async (_, file, dense) => {
    const { outputs } = await extract(dense, file, { tokensToMap: true });
    const [height, width] = dense.grid;
    for (const { dims } of outputs) expect(dims).toEqual([1, 32, height, width]);
    const options = { clip: 0, imageSize: { height, width } };
    for (const [i, output] of outputs.entries())
      // oxlint-disable-next-line no-await-in-loop -- a few places
      expect(await levelsApart(await drawFeatures(output, options), 0, dense.alone[i]!)).toBeLessThanOrEqual(
        1,
      );
    for (const features of [outputs, joined(outputs)]) {
      // oxlint-disable-next-line no-await-in-loop -- as above
      const drawn = await drawFeatures(features, options);
      for (const [i, picture] of dense.together.pictures.entries())
        // oxlint-disable-next-line no-await-in-loop -- as above
        expect(await levelsApart(drawn, i * width, picture)).toBeLessThanOrEqual(1);
    }
  });

  it.each(rows)('%s of %s: what the tokens are', async (_, file, dense) => {
    const { info } = await extract(dense, file, {});
    expect(info.tokens).toEqual({
      class: [0, 1],
      registers: [1, 5],
      patches: [5, null],
      patchSize: dense.model === 'dinov3-tiny' ? 16 : 14,
    });
  });
});
