/** Extractors with `precision: 'float16'`: the pruned model is lowered before sessions open. */
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { createFeatureExtractor, embedFolder, openModel, pruneModel } from 'onnx-tapir';
import { compareModels, lowerPrecision } from 'onnx-tapir/precision';
import { Pipeline } from 'onnx-tapir/stages';
import { createAttribution } from 'onnx-tapir/explain';
import { describe, expect, it } from 'vitest';
import { cosineOf } from '../support/cosine.js';
import { scratchFolder, tinyResNet } from '../support/fixtures.js';
import { photosAndPlace } from '../support/photos.js';
import { runTapir } from '../support/run.js';

const scratch = scratchFolder();
const nodes = { layer2: 'map', avgpool: 'pooled' } as const;
const precision = 'float16';
const batch = {
  dtype: 'float32',
  dims: [4, 3, 64, 64],
  data: Float32Array.from({ length: 4 * 3 * 64 * 64 }, (_, i) => Math.sin(i * 0.37) * 2),
} as const;

describe('precision float16', () => {
  it('computes in it, gives float32, and goes back to the exact model when asked', async () => {
    await using float32 = await createFeatureExtractor(tinyResNet(), nodes);
    await using float16 = await createFeatureExtractor(tinyResNet(), nodes, { precision });
    const [exact, half] = [await float32.run(batch), await float16.run(batch)];
    expect(float16.precision).toBe('float16');
    for (const key of ['map', 'pooled'] as const) {
      expect(half[key].dtype).toBe('float32');
      expect(half[key].data).not.toEqual(exact[key].data);
      expect(cosineOf(half[key], exact[key])).toBeGreaterThan(0.9999);
    }
    await using same = await createFeatureExtractor(float16);
    expect(same.precision).toBe('float16');
    expect((await same.run(batch)).map.data).toEqual(half.map.data);
    await using other = await createFeatureExtractor(float16, { layer1: 'early' });
    expect(other.precision).toBe('float16');
    await using back = await createFeatureExtractor(float16, undefined, { precision: 'float32' });
    expect((await back.run(batch)).map.data).toEqual(exact.map.data);
  });

  it('is that of a lowered model, with the operators chosen for it', async () => {
    const exact = await pruneModel(tinyResNet(), nodes);
    const { model } = await lowerPrecision(exact, { convert: ['GlobalAveragePool'] });
    await using extractor = await createFeatureExtractor(model);
    expect(extractor.precision).toBe('float16');
    expect(extractor.model).toBe(model);
  });

  it.each([
    ['DataParallel', { devices: ['cpu:0', 'cpu:1'], cache: 'always', cacheFolder: join(scratch, 'cache') }],
    ['an image input', { input: 'image-uint8' }],
    ['a process', { isolation: 'process' }],
  ] as const)('works with %s', async (_, options) => {
    const open = (one: 'float32' | 'float16') =>
      createFeatureExtractor(tinyResNet(), nodes, { ...options, precision: one } as object);
    await using float16 = await open('float16');
    await using float32 = await open('float32');
    const pixels = {
      dtype: 'uint8',
      dims: [4, 64, 64, 3],
      data: Uint8Array.from({ length: 4 * 64 * 64 * 3 }, (_pixel, i) => (i * 7) % 256),
    } as const;
    const feed = 'input' in options ? pixels : batch;
    const [half, exact] = [await float16.run(feed), await float32.run(feed)];
    expect(cosineOf(half.pooled, exact.pooled)).toBeGreaterThan(0.9999);
    expect(half.pooled.data).not.toEqual(exact.pooled.data);
  });

  it('lowers each stage of a pipeline', async () => {
    await using pipeline = await Pipeline.create(tinyResNet(), nodes, {
      devices: ['cpu:0', 'cpu:1'],
      precision,
    });
    await using float32 = await createFeatureExtractor(tinyResNet(), nodes);
    const [half, exact] = [await pipeline.run(batch), await float32.run(batch)];
    expect(half.pooled.data).not.toEqual(exact.pooled.data);
    expect(cosineOf(half.pooled, exact.pooled)).toBeGreaterThan(0.9999);
  });

  it('is refused by OpenVINO and for gradients', async () => {
    const refusal = { code: 'PRECISION_UNSUPPORTED', details: { precision } };
    await expect(
      createFeatureExtractor(tinyResNet(), nodes, { precision, engine: 'openvino' }),
    ).rejects.toMatchObject(refusal);
    await expect(createAttribution(tinyResNet(), { method: 'saliency', precision })).rejects.toMatchObject(
      refusal,
    );
  });

  it('is measured by embedFolder and compareModels', async () => {
    const { photos, out } = photosAndPlace('float16-');
    const transform = { resize: 64, crop: 64 };
    await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'f' }, { precision });
    const { manifest } = await embedFolder(extractor, photos, { out, transform, minCosine: 0.9999 });
    expect(manifest.run.precision).toBe('float16');
    const { images, cosine } = manifest.run.againstFloat32!;
    expect(images).toBe(16);
    expect(cosine['f']!.least).toBeGreaterThan(0.9999);
    expect(cosine['f']!.least).toBeLessThan(1);
    const exact = await openModel(tinyResNet());
    const { model } = await lowerPrecision(exact);
    const { outputs } = await compareModels(exact, model, photos, { returnNodes: ['avgpool'], transform });
    expect(outputs[0]!.cosine!.least).toBeGreaterThan(0.9999);
    expect(outputs[0]!.cosine!.least).toBeLessThan(1);
  });
});

describe('tapir extract --precision float16', () => {
  it('writes half the bytes, and says what stays in float32', async () => {
    const model = join(scratch, 'resnet.onnx');
    await (await openModel(tinyResNet())).save(model);
    const out = join(scratch, 'lowered.onnx');
    const flags = ['--return', 'fc=y', '-o', out, '--precision', 'float16'];
    const { stdout, code } = await runTapir(['extract', model, ...flags, '--verify']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/float16: .* → .*, \d+ of \d+ tensors, \d+ nodes, \d+ casts/);
    expect(stdout).toMatch(/float32: 1 GlobalAveragePool: it sums many terms/);
    expect(readFileSync(out).byteLength).toBeLessThan(0.6 * readFileSync(model).byteLength);
    const json = await runTapir(['extract', model, ...flags, '--overwrite', '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({ precision: { precision: 'float16', overflows: [] } });
  });
});
