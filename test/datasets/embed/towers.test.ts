/** Vision towers that take several tensors of a photo, or photos of any size, from their files: against torch, and against themselves. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  collateImages,
  createFeatureExtractor,
  DataParallel,
  embedFolder,
  embedImages,
  loadImage,
  transformFromConfig,
  type Tensor,
  type Transform,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scratchFolder, sharedFixtures, sharedNote } from '../../support/fixtures.js';
import { readNpy } from '../../support/npy.js';
import { someOf } from '../../support/rounds.js';

interface Tower {
  readonly exports: Readonly<Record<string, { readonly file: string }>>;
  readonly processors: Readonly<
    Record<string, { readonly file: string; readonly backend: 'pil' | 'torchvision' }>
  >;
  readonly results: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          { readonly outputs: Readonly<Record<string, { readonly file: string }>>; readonly patches?: number }
        >
      >
    >
  >;
  readonly tolerance: number;
  readonly images: readonly string[];
}

const root = join(sharedFixtures ?? '', 'patches');
const isHere = existsSync(join(root, 'models.json'));
const readJson = <Json>(path: string): Json => JSON.parse(readFileSync(path, 'utf8')) as Json;
const { models } = isHere
  ? readJson<{ models: Readonly<Record<string, Tower>> }>(join(root, 'models.json'))
  : { models: {} };
const { images: places } = isHere
  ? readJson<{ images: Readonly<Record<string, string>> }>(join(root, 'cases.json'))
  : { images: {} };
const pathOf = (image: string): string => join(sharedFixtures!, places[image]!);

const cases = Object.entries(models)
  .filter(([, tower]) => 'results' in tower)
  .flatMap(([name, tower]) =>
    Object.entries(tower.exports).flatMap(([kind, { file }]) =>
      Object.keys(tower.processors).map((processor) => ({
        name: `${name} (${kind}, ${processor})`,
        tower,
        file,
        processor,
      })),
    ),
  );

/** The first elements of a tensor: of rows that padding follows, those before it. */
function first({ data }: Tensor, length: number): number[] {
  return [...(data as Float32Array).subarray(0, length)];
}

function farthest(a: readonly number[], b: readonly number[]): number {
  expect(a).toHaveLength(b.length);
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}

describe.skipIf(!isHere)(`towers${sharedNote}`, () => {
  const scratch = scratchFolder();

  it.each(someOf(cases, 3))(
    '$name gives the numbers of torch',
    { timeout: 60_000 },
    async ({ tower, file, processor }) => {
      const { tolerance, images } = tower;
      const { file: config, backend } = tower.processors[processor]!;
      const results = tower.results[processor]!;
      const transform: Transform = transformFromConfig(readJson(join(root, config)), { backend });
      await using extractor = await createFeatureExtractor(
        join(root, file),
        ['last_hidden_state', 'pooler_output'],
        {
          transform,
        },
      );
      const loaded = await Promise.all(images.map((image) => loadImage(pathOf(image), transform)));
      /** What torch gives for a photo, without the rows of padding. */
      const expected = (image: string, key: string): number[] => {
        const { outputs, patches } = results[image]!;
        const { dims, data } = readNpy(join(root, outputs[key]!.file));
        const isPadded = patches !== undefined && key === 'last_hidden_state';
        return [...(data as Float32Array).subarray(0, isPadded ? patches * dims.at(-1)! : undefined)];
      };
      const check = (image: string, features: Readonly<Record<string, Tensor>>): void => {
        for (const [key, tensor] of Object.entries(features)) {
          const wanted = expected(image, key);
          expect(farthest(first(tensor, wanted.length), wanted), `${image} ${key}`).toBeLessThan(tolerance);
        }
      };
      for (const [i, image] of images.entries()) {
        check(image, await extractor.run(loaded[i]!));
        check(image, await extractor.run(loaded[i]!.toTensors()));
        const vector = await extractor.embed(pathOf(image), { output: 'pooler_output' });
        expect(farthest([...vector], expected(image, 'pooler_output'))).toBeLessThan(tolerance);
      }
      const together = await extractor.run(collateImages(loaded));
      for (const [key, tensor] of Object.entries(together)) {
        const batch = readNpy(join(root, results['batch']!.outputs[key]!.file));
        expect(farthest(first(tensor, batch.data.length), [...(batch.data as Float32Array)])).toBeLessThan(
          tolerance,
        );
      }
      const vectors = await extractor.embed(images.map(pathOf), { output: 'pooler_output' });
      for (const [i, image] of images.entries())
        expect(farthest([...vectors[i]!], expected(image, 'pooler_output'))).toBeLessThan(tolerance);
      for (const batch of [1, 2, 8]) {
        const seen: string[] = [];
        for await (const { path, features, error } of embedImages(extractor, images.map(pathOf), { batch })) {
          expect(error).toBeUndefined();
          const image = images.find((one) => path!.endsWith(one))!;
          seen.push(image);
          check(image, features!);
        }
        expect(seen).toEqual(images);
      }
      await using parallel = await DataParallel.create(extractor, { devices: ['cpu:0', 'cpu:1'] });
      check(images[0]!, await parallel.run(loaded[0]!));
      for await (const { path, features } of embedImages(parallel, images.map(pathOf)))
        check(
          images.find((one) => path!.endsWith(one))!,
          features!,
        );
    },
  );

  it('writes NaFlex into a dataset, and refuses to make one array of what each photo has in another length', async () => {
    const { images, tolerance, results } = models['naflex-tiny']!;
    const transform = transformFromConfig(
      readJson(join(root, 'models/naflex-tiny/preprocessor_config.json')),
      { backend: 'pil' },
    );
    await using extractor = await createFeatureExtractor(
      join(root, 'models/naflex-tiny/naflex-tiny.onnx'),
      ['last_hidden_state', 'pooler_output'],
      { transform },
    );
    const out = join(scratch, 'naflex');
    const { manifest } = await embedFolder(extractor, images.map(pathOf), { out, batch: 2, shardSize: 1 });
    expect(manifest).toMatchObject({ counts: { ok: 4 }, run: { batch: 2, window: 16 } });
    const [file] = readdirSync(join(out, 'features', 'pooler_output'));
    const { data } = readNpy(join(out, 'features', 'pooler_output', file!));
    const wanted = images.flatMap((image) => [
      ...(readNpy(join(root, results['default']![image]!.outputs['pooler_output']!.file))
        .data as Float32Array),
    ]);
    expect(farthest([...(data as Float32Array)], wanted)).toBeLessThan(tolerance);
    const qwen = transformFromConfig(readJson(join(root, 'models/qwen2-vl-tiny/preprocessor_config.json')));
    await using unlike = await createFeatureExtractor(
      join(root, 'models/qwen2-vl-tiny/qwen2-vl-tiny.onnx'),
      ['pooler_output'],
      {
        transform: qwen,
      },
    );
    await expect(
      embedFolder(unlike, images.map(pathOf), { out: join(scratch, 'qwen') }),
    ).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
    });
  });
});
