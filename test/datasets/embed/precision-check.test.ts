/** Features in another precision are compared with float32. Most tests simulate the precision; the last ones need OpenVINO. */
import { PhotoMemory } from '../../../build/modules/photos/feeds/photo-memory.js';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  mergeDataset,
  type EmbedFolderOptions,
  type EmbedSummary,
  type FeatureExtractor,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { createFeatureExtractor as createInside } from '../../../build/modules/extract/create-feature-extractor.js';
import {
  embedBatches,
  openDecodeLanes,
  runPhotos,
} from '../../../build/modules/datasets/embed/embed-batches.js';
import { setUpEmbedding } from '../../../build/modules/datasets/embed/embed-options.js';
import {
  createPrecisionCheck,
  PrecisionCheck,
} from '../../../build/modules/datasets/embed/precision-check.js';
import { buildResNet } from '../../../models/resnet.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { hasBfloat16 } from '../../support/openvino.js';
import { photosAndPlace } from '../../support/photos.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const transform = { resize: 64, crop: 64 };
const sea = projectPath('examples/photos/sea/sea-0.jpg');

/** An extractor that says that it computes in bfloat16. It computes in float32, so all cosines are 1. */
async function openSimulated(): Promise<FeatureExtractor<'f'>> {
  const extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'f' });
  for (const name of ['precision', 'floatPrecision'])
    Object.defineProperty(extractor, name, { value: 'bfloat16' });
  return extractor;
}

const embed = (
  extractor: FeatureExtractor<'f'>,
  photos: string,
  out: string,
  options: Partial<EmbedFolderOptions> = {},
): Promise<EmbedSummary> =>
  embedFolder(extractor, photos, { out, transform, batch: 4, shardSize: 8, ...options });

const journalOf = (out: string): string[] =>
  readFileSync(join(out, 'journal.jsonl'), 'utf8').trim().split('\n');
const same = (images: number) => ({ images, cosine: { f: { least: 1, mean: 1 } } });

describe('embedFolder in another precision', () => {
  it('records the comparison of the first 16 images that could be read', async () => {
    const { photos, out } = photosAndPlace('precision-');
    await using extractor = await openSimulated();
    const { manifest, failed } = await embed(extractor, photos, out, { minCosine: 1 });
    expect(failed).toBe(2);
    expect(manifest.run).toMatchObject({ precision: 'bfloat16', againstFloat32: same(16) });
  });

  it('compares nothing in float32', async () => {
    const { photos, out } = photosAndPlace('precision-');
    await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'f' });
    const { manifest } = await embed(extractor, photos, out, { minCosine: 1 });
    expect(manifest.run.againstFloat32).toBeNull();
    expect(journalOf(out).join()).not.toContain('againstFloat32');
  });

  it('keeps the comparison when a run is resumed, and compares no more images than are missing', async () => {
    const { photos, out } = photosAndPlace('precision-');
    await using extractor = await openSimulated();
    const abort = new AbortController();
    const stopped = embed(extractor, photos, out, {
      signal: abort.signal,
      onProgress: ({ done }) => done >= 12 && abort.abort(new Error('stop')),
    });
    await expect(stopped).rejects.toThrow('stop');
    const lines = journalOf(out).map((line) => JSON.parse(line) as { againstFloat32?: { images: number } });
    const recorded = lines.findLast((line) => line.againstFloat32)!.againstFloat32!.images;
    expect(recorded).toBeGreaterThanOrEqual(7);
    // As if the images of the first run had been further away.
    const path = join(out, 'journal.jsonl');
    const first = JSON.stringify({ least: 0.5, mean: 0.5 });
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('{"least":1,"mean":1}', first));
    const { manifest } = await embed(extractor, photos, out);
    expect(manifest.run.againstFloat32).toMatchObject({ images: 16, cosine: { f: { least: 0.5 } } });
    expect(manifest.run.againstFloat32!.cosine['f']!.mean).toBeCloseTo(1 - (0.5 * recorded) / 16);
    // The manifest of a run without new inputs has it, too.
    expect((await embed(extractor, photos, out)).manifest.run.againstFloat32).toEqual(
      manifest.run.againstFloat32,
    );
    await expect(embed(extractor, photos, out, { minCosine: 0.6 })).rejects.toMatchObject({
      code: 'PRECISION_TOO_LOW',
      details: { output: 'f', cosine: 0.5, minCosine: 0.6 },
    });
    expect(existsSync(join(out, 'manifest.json'))).toBe(true);
  });

  it('joins the comparisons of parts', async () => {
    const { photos, out } = photosAndPlace('precision-');
    await using extractor = await openSimulated();
    const images: number[] = [];
    for (const index of [0, 1]) {
      const { manifest } = await embed(extractor, photos, out, { shard: { index, count: 2 } });
      images.push(manifest.run.againstFloat32!.images);
    }
    const { manifest } = await mergeDataset(out);
    expect(manifest.run?.againstFloat32).toEqual(same(images[0]! + images[1]!));
  });

  it('does not continue a dataset in another precision', async () => {
    const { photos, out } = photosAndPlace('precision-');
    await using extractor = await openSimulated();
    await embed(extractor, photos, out);
    await using exact = await createFeatureExtractor(tinyResNet(), { avgpool: 'f' });
    await expect(embed(exact, photos, out)).rejects.toThrow(
      'precision is "bfloat16" there and "float32" in this run',
    );
  });

  it.each([-0.1, 1.1, Number.NaN, '0.9'])('refuses minCosine %s', async (minCosine) => {
    await using extractor = await openSimulated();
    await expect(embed(extractor, scratch, scratch, { minCosine: minCosine as number })).rejects.toThrow(
      'option "minCosine" must be a number from 0 to 1',
    );
  });
});

