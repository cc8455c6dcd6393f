/** Files that take photos, in all that feeds models: decoded photos go in, and the vectors are those of the model that tapir feeds itself. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedImages, openModel, pruneModel, verifyModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes } from '../../support/graphs.js';
import { projectPath } from '../../support/fixtures.js';
import { hasOpenVino } from '../../support/openvino.js';

const PHOTOS = projectPath('examples/photos');
const photos = readdirSync(PHOTOS, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.jpg'))
  .toSorted()
  .slice(0, 4)
  .map((path) => join(PHOTOS, path));

/** The mean of each channel. */
const model = (opset = 17, dims: readonly (number | string)[] = ['batch', 3, 32, 32]): Uint8Array =>
  modelBytes(
    {
      inputs: [{ name: 'x', dims }],
      outputs: [{ name: 'y', dims: ['batch', 3, 1, 1] }],
      nodes: [{ op: 'GlobalAveragePool', inputs: ['x'], outputs: ['y'] }],
    },
    { opset },
  );
/** The pixels themselves. */
const pixelsModel = (): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'x', dims: ['batch', 3, 32, 32] }],
    outputs: [{ name: 'y', dims: ['batch', 3, 32, 32] }],
    nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
  });
const transform = { resize: 36, crop: 32, interpolation: 'bicubic' } as const;
const NODES = { 'tensor:y': 'v' } as const;

async function vectors(source: Uint8Array, options: object = {}): Promise<Float32Array[]> {
  await using extractor = await createFeatureExtractor(source, undefined, options);
  return await extractor.embed(photos);
}

describe('a file that takes photos', () => {
  it.each(['photo', 'photo-batch'] as const)(
    '%s: embed gives the vectors of the fast path',
    async (input) => {
      const wanted = await vectors(model(), { transform });
      const pruned = await pruneModel(model(), NODES, { input, transform });
      expect(pruned.plan.added.inputs).toEqual(['photo']);
      expect(pruned.plan.added.nodes.length).toBeGreaterThan(100);
      expect(await vectors(await pruned.bytes())).toEqual(wanted);
      expect(await verifyModel(pruned)).toMatchObject({ isEqual: true });
    },
  );

  it('an extractor that takes photos runs decoded ones, and on several devices each whole', async () => {
    const devices = ['cpu:0', 'cpu:1'] as const;
    await using extractor = await createFeatureExtractor(model(), NODES, {
      input: 'photo',
      transform,
      devices,
    });
    const data = Uint8Array.from({ length: 40 * 50 * 3 }, (_, at) => at * 7);
    const photo = { dtype: 'uint8', dims: [40, 50, 3], data } as const;
    const { v } = await extractor.run({ photo });
    expect(v.dims).toEqual([1, 3, 1, 1]);
    const wanted = await vectors(model(), { transform });
    expect(await extractor.embed(photos)).toEqual(wanted);
    const rows = [];
    for await (const { features } of embedImages(extractor, photos)) rows.push(features?.v.data);
    expect(rows).toEqual(wanted);
  });

  it('both kinds run one photo and several, on one device and on two', async () => {
    const data = Uint8Array.from({ length: 3 * 40 * 50 * 3 }, (_, at) => (at * at) >> 3);
    const photos = { dtype: 'uint8', dims: [3, 40, 50, 3], data } as const;
    const single = (row: number) => ({
      dtype: 'uint8' as const,
      dims: [40, 50, 3],
      data: data.slice(row * 6000, (row + 1) * 6000),
    });
    const rows: number[][] = [];
    for (const input of ['photo', 'photo-batch'] as const)
      for (const devices of [undefined, ['cpu:0', 'cpu:1'] as const]) {
        const options = { input, transform, ...(devices && { devices }) };
        await using extractor = await createFeatureExtractor(model(), NODES, options);
        const { v } = await extractor.run({ photo: photos });
        expect(v.dims).toEqual([3, 3, 1, 1]);
        rows.push([...v.data]);
        for (const row of [0, 1, 2]) {
          const { v: one } = await extractor.run(single(row));
          expect(one.dims).toEqual([1, 3, 1, 1]);
          expect([...one.data]).toEqual(Array.from(v.data).slice(3 * row, 3 * row + 3));
        }
        const { v: first } = await extractor.run({ photo: { ...single(0), dims: [1, 40, 50, 3] } });
        expect([...first.data]).toEqual(Array.from(v.data).slice(0, 3));
        for (const dims of [
          [3, 40, 50],
          [1, 1, 40, 50, 3],
        ])
          await expect(
            extractor.run({
              photo: {
                dtype: 'uint8',
                dims,
                data: data.slice(
                  0,
                  dims.reduce((a, b) => a * b),
                ),
              },
            }),
          ).rejects.toMatchObject({ code: 'INPUT_MISMATCH' });
      }
    expect(new Set(rows.map(String)).size).toBe(1);
  });

  it.runIf(hasOpenVino)('OpenVINO has the bits of a bilinear and a bicubic resize', async () => {
    const data = Uint8Array.from({ length: 331 * 250 * 3 }, (_, at) => (at * at) >> 3);
    for (const interpolation of ['bilinear', 'bicubic'] as const) {
      const own = { resize: 36, crop: 32, interpolation };
      const wanted = [];
      for (const engine of ['onnxruntime', 'openvino'] as const) {
        const options = { input: 'photo', transform: own, engine } as const;
        await using extractor = await createFeatureExtractor(pixelsModel(), { 'tensor:y': 'v' }, options);
        const { v } = await extractor.run({ photo: { dtype: 'uint8', dims: [331, 250, 3], data } });
        wanted.push([...v.data]);
      }
      expect(wanted[1]).toEqual(wanted[0]);
    }
  });

  it('has its own transform', async () => {
    const bytes = await (await pruneModel(model(), NODES, { input: 'photo', transform })).bytes();
    await using extractor = await createFeatureExtractor(bytes, undefined, { transform: 'Squash224' });
    await expect(embedImages(extractor, photos, { transform: 'Squash224' }).next()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'transform' },
    });
  });
});

describe('what is refused', () => {
  it.each([
    ['an operator set below 13', model(12), 'photo'],
    ['a fixed batch', model(17, [4, 3, 32, 32]), 'photo'],
  ] as const)('%s', async (_, bytes, input) => {
    await expect(pruneModel(bytes, NODES, { input, transform })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
    });
  });

  it('a transform that does not fit the model', async () => {
    const other = pruneModel(await openModel(model()), NODES, { input: 'photo', transform: 'ImageNet1K_V1' });
    await expect(other).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
