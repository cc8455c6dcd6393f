/** Extractors of models that are lowered to float16. */
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import {
  createFeatureExtractor,
  embedFolder,
  openModel,
  pruneModel,
  type FeatureExtractorOptions,
  type Manifest,
  type PrunedModel,
} from 'onnx-tapir';
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
const batch = {
  dtype: 'float32',
  dims: [4, 3, 64, 64],
  data: Float32Array.from({ length: 4 * 3 * 64 * 64 }, (_, i) => Math.sin(i * 0.37) * 2),
} as const;

type Option = 'input' | 'devices' | 'cache' | 'cacheFolder' | 'isolation';

/** A pruned model in float16. */
async function lower(returnNodes: Record<string, string>, options = {}): Promise<PrunedModel> {
  return (await lowerPrecision(await pruneModel(tinyResNet(), returnNodes, options))).model;
}

describe('a model in float16', () => {
  it('computes in it, and gives float32', async () => {
    await using float32 = await createFeatureExtractor(tinyResNet(), nodes);
    await using float16 = await createFeatureExtractor(await lower(nodes));
    const [exact, half] = [await float32.run(batch), await float16.run(batch)];
    expect(float16.precision).toBe('float16');
    for (const key of ['map', 'pooled'] as const) {
      expect(half[key]!.dtype).toBe('float32');
      expect(half[key]!.data).not.toEqual(exact[key].data);
      expect(cosineOf(half[key]!, exact[key])).toBeGreaterThan(0.9999);
    }
    await using same = await createFeatureExtractor(float16);
    expect(same.precision).toBe('float16');
    expect((await same.run(batch))['map']!.data).toEqual(half['map']!.data);
  });

  it('runs as it is, and is not cut again', async () => {
    const model = await lower(nodes);
    await using extractor = await createFeatureExtractor(model);
    expect(extractor.model).toBe(model);
    for (const source of [model, extractor])
      await expect(createFeatureExtractor(source, ['layer1'])).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringContaining('prune for these names first, then lower'),
        details: { option: 'returnNodes' },
      });
  });

  it.each(['float16', 'int8'] as const)('is no option: %s', async (precision) => {
    const options = { precision, devices: ['cpu:0', 'cpu:1'] } as object;
    const refusal = { code: 'PRECISION_UNSUPPORTED', details: { precision } };
    const calls = [
      createFeatureExtractor(tinyResNet(), nodes, options),
      Pipeline.create(tinyResNet(), nodes, options as { devices: ['cpu', 'cpu'] }),
      createAttribution(tinyResNet(), { method: 'saliency', ...options }),
    ];
    for (const call of calls) {
      await expect(call).rejects.toMatchObject(refusal);
      await expect(call).rejects.toThrow(/lowerPrecision of "onnx-tapir\/precision"/);
    }
  });

  it.each([
    ['DataParallel', { devices: ['cpu:0', 'cpu:1'], cache: 'always', cacheFolder: join(scratch, 'cache') }],
    ['an image input', { input: 'image-uint8' }],
    ['a process', { isolation: 'process' }],
  ] as const)('works with %s', async (_, options) => {
    const { input, ...place } = { input: 'tensor', ...options } as Pick<FeatureExtractorOptions, Option>;
    await using float16 = await createFeatureExtractor(await lower(nodes, { input }), undefined, place);
    await using float32 = await createFeatureExtractor(tinyResNet(), nodes, options as object);
    const pixels = {
      dtype: 'uint8',
      dims: [4, 64, 64, 3],
      data: Uint8Array.from({ length: 4 * 64 * 64 * 3 }, (_pixel, i) => (i * 7) % 256),
    } as const;
    const feed = 'input' in options ? pixels : batch;
    const [half, exact] = [await float16.run(feed), await float32.run(feed)];
    expect(cosineOf(half['pooled']!, exact.pooled)).toBeGreaterThan(0.9999);
    expect(half['pooled']!.data).not.toEqual(exact.pooled.data);
  });

  it('is split into the stages of a pipeline', async () => {
    const model = await lower(nodes);
    await using pipeline = await Pipeline.create(model, undefined, { devices: ['cpu:0', 'cpu:1'] });
    await using whole = await createFeatureExtractor(model);
    await using float32 = await createFeatureExtractor(tinyResNet(), nodes);
    const [half, same, exact] = [await pipeline.run(batch), await whole.run(batch), await float32.run(batch)];
    expect(pipeline.precision).toBe('float16');
    expect(half['pooled']!.data).not.toEqual(exact.pooled.data);
    expect(cosineOf(half['pooled']!, same['pooled']!)).toBeGreaterThan(0.999999);
    expect(cosineOf(half['pooled']!, exact.pooled)).toBeGreaterThan(0.9999);
  });

  it('is refused by OpenVINO', async () => {
    await expect(
      createFeatureExtractor(await lower(nodes), undefined, { engine: 'openvino' }),
    ).rejects.toMatchObject({ code: 'PRECISION_UNSUPPORTED', details: { precision: 'float16' } });
  });

  it('is measured by embedFolder and compareModels', async () => {
    const { photos, out } = photosAndPlace('float16-');
    const transform = { resize: 64, crop: 64 };
    await using extractor = await createFeatureExtractor(await lower({ avgpool: 'f' }));
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

describe('tapir embed --precision float16', () => {
  it.each([[[]], [['--set', 'pipeline=true', '--devices', 'cpu:0,cpu:1']]])(
    'lowers the model first, with %j',
    async (place) => {
      const { photos, out } = photosAndPlace('float16-');
      const model = join(scratch, 'embedded.onnx');
      await (await openModel(tinyResNet())).save(model, { overwrite: true });
      const flags = ['--model', model, '--return', 'avgpool=f', '--out', out, '--precision', 'float16'];
      const transform = ['--transform', JSON.stringify({ resize: 64, crop: 64 })];
      const { stderr, code } = await runTapir(['embed', photos, ...flags, ...transform, ...place]);
      expect({ code, stderr }).toMatchObject({ code: 1 });
      const { run } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Manifest;
      const { least } = run!.againstFloat32!.cosine['f']!;
      expect(run).toMatchObject({ precision: 'float16', againstFloat32: { images: 16 } });
      expect(least).toBeGreaterThan(0.9999);
      expect(least).toBeLessThan(1);
    },
  );
});