describe('a check', () => {
  const images = Array.from({ length: 10 }, () => ({ path: null, image: sea }));
  const openInside = (seed: number) =>
    createInside(buildResNet(seed, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes, {
      avgpool: 'f',
    });

  /** Runs ten images in batches of four with a check against another model. Counts what it opens. */
  async function runChecked(
    open: () => ReturnType<typeof openInside>,
    minCosine?: number,
    items: readonly { path: null; image: string }[] = images,
  ) {
    const extractor = await openInside(0);
    const setup = setUpEmbedding(extractor, { transform, batch: 4 });
    const opened: Awaited<ReturnType<typeof openInside>>[] = [];
    const check = new PrecisionCheck({
      precision: 'bfloat16',
      setup,
      open: async () => {
        const one = await open();
        opened.push(one);
        return one;
      },
      before: undefined,
      minCosine,
    });
    const lanes = openDecodeLanes(extractor, setup);
    let batches = 0;
    let failure: unknown;
    try {
      for await (const _ of embedBatches(extractor, items, setup, lanes, { check })) batches++;
    } catch (error) {
      failure = error;
    }
    return {
      batches,
      failure,
      check,
      opened,
      setup,
      extractor,
      async close() {
        await check.close();
        await lanes.close();
        await extractor.close();
      },
    };
  }
  const isClosed = (extractor: { run(input: never): Promise<unknown> }) =>
    extractor
      .run({ dtype: 'float32', dims: [1, 3, 64, 64], data: new Float32Array(3 * 64 * 64) } as never)
      .then(
        () => false,
        (error: { code: string }) => error.code === 'CLOSED',
      );

  it('measures how far a model is from another one', async () => {
    const run = await runChecked(() => openInside(1));
    expect(run.batches).toBe(3);
    const { images: compared, cosine } = run.check.compared!;
    expect(compared).toBe(10);
    const { least, mean } = cosine['f']!;
    expect(least).toBeLessThan(0.999);
    expect(least).toBeLessThanOrEqual(mean + 1e-12);
    // Ten images are fewer than it wants: the model stays open until the end.
    expect(run.opened).toHaveLength(1);
    expect(await isClosed(run.opened[0]!)).toBe(false);
    await run.close();
    expect(await isClosed(run.opened[0]!)).toBe(true);
    await run.check.close();
  });

  it('ends a run before the batch is handed out', async () => {
    const run = await runChecked(() => openInside(1), 0.9999);
    expect(run.batches).toBe(0);
    expect(run.failure).toMatchObject({
      code: 'PRECISION_TOO_LOW',
      details: { output: 'f', minCosine: 0.9999 },
    });
    expect((run.failure as Error).message).toMatch(/precision "float32".*option "minCosine"/);
    await run.close();
  });

  it('closes the float32 model after 16 images', async () => {
    const run = await runChecked(() => openInside(0), 1, [...images, ...images]);
    expect(run.batches).toBe(5);
    expect(run.check.compared).toEqual(same(16));
    expect(run.opened).toHaveLength(1);
    expect(await isClosed(run.opened[0]!)).toBe(true);
    await run.close();
  });

  it('compares a batch that ends after others, too', async () => {
    const extractor = await openInside(0);
    const setup = setUpEmbedding(extractor, { transform });
    const check = new PrecisionCheck({
      precision: 'bfloat16',
      setup,
      open: () => openInside(0),
      before: { images: 14, cosine: { f: { least: 1, mean: 1 } } },
      minCosine: undefined,
    });
    const memory = new PhotoMemory(setup.feeds, 1);
    const features = await runPhotos(extractor, memory, [0], setup);
    const [first, second, third] = [check.begin([0]), check.begin([0]), check.begin([0])];
    expect(third).toBeUndefined();
    await first!(memory, features);
    await second!(memory, features);
    expect(check.compared).toEqual(same(16));
    await extractor.close();
  });

  it('takes a model that is being opened already, and closes it also if no image was compared', async () => {
    const extractor = await openInside(0);
    const setup = setUpEmbedding(extractor, { transform });
    const memory = new PhotoMemory(setup.feeds, 1);
    for (const images of [[], [0]]) {
      const exact = openInside(0);
      const open = () => Promise.reject(new Error('opened twice'));
      const plan = { precision: 'bfloat16', setup, open, exact, before: undefined, minCosine: 1 };
      const check = new PrecisionCheck(plan);
      if (images.length > 0)
        await check.begin(images)!(memory, await runPhotos(extractor, memory, images, setup));
      await check.close();
      expect(await isClosed(await exact)).toBe(true);
    }
    await extractor.close();
  });

  it('opens nothing if there are no images', async () => {
    const run = await runChecked(() => openInside(0), 1, []);
    expect([run.opened.length, run.check.compared]).toEqual([0, undefined]);
    await run.close();
  });

  it('ends a run with the error of opening', async () => {
    const run = await runChecked(() => Promise.reject(new Error('no memory')));
    expect([run.batches, (run.failure as Error).message]).toEqual([0, 'no memory']);
    await run.close();
  });

  it('does not exist in float32', async () => {
    const extractor = await openInside(0);
    const setup = setUpEmbedding(extractor, { transform });
    expect(createPrecisionCheck(extractor, setup, { before: undefined, minCosine: 1 })).toBeUndefined();
    await extractor.close();
  });

  it('takes NaN and infinite values that both have as equal, and others as far', async () => {
    // x / 0 is infinite or, at the black pixels, NaN.
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 64, 64] }],
      outputs: [{ name: 'y', dims: ['n', 'k'] }],
      initializers: { zero: { dims: [1], values: [0] } },
      nodes: [
        { op: 'Div', inputs: ['x', 'zero'], outputs: ['q'] },
        { op: 'Flatten', inputs: ['q'], outputs: ['y'] },
      ],
    });
    const open = () => createInside(model, ['y']);
    const extractor = await open();
    const setup = setUpEmbedding(extractor, { transform });
    const memory = new PhotoMemory(setup.feeds, 1);
    const features = await runPhotos(extractor, memory, [0], setup);
    const cosineOf = async (change: (data: Float32Array) => void): Promise<number> => {
      const data = (features['y']!.data as Float32Array).slice();
      change(data);
      const check = new PrecisionCheck({
        precision: 'bfloat16',
        setup,
        open,
        before: undefined,
        minCosine: undefined,
      });
      await check.begin([0])!(memory, { y: { ...features['y']!, data } as never });
      await check.close();
      return check.compared!.cosine['y']!.least;
    };
    expect((features['y']!.data as Float32Array)[0]).toBe(-Infinity);
    expect(await cosineOf(() => undefined)).toBe(1);
    expect(await cosineOf((data) => (data[5] = 1))).toBe(0);
    expect(await cosineOf((data) => (data[5] = Number.NaN))).toBe(0);
    await extractor.close();
  });
});

