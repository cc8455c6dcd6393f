/** A network of each task in what the rest of the package does: trained, split, lowered, attributed and explored. */
import { join } from 'node:path';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  addPyramid,
  createAttribution,
  createFeatureExtractor,
  createModel,
  createTrainer,
  lowerPrecision,
  openModel,
  Pipeline,
  pruneModel,
  writeExplorer,
  type OnnxModel,
} from '../../support/tapir.js';
import { scratchFolder } from '../../support/fixtures.js';

const scratch = scratchFolder();
const LONG = { timeout: 600_000 };

interface Case {
  readonly task: string;
  readonly create: () => Promise<OnnxModel>;
  /** Of the input. */
  readonly dims: readonly number[];
  /** An output to train, and a layer to look at. */
  readonly output: string;
  readonly layer: string;
  readonly lr: number;
}

const CASES: readonly Case[] = [
  {
    task: 'segmentation',
    create: () => createModel('lraspp_mobilenet_v3_large', { seed: 0, numClasses: 5 }),
    dims: [2, 3, 64, 96],
    output: 'out',
    layer: 'backbone.16',
    lr: 1e-3,
  },
  {
    task: 'video',
    create: () => createModel('mc3_18', { seed: 0, numClasses: 5 }),
    dims: [2, 3, 4, 32, 32],
    output: 'output',
    layer: 'layer3',
    lr: 1e-3,
  },
  {
    task: 'detection',
    create: () => createModel('ssdlite320_mobilenet_v3_large', { seed: 0, numClasses: 5 }),
    dims: [2, 3, 96, 64],
    output: 'pool',
    layer: 'backbone.features.0',
    lr: 1e-3,
  },
  {
    task: 'pyramid',
    create: async () =>
      addPyramid(
        await createModel('mobilenet_v2', { seed: 0, numClasses: 5 }),
        { 'features.6': '0', 'features.13': '1', 'features.18': '2' },
        { outChannels: 16, extra: 'pool', seed: 0 },
      ),
    dims: [2, 3, 64, 96],
    output: '1',
    layer: 'features.18',
    lr: 1e-6,
  },
];

function inputOf(dims: readonly number[]) {
  const count = dims.reduce((product, size) => product * size, 1);
  const data = Float32Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898) * 2);
  return { dtype: 'float32', dims: [...dims], data } as const;
}

/** Without merged operators, whose arithmetic differs from that of their parts. */
const PLAIN = { session: { graphOptimizationLevel: 'disabled' } } as const;

describe.each(CASES)('a network of $task', ({ task, create, dims, output: named, layer, lr }) => {
  const input = inputOf(dims);
  const outputOf = ({ outputs }: OnnxModel): string =>
    outputs.some(({ name }) => name === named) ? named : outputs[0]!.name;

  let model: OnnxModel;
  beforeAll(async () => {
    model = await create();
  });

  it('learns in three steps', LONG, async () => {
    const output = outputOf(model);
    await using extractor = await createFeatureExtractor(model, { [output]: 'x' });
    const { x } = await extractor.run(input);
    const target = { dtype: 'float32', dims: x.dims, data: new Float32Array(x.data.length) } as const;
    const trainer = await createTrainer(model, {
      loss: 'mse',
      optimizer: { kind: 'sgd', lr },
      output,
      batchNorm: 'frozen',
    });
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) losses.push((await trainer.step({ input, target })).loss);
    await trainer.close();
    expect(losses.every((loss) => Number.isFinite(loss))).toBe(true);
    expect(losses[2]).toBeLessThan(losses[0]!);
  });

  it('gives the same bits in two stages', LONG, async () => {
    const names = model.outputs.map(({ name }) => name);
    await using whole = await createFeatureExtractor(model, names, PLAIN);
    const pipeline = await Pipeline.create(model, names, { ...PLAIN, devices: ['cpu:0', 'cpu:1'] });
    expect(pipeline.stages.map(({ macs }) => (macs ?? 0) > 0)).toEqual([true, true]);
    const [expected, found] = [await whole.run(input), await pipeline.run(input)];
    await pipeline.close();
    expect(Object.keys(found)).toEqual(names);
    for (const name of names) {
      expect(found[name]!.dims).toEqual(expected[name]!.dims);
      expect(Buffer.from(found[name]!.data.buffer)).toEqual(Buffer.from(expected[name]!.data.buffer));
    }
  });

  it('is near itself in float16', LONG, async () => {
    const output = outputOf(model);
    const { model: lowered, report } = await lowerPrecision(model);
    expect(report.bytesAfter / report.bytesBefore).toBeLessThan(0.52);
    await using whole = await createFeatureExtractor(model, { [output]: 'x' });
    await using half = await createFeatureExtractor(lowered, { [output]: 'x' });
    const [{ x: expected }, { x: found }] = [await whole.run(input), await half.run(input)];
    const range = Math.max(...expected.data) - Math.min(...expected.data);
    const largest = Math.max(...expected.data.map((value, i) => Math.abs(value - found.data[i]!)));
    expect(largest / range).toBeLessThan(0.02);
  });

  it('is attributed once its map is pooled, or refused by name', LONG, async () => {
    const output = outputOf(model);
    if (task === 'video') {
      await expect(createAttribution(model, { method: 'grad-cam', layer })).rejects.toThrow(
        'attribution needs an image [N, C, H, W]',
      );
      return;
    }
    const options = { method: 'grad-cam', layer } as const;
    if (model.outputs.find(({ name }) => name === output)!.dims!.length === 4)
      await expect(createAttribution(model, { ...options, output })).rejects.toMatchObject({
        code: 'OUTPUT_MISFIT',
        message: expect.stringContaining(`pruneModel(model, { "${output}": "scores" }, { pool: "avg" })`),
      });
    const pooled = await openModel(
      await (await pruneModel(model, { [output]: 'scores' }, { pool: 'avg' })).bytes(),
    );
    const cam = await createAttribution(pooled, options);
    const { map, heatmap } = await cam.run(input, { target: 1 });
    await cam.close();
    expect([heatmap.dims, map.dims[0]]).toEqual([[2, ...dims.slice(-2)], 2]);
    expect(map.data.every((value) => Number.isFinite(value))).toBe(true);
  });

  it('is explored', LONG, async () => {
    const file = join(scratch, `${task}.onnx`);
    await (
      await pruneModel(
        model,
        model.outputs.map(({ name }) => name),
      )
    ).save(file);
    const photo = join(scratch, 'photo.png');
    await sharp(Buffer.from(Uint8Array.from({ length: 48 * 48 * 3 }, (_, i) => (i * 37) & 255)), {
      raw: { width: 48, height: 48, channels: 3 },
    })
      .png()
      .toFile(photo);
    const out = join(scratch, `${task}.html`);
    const written = writeExplorer(file, {
      out,
      photos: [photo],
      returnNodes: [layer, outputOf(model)],
      transform: { resize: null, crop: 48 },
    });
    if (task === 'video') {
      await expect(written).rejects.toThrow('must be left out for this model');
      await expect(writeExplorer(file, { out })).resolves.toMatchObject({ path: out });
      return;
    }
    await expect(written).resolves.toMatchObject({ path: out });
  });
});
