/** Photos that decide the sizes of their feeds: sorted by shape within a window, rows in the order of the source, the same bits after a stop. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  embedImages,
  loadImage,
  transformFromConfig,
  type Transform,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { copyFile, mkdir } from 'node:fs/promises';
import {
  fixturePath,
  projectPath,
  scratchFolder,
  sharedFixtures,
  sharedNote,
} from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

/** Mean of each channel, of photos of any size. */
const means = modelBytes({
  inputs: [{ name: 'x', dims: ['n', 3, 'h', 'w'] }],
  outputs: [{ name: 'y', dims: ['n', 3, 1, 1] }],
  nodes: [{ op: 'GlobalAveragePool', inputs: ['x'], outputs: ['y'] }],
});

const examples = (): string[] =>
  readdirSync(projectPath('examples/photos'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.jpg'))
    .toSorted()
    .slice(0, 24)
    .map((name) => projectPath(`examples/photos/${name}`));

/** The bytes of all feature files of a dataset, in order. */
const featuresOf = (out: string): Buffer =>
  Buffer.concat(
    readdirSync(join(out, 'features'), { recursive: true, encoding: 'utf8' })
      .toSorted()
      .filter((name) => name.endsWith('.npy'))
      .map((name) => readFileSync(join(out, 'features', name))),
  );

describe('photos of unlike shape', () => {
  const scratch = scratchFolder();

  it('give their rows in the order of the source, whatever runs together', async () => {
    await using extractor = await createFeatureExtractor(means, ['y']);
    const photos = examples();
    const sizes = [64, 32, 48].map((side) => ({ shortest: side, multiple: 16 }));
    for (const size of sizes) {
      const expected: number[][] = [];
      for (const photo of photos) {
        const image = await loadImage(photo, { resize: size, crop: null });
        const { y } = await extractor.run(image);
        expected.push([...(y.data as Float32Array)]);
      }
      const given: number[][] = [];
      for await (const { features } of embedImages(extractor, photos, { transform: { size }, batch: 2 }))
        given.push([...(features!.y.data as Float32Array)]);
      expect(given).toEqual(expected);
    }
  });

  it('list a photo that leaves no whole patch as its error, and go on', async () => {
    await using extractor = await createFeatureExtractor(means, ['y']);
    const [first] = examples();
    const codes: (string | undefined)[] = [];
    for await (const { error } of embedImages(
      extractor,
      [first!, fixturePath('preprocess/images/own_strip.png'), first!],
      { transform: { size: { longest: 64, multiple: 16 } } },
    ))
      codes.push(error?.code);
    expect(codes).toEqual([undefined, 'IMAGE_MISFIT', undefined]);
  });

  const tower = join(sharedFixtures ?? '', 'patches/models/naflex-tiny');
  it.skipIf(!existsSync(tower))(
    `have the same bytes in a run that was stopped and resumed${sharedNote}`,
    async () => {
      const config = JSON.parse(readFileSync(join(tower, 'preprocessor_config.json'), 'utf8')) as unknown;
      const transform: Transform = transformFromConfig(config);
      const photos = join(scratch, 'photos');
      await mkdir(photos);
      for (const [i, photo] of examples().entries()) await copyFile(photo, join(photos, `${i % 7}-${i}.jpg`));
      await using extractor = await createFeatureExtractor(
        join(tower, 'naflex-tiny.onnx'),
        { pooler_output: 'v' },
        { transform },
      );
      const settings = { batch: 1, shardSize: 8 };
      const whole = join(scratch, 'whole');
      const { manifest } = await embedFolder(extractor, photos, { ...settings, out: whole });
      expect(manifest.run.window).toBe(8);
      for (const stopAt of [1, 9, 17]) {
        const out = join(scratch, `stopped-${stopAt}`);
        const stop = new AbortController();
        const onProgress = ({ done }: { readonly done: number }): void => {
          if (done >= stopAt) stop.abort(new Error('stopped'));
        };
        await expect(
          embedFolder(extractor, photos, { ...settings, out, signal: stop.signal, onProgress }),
        ).rejects.toThrow('stopped');
        await embedFolder(extractor, photos, { ...settings, out });
        expect(featuresOf(out).equals(featuresOf(whole))).toBe(true);
      }
    },
  );
});
