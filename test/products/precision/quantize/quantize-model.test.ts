/** int8 chosen on photos: by the API, by `tapir extract`, and what `tapir embed` and `tapir bench model` measure of it. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  loadImage,
  openModel,
  pruneModel,
  type Manifest,
} from 'onnx-tapir';
import { lowerPrecision, quantizeModel } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { addsInt8Exactly } from '../../../support/cpu.js';
import { cosineOf } from '../../../support/cosine.js';
import { patchModel } from '../../../support/patches.js';
import { photosAndPlace } from '../../../support/photos.js';
import { runTapir } from '../../../support/run.js';

const { photos, out } = photosAndPlace('quantize-');
const file = join(photos, '..', 'model.onnx');
writeFileSync(file, patchModel());
const options = { resize: 16, crop: 16 } as const;
const transform = createTransform(options);
// Beside the model, where every command finds it.
writeFileSync(join(photos, '..', 'transform.json'), JSON.stringify(transform.options));

describe('quantizeModel', () => {
  it.runIf(addsInt8Exactly)('measures on photos, and lists those that it cannot read', async () => {
    const pruned = await pruneModel(file, { fc2: 'features' });
    const { model, report, failures } = await quantizeModel(pruned, photos, { minCosine: 0.99 });
    expect(new Set(failures.map(({ path }) => path))).toEqual(new Set(['dunes/cut.jpg', 'zero.jpg']));
    expect(report).toMatchObject({
      precision: 'int8',
      nodes: 2,
      measured: [{ output: 'features', samples: 24 }],
    });
    await using exact = await createFeatureExtractor(pruned);
    await using int8 = await createFeatureExtractor(model);
    const image = (await loadImage(join(photos, 'sea/sea-0.jpg'), transform)).toTensor();
    const [a, b] = [(await int8.run(image))['features']!, (await exact.run(image))['features']!];
    expect(cosineOf(a, b)).toBeGreaterThanOrEqual(report.measured![0]!.least - 1e-6);
    expect(report.measured![0]!.least).toBeLessThan(1);
  });

  it.runIf(addsInt8Exactly)(
    'takes whole models, a sample, and pixels that the graph normalises',
    async () => {
      const whole = await quantizeModel(file, photos, {
        sample: 5,
        minCosine: 0,
        keep: ['fc1'],
        transform: options,
      });
      expect(whole.report).toMatchObject({ nodes: 1, measured: [{ output: 'tokens' }] });
      expect(whole.report.measured![0]!.samples).toBeLessThanOrEqual(5);
      expect(whole.model.outputs[0]?.name).toBe('tokens');
      const pixels = await pruneModel(file, ['fc2'], { input: 'image-uint8' });
      expect((await quantizeModel(pixels, photos, { minCosine: 0.9 })).report.nodes).toBe(2);
    },
  );

  it('refuses what does not fit', async () => {
    const invalid = (option: string): object => ({ code: 'OPTION_INVALID', details: { option } });
    await expect(quantizeModel(file, photos, { transform: { resize: 8, crop: 8 } })).rejects.toMatchObject(
      invalid('transform'),
    );
    await expect(quantizeModel(file, photos, { sample: 0 })).rejects.toMatchObject(invalid('sample'));
    await expect(quantizeModel(file, join(photos, 'nowhere'))).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
    });
    await expect(quantizeModel(file, [join(photos, 'zero.jpg')])).rejects.toMatchObject(invalid('samples'));
  });
});

describe('tapir in int8', () => {
  const int8 = join(photos, '..', 'int8.onnx');

  it('takes one photo and copies of one; refuses pixels that are not finite, and a model without products', async () => {
    const one = [join(photos, 'sea/sea-0.jpg')];
    for (const given of [one, [...one, ...one, ...one]]) {
      const { report } = await quantizeModel(file, given, { transform: options, minCosine: 0.9 });
      expect(report.measured![0]!.samples).toBe(given.length);
      expect(report.measured![0]!.least).toBe(report.measured![0]!.mean);
    }
    const broken = { ...options, std: [1e-42, 1, 1] as [number, number, number] };
    const refused = async (given: Promise<unknown>, code: string): Promise<void> => {
      const error: unknown = await given.then(() => undefined).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code });
    };
    await refused(quantizeModel(file, one, { transform: broken, minCosine: 0.9 }), 'OPTION_INVALID');
    const keep = ['MatMul', 'Gemm'];
    await refused(quantizeModel(file, one, { transform: options, keep }), 'PRECISION_UNSUPPORTED');
    const { model } = await quantizeModel(file, one, { transform: options, minCosine: 0.9 });
    const again = join(photos, '..', 'again.onnx');
    await model.save(again);
    await refused(quantizeModel(again, one, { transform: options }), 'PRECISION_UNSUPPORTED');
  });

  it.runIf(addsInt8Exactly)(
    'extract chooses on photos, verifies, and writes the file that the API gives',
    async () => {
      const flags = ['--return', 'fc2=features', '--precision', 'int8', '-o', int8, '--verify'];
      const measured = ['--samples', photos, '--set', 'minCosine=0.99'];
      const ended = await runTapir(['extract', file, ...flags, ...measured]);
      expect(ended.stderr).toMatch(/2 photos left out, which could not be read:\n.*\n {2}zero\.jpg: /);
      // The file is written; some photos were not read.
      expect(ended.code).toBe(1);
      expect(ended.stdout).toMatch(
        /int8: .* kB → .* kB, 2 of 2 tensors, 2 nodes\n {2}cosine to float32 of "features" on 24 photos: least 0\.9\d+, mean 0\.9\d+\n/,
      );
      const exact = await pruneModel(file, { fc2: 'features' });
      const { model } = await lowerPrecision(exact, { precision: 'int8' });
      expect(Buffer.compare(readFileSync(int8), await model.bytes())).toBe(0);
      expect(statSync(int8).size).toBeLessThan(0.5 * statSync(file).size);
      expect((await openModel(int8)).outputs[0]?.name).toBe('features');
    },
  );

  it('extract says what needs another flag', async () => {
    const ended = await runTapir(['extract', file, '--return', 'fc2', '-o', int8, '--samples', photos]);
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('--samples') });
  });

  it.runIf(addsInt8Exactly)('embed measures the first 64 images, and stops below a limit', async () => {
    const flags = ['--model', file, '--return', 'fc2=features', '--precision', 'int8', '--out', out];
    const stopped = await runTapir(['embed', photos, ...flags, '--set', 'minCosine=1']);
    expect(stopped.code).toBe(5);
    expect(stopped.stderr).toMatch(
      /in int8 is too far from float32.*tapir extract --precision int8 --samples/s,
    );
    const done = await runTapir(['embed', photos, ...flags, '--overwrite', '--set', 'minCosine=0.99']);
    expect(done.code).toBe(1);
    const { run } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Manifest;
    // All that there are, not the 16 of other precisions.
    expect(run).toMatchObject({ precision: 'int8', againstFloat32: { images: 24 } });
  });

  it.runIf(addsInt8Exactly)('bench model shows cosines on photos', async () => {
    const flags = [
      '--return',
      'fc2',
      '--precision',
      'all',
      '--photos',
      photos,
      '--batches',
      '2',
      '--set',
      'seconds=0.05',
    ];
    const ended = await runTapir(['bench', 'model', file, ...flags]);
    expect(ended.code).toBe(0);
    const cosines = (precision: string, figure: string): RegExp =>
      new RegExp(
        `\\nonnxruntime ${precision}.* against float32 on 24 photos: least cosine ${figure}, mean ${figure}\\n`,
      );
    expect(ended.stdout).toMatch(cosines('float32', '1\\.000000'));
    expect(ended.stdout).toMatch(cosines('int8', '0\\.99\\d+'));
    const json = await runTapir(['bench', 'model', file, ...flags, '--json']);
    const { compared } = JSON.parse(json.stdout) as { readonly compared: readonly object[] };
    expect(compared.at(-1)).toMatchObject({ precision: 'int8', cosine: { images: 24 } });
    expect((await runTapir(['bench', 'model', file, '--return', 'fc2', '--photos', photos])).code).toBe(2);
  });
});
