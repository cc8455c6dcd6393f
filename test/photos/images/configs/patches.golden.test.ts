/** One photo, several tensors: every configuration of `fixtures/patches` against transformers itself, bit for bit, by hash. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { transformFromConfig } from '../../../../src/photos/images/configs/transform-from-config.js';
import { collateImages } from '../../../../src/photos/images/transform/collate-images.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import type { Tensor } from '../../../../src/onnx/tensor/tensor.js';
import { sharedFixtures, sharedNote } from '../../../support/fixtures.js';

type Golden = Readonly<
  Record<string, { readonly dtype: string; readonly shape: readonly number[]; readonly sha256: string }>
>;
interface Case {
  readonly library: string;
  readonly images?: readonly string[];
}
interface Expected {
  readonly backends: Readonly<
    Record<
      'pil' | 'torchvision',
      {
        readonly images: Readonly<Record<string, { readonly rgb: Golden }>>;
        readonly batches?: readonly { readonly images: readonly string[]; readonly rgb: Golden }[];
        readonly unavailable?: unknown;
      }
    >
  >;
}

const root = join(sharedFixtures ?? '', 'patches');
const readJson = <Json>(path: string): Json => JSON.parse(readFileSync(path, 'utf8')) as Json;
const isHere = existsSync(join(root, 'cases.json'));
const { images: places, cases } = isHere
  ? readJson<{ images: Readonly<Record<string, string>>; cases: Readonly<Record<string, Case>> }>(
      join(root, 'cases.json'),
    )
  : { images: {}, cases: {} };
const configOf = (name: string): unknown => readJson(join(root, 'configs', name, 'preprocessor_config.json'));

const described = (tensors: Readonly<Record<string, Tensor>>): Golden =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, dims, data }]) => {
      const bytes = data as Float32Array;
      const sha256 = createHash('sha256')
        .update(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength))
        .digest('hex');
      return [name, { dtype, shape: dims, sha256 }];
    }),
  );
/** Without the number of tiles, which is one. */
const stated = (tensors: Golden): Golden =>
  Object.fromEntries(
    Object.entries(tensors)
      .filter(([name]) => !name.startsWith('num_'))
      .map(([name, { dtype, shape, sha256 }]) => [name, { dtype, shape, sha256 }]),
  );

/** Twelve megapixels: once is enough. */
const isTried = (name: string, image: string): boolean =>
  !image.startsWith('large') || /256$|1280$|224$/.test(name);
const ours = Object.keys(cases).filter((name) =>
  /^(siglip2|qwen|dinov3-\d|internvl3-plain|gemma3-plain)/.test(name),
);
const others = Object.keys(cases).filter(
  (name) => cases[name]!.library === 'transformers' && !ours.includes(name),
);

describe.skipIf(!isHere)(`processors with patches${sharedNote}`, () => {
  it.each(ours.flatMap((name) => (['pil', 'torchvision'] as const).map((backend) => ({ name, backend }))))(
    '$name gives the bits of transformers ($backend)',
    { timeout: 120_000 },
    async ({ name, backend }) => {
      const { backends } = readJson<Expected>(join(root, 'expected', `${name}.json`));
      const golden = backends[backend];
      if (golden.unavailable !== undefined) return;
      const transform = transformFromConfig(configOf(name), { backend });
      const load = (image: string) => loadImage(join(sharedFixtures!, places[image]!), transform);
      const tried = Object.entries(golden.images).filter(([image]) => isTried(name, image));
      expect(tried.length).toBeGreaterThan(10);
      for (const [image, { rgb }] of tried) {
        const tensors = (await load(image)).toTensors();
        expect(described(tensors), image).toEqual(stated(rgb));
        const shown = transform.tensors.map(({ name: one, dtype, dims }) => [one, dtype, dims!.length]);
        expect(shown).toEqual(
          Object.entries(tensors).map(([one, { dtype, dims }]) => [one, dtype, dims.length]),
        );
      }
      for (const { images, rgb } of golden.batches ?? []) {
        const loaded = await Promise.all(images.map(load));
        expect(described(collateImages(loaded))).toEqual(stated(rgb));
      }
    },
  );

  it.each(others)('refuses %s by its class', (name) => {
    expect(() => transformFromConfig(configOf(name))).toThrow(
      expect.objectContaining({ code: 'TRANSFORM_UNSUPPORTED' }),
    );
  });

  const { refuse } = isHere
    ? readJson<{ refuse: readonly { name: string; file: string; when: string; image?: string }[] }>(
        join(root, 'refuse.json'),
      )
    : { refuse: [] };
  it.each(refuse.filter(({ file }) => file.endsWith('preprocessor_config.json')))(
    'refuses $name, $when',
    async ({ file, when, image }) => {
      const config = readJson(join(root, file));
      if (when === 'on reading') {
        expect(() => transformFromConfig(config)).toThrow(
          expect.objectContaining({ code: 'TRANSFORM_UNSUPPORTED' }),
        );
        return;
      }
      const loading = loadImage(join(sharedFixtures!, places[image!]!), transformFromConfig(config));
      await expect(loading).rejects.toMatchObject({ code: 'IMAGE_MISFIT' });
    },
  );
});
