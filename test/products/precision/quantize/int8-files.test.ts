/** A file in 8 bits says so: extractors, datasets, the service, comparisons and the command; and nothing is quantised twice. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, isTapirError, pruneModel, type Manifest } from 'onnx-tapir';
import { compareModels, lowerPrecision, quantizeModel } from 'onnx-tapir/precision';
import { createService } from 'onnx-tapir/serve';
import { Pipeline } from 'onnx-tapir/stages';
import { beforeAll, describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { hasBfloat16 } from '../../../support/openvino.js';
import { runTapir } from '../../../support/run.js';
import { SMALL_SIZE, smallNet } from '../../../support/small-net.js';

const folder = mkdtempSync(join(scratchFolder(), 'int8-files-'));
const [exact, int8] = [join(folder, 'net.onnx'), join(folder, 'net.int8.onnx')];
const photos = projectPath('examples/photos');
const transform = { resize: SMALL_SIZE, crop: SMALL_SIZE } as const;
const bars = { transform, minCosine: 0.9, minNeighbours: 0.5 } as const;
const names = { avgpool: 'embedding' };

beforeAll(async () => {
  writeFileSync(exact, smallNet());
  await (await quantizeModel(exact, photos, bars)).model.save(int8);
  writeFileSync(`${int8}.transform.json`, JSON.stringify(transform));
});

const rowsOf = (out: string, { shards }: Manifest): Buffer[] =>
  shards.map(({ features }) => readFileSync(join(out, features['embedding']!)));

describe('a file in 8 bits', () => {
  it('is int8 for extractors, comparisons and the service', async () => {
    await using a = await createFeatureExtractor(exact, names);
    await using b = await createFeatureExtractor(int8, names);
    expect([a.precision, b.precision, b.floatPrecision]).toEqual(['float32', 'int8', 'float32']);
    const compared = await compareModels(a, b, photos, { transform });
    expect([compared.a.precision, compared.b.precision]).toEqual(['float32', 'int8']);
    await using service = createService(b, { transform, name: 'net' });
    const url = await service.listen({ port: 0 });
    expect(await (await fetch(url)).text()).toContain('(onnxruntime, int8)');
  });

  it('is float32 where the cut leaves 8 bits out', async () => {
    const part = {
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: [{ name: 'y', dims: ['n', 4] }],
      nodes: [
        { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'QuantizeLinear', inputs: ['a', 's'], outputs: ['q'] },
        { op: 'DequantizeLinear', inputs: ['q', 's'], outputs: ['d'] },
        { op: 'Relu', name: 'last', inputs: ['d'], outputs: ['y'] },
      ],
      initializers: { s: { dims: [], values: [0.1] } },
    };
    await using first = await createFeatureExtractor(modelBytes(part), ['first']);
    await using last = await createFeatureExtractor(modelBytes(part), ['last']);
    expect([first.precision, last.precision]).toEqual(['float32', 'int8']);
  });

  it('makes a dataset that states it; a stopped run goes on to the same bytes', async () => {
    await using extractor = await createFeatureExtractor(int8, names);
    const options = { transform, batch: 4, shardSize: 8 } as const;
    const [whole, stopped] = [join(folder, 'whole'), join(folder, 'stopped')];
    const { manifest } = await embedFolder(extractor, photos, { out: whole, ...options });
    expect(manifest.run).toMatchObject({ precision: 'int8', againstFloat32: null });
    const stop = new AbortController();
    const onProgress = ({ done }: { readonly done: number }): void => {
      if (done >= 16) stop.abort(new Error('stopped'));
    };
    const first = embedFolder(extractor, photos, {
      out: stopped,
      ...options,
      signal: stop.signal,
      onProgress,
    });
    await expect(first).rejects.toThrow('stopped');
    const { skipped, manifest: resumed } = await embedFolder(extractor, photos, { out: stopped, ...options });
    expect(skipped).toBeGreaterThan(0);
    expect(resumed.counts).toEqual(manifest.counts);
    expect(resumed.shards).toEqual(manifest.shards);
    expect(rowsOf(stopped, resumed)).toEqual(rowsOf(whole, manifest));
  });

  it('quantised in memory is another model than its float32 source, and than another choice', async () => {
    const pruned = await pruneModel(exact, names);
    const options = { out: join(folder, 'memory'), transform } as const;
    const embed = async (model: typeof pruned): Promise<unknown> => {
      await using extractor = await createFeatureExtractor(model);
      return (await embedFolder(extractor, photos, options)).manifest.run;
    };
    const { model } = await quantizeModel(pruned, photos, bars);
    expect(await embed(model)).toMatchObject({
      precision: 'int8',
      againstFloat32: { images: 24, cosine: { embedding: { least: expect.any(Number) } } },
    });
    const { model: other } = await quantizeModel(model, photos, { ...bars, keep: ['/conv1/Conv'] });
    for (const [one, expected] of [
      [pruned, ['precision', 'lowering']],
      [other, ['lowering']],
    ] as const) {
      const error: unknown = await embed(one).catch((thrown: unknown) => thrown);
      if (!isTapirError(error, 'DATASET_MISMATCH')) throw error;
      expect(error.details.differences.map(({ what }) => what)).toEqual(expected);
    }
    // Cutting it again would give the float32 model.
    await expect(createFeatureExtractor(model, ['relu'])).rejects.toThrow('in int8, which is cut already');
  });

  it('refuses values that are not finite, which fixed scales would make numbers of', async () => {
    const { model } = await quantizeModel(await pruneModel(exact, names), photos, bars);
    const [saved, made] = [createFeatureExtractor(int8, names), createFeatureExtractor(model)];
    const staged = Pipeline.create(int8, names, { devices: ['cpu:0', 'cpu:1'] });
    for (const extractor of [await saved, await made, await staged]) {
      const data = new Float32Array(2 * 3 * SMALL_SIZE ** 2).fill(0.5);
      const input = { dtype: 'float32', dims: [2, 3, SMALL_SIZE, SMALL_SIZE], data } as const;
      expect((await extractor.run(input))['embedding']!.data).not.toContain(NaN);
      for (const value of [NaN, -Infinity]) {
        data[7] = value;
        const error: unknown = await extractor.run(input).catch((thrown: unknown) => thrown);
        if (!isTapirError(error, 'INPUT_MISMATCH')) throw error;
        expect(error.message).toMatch(/"input" must be finite: .*, got NaN or infinity/);
      }
      await extractor.close();
    }
    // In float32 the row shows it, and the others stay right.
    await using plain = await createFeatureExtractor(exact, names);
    const data = new Float32Array(2 * 3 * SMALL_SIZE ** 2).fill(NaN, 0, 3 * SMALL_SIZE ** 2);
    const { embedding } = await plain.run({ dtype: 'float32', dims: [2, 3, SMALL_SIZE, SMALL_SIZE], data });
    expect([...(embedding!.data as Float32Array)].map(Number.isNaN)).toEqual(
      Array.from({ length: 8 }, (_, k) => k < 4),
    );
  });

  it('is not quantised again, whatever asks for int8', async () => {
    await expect(lowerPrecision(int8, { precision: 'int8' })).rejects.toThrow(
      'in 8 bits already; take the float32 model',
    );
    const out = join(folder, 'cli');
    const flags = ['--return', 'avgpool=embedding', '--precision', 'int8'];
    const ended = await runTapir(['embed', photos, '--model', int8, '--out', out, ...flags]);
    expect(ended.stderr).not.toMatch(/Error|assumed/);
    expect(ended.code).toBe(0);
    const manifest = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Manifest;
    expect(manifest.run).toMatchObject({ precision: 'int8', engine: 'onnxruntime' });
    await using extractor = await createFeatureExtractor(int8, names);
    const plain = join(folder, 'plain');
    const { manifest: same } = await embedFolder(extractor, photos, { out: plain, transform });
    expect(rowsOf(out, manifest)).toEqual(rowsOf(plain, same));
  });

  it.skipIf(!hasBfloat16)('keeps what computes the rest apart', async () => {
    const out = join(folder, 'mixed');
    const place = { engine: 'openvino', precision: 'bfloat16' } as const;
    await using mixed = await createFeatureExtractor(int8, names, place);
    expect([mixed.precision, mixed.floatPrecision]).toEqual(['int8', 'bfloat16']);
    const { manifest } = await embedFolder(mixed, photos, { out, transform });
    expect(manifest.run).toMatchObject({ precision: 'int8', floatPrecision: 'bfloat16' });
    expect(manifest.run.againstFloat32!.cosine['embedding']!.least).toBeGreaterThan(0.99);
    await using plain = await createFeatureExtractor(int8, names, { engine: 'openvino' });
    await expect(embedFolder(plain, photos, { out, transform })).rejects.toThrow('floatPrecision');
  });
});