describe.skipIf(!hasBfloat16)('bfloat16 on OpenVINO', () => {
  const model = (): string => {
    const path = join(scratch, 'model.onnx');
    if (!existsSync(path))
      writeFileSync(path, buildResNet(0, { blocks: [1, 1, 1, 1], width: 16, size: 64, classes: 10 }).bytes);
    return path;
  };
  const tapir = (photos: string, out: string, ...flags: string[]): ReturnType<typeof runTapir> => {
    const shown = [
      '--transform',
      '{"resize":64,"crop":64}',
      '--engine',
      'openvino',
      '--precision',
      'bfloat16',
    ];
    const outputs = ['--return', 'avgpool=v', '--return', 'layer1=map'];
    return runTapir(['embed', photos, '--model', model(), ...outputs, '--out', out, ...shown, ...flags]);
  };

  it('is measured, recorded and printed', async () => {
    const { photos, out } = photosAndPlace('bfloat16-');
    const ended = await tapir(photos, out, '--set', 'minCosine=0.9');
    expect(ended.stdout).toMatch(
      /^ {2}bfloat16 against float32 on 16 images: cosine ≥ 0\.9\d{3} \(v\), ≥ 0\.9\d{3} \(map\)$/m,
    );
    const again = await tapir(photos, out, '--json');
    const done = JSON.parse(again.stdout.trim().split('\n').at(-1)!) as EmbedSummary;
    const { run, versions } = done.manifest;
    expect(run).toMatchObject({ engine: 'openvino', precision: 'bfloat16', againstFloat32: { images: 16 } });
    for (const { least, mean } of Object.values(run.againstFloat32!.cosine)) {
      expect(least).toBeGreaterThan(0.9);
      expect(mean).toBeGreaterThanOrEqual(least);
      // Not the same values: it has computed in bfloat16.
      expect(mean).toBeLessThan(1);
    }
    expect(versions.openvino).toMatch(/^\d{4}\./);
    expect(versions).not.toHaveProperty('onnxruntime');
  });

  it('stops a run before anything is written, with exit code 5', async () => {
    const { photos, out } = photosAndPlace('bfloat16-');
    const ended = await tapir(photos, out, '--set', 'minCosine=1');
    expect(ended.code).toBe(5);
    expect(ended.stderr).toContain('[PRECISION_TOO_LOW]');
    expect(journalOf(out)).toHaveLength(1);
    expect(existsSync(join(out, 'manifest.json'))).toBe(false);
  });

  it('keeps its comparison after a kill', async () => {
    const { photos } = photosAndPlace('bfloat16-');
    for (let i = 0; i < 200; i++) copyFileSync(sea, join(photos, `more-${i}.jpg`));
    const out = mkdtempSync(join(scratch, 'killed-'));
    const path = join(out, 'journal.jsonl');
    // The 16th image that can be read is in the second shard, as one of the first 16 is damaged.
    const isCompared = (): boolean =>
      existsSync(path) && journalOf(out).at(-1)?.includes('"images":16') === true;
    const flags = ['--batch', '8', '--set', 'shardSize=16', '--set', 'sessions=1'];
    const args = ['embed', photos, '--model', model(), '--return', 'avgpool=v', '--out', out, ...flags];
    const ended = await runTapir(
      [...args, '--transform', '{"resize":64,"crop":64}', '--engine', 'openvino', '--precision', 'bfloat16'],
      { signal: { name: 'SIGKILL', when: isCompared } },
    );
    expect(ended.signal).toBe('SIGKILL');
    const last = JSON.parse(journalOf(out).at(-1)!) as { againstFloat32: object };
    expect(last.againstFloat32).toMatchObject({ images: 16 });
    await using extractor = await createFeatureExtractor(
      model(),
      { avgpool: 'v' },
      { engine: 'openvino', precision: 'bfloat16' },
    );
    const resumed = embedFolder(extractor, photos, {
      out,
      transform,
      batch: 8,
      shardSize: 16,
      minCosine: 0.9,
    });
    const { manifest, skipped } = await resumed;
    expect(skipped).toBeGreaterThan(0);
    expect(manifest.run.againstFloat32).toEqual(last.againstFloat32);
  });
});

describe('tapir embed --set minCosine', () => {
  it('is refused for rows', async () => {
    const ended = await runTapir(
      ['embed', scratch, '--model', 'm.onnx', '--return', 'f', '--out', '-', '--format', 'jsonl'].concat(
        '--set',
        'minCosine=0.9',
      ),
    );
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('tapir: --set minCosine must be left out with --out -');
  });
});
