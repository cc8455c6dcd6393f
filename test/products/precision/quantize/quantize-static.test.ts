/** Fixed scales from photos: what is chosen, that it is the same again, what other runtimes read, and what is refused. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  getGraphNodeNames,
  isTapirError,
  openModel,
  pruneModel,
  verifyModel,
  type Progress,
} from 'onnx-tapir';
import { quantizeModel, type QuantizeOptions, type StaticReport } from 'onnx-tapir/precision';
import { describe, expect, it, vi } from 'vitest';
import { addsInt8Exactly } from '../../../support/cpu.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec, type WeightSpec } from '../../../support/graphs.js';
import { hasOpenVino } from '../../../support/openvino.js';
import { runTapir } from '../../../support/run.js';
import { SMALL_SIZE, smallNet } from '../../../support/small-net.js';

const folder = mkdtempSync(join(scratchFolder(), 'static-'));
const file = join(folder, 'net.onnx');
writeFileSync(file, smallNet());
const photos = projectPath('examples/photos');
const transform = { resize: SMALL_SIZE, crop: SMALL_SIZE } as const;
// The bars of real networks are for more channels than four.
const options = { transform, minCosine: 0.9, minNeighbours: 0.5 } as const;

async function quantise(
  given: Partial<QuantizeOptions> = {},
  source: string | Uint8Array = file,
): Promise<{ bytes: Uint8Array; report: StaticReport }> {
  const { model, report } = await quantizeModel(source, photos, { ...options, ...given });
  const path = join(folder, 'out.onnx');
  await model.save(path, { overwrite: true });
  return { bytes: readFileSync(path), report: report as StaticReport };
}

/** The file with all defaults, made once. */
let made: ReturnType<typeof quantise> | undefined;
const whole = (): ReturnType<typeof quantise> => (made ??= quantise());

const refused = async (given: Promise<unknown>): Promise<{ code: string; message: string }> => {
  const error: unknown = await given.then(() => undefined).catch((thrown: unknown) => thrown);
  if (!isTapirError(error)) throw error;
  return error;
};

describe('quantizeModel with fixed scales', () => {
  it('writes a QDQ file of the same names, the same again, judged on other photos', async () => {
    const { bytes, report } = await whole();
    expect(report).toMatchObject({
      precision: 'int8',
      nodes: 3,
      kept: [],
      measured: [{ output: 'logits', samples: 12 }],
      calibration: { samples: 12, heldBack: 12, isCut: false },
    });
    expect(report.measured![0]!.least).toBeGreaterThan(0.9);
    expect(report.calibration.neighbours).toBeGreaterThan(0.5);
    expect(report.speeds.map(({ engine }) => engine)).toContain('onnxruntime');
    expect(Buffer.compare(bytes, (await quantise()).bytes)).toBe(0);
    const [before, after] = [await openModel(file), await openModel(bytes)];
    // The norm is folded into the convolution before it: one node, with the norm's name and value.
    const names = getGraphNodeNames(before).filter((name) => name !== 'conv1');
    expect(getGraphNodeNames(after)).toEqual(expect.arrayContaining(names));
    expect(await refused(pruneModel(bytes, ['conv1']))).toMatchObject({
      code: 'NAME_FOLDED',
      details: { request: 'conv1', instead: 'bn1' },
    });
    const operators = after.nodes.map(({ opType }) => opType);
    expect(operators.filter((operator) => operator === 'QuantizeLinear').length).toBeGreaterThanOrEqual(4);
    // A cut inside gives the layer's value, nearly.
    await using exact = await createFeatureExtractor(file, ['relu']);
    await using int8 = await createFeatureExtractor(bytes, ['relu']);
    const data = Float32Array.from({ length: 3 * SMALL_SIZE ** 2 }, (_, i) => Math.sin(i));
    const input = { dtype: 'float32', dims: [1, 3, SMALL_SIZE, SMALL_SIZE], data } as const;
    const [a, b] = await Promise.all(
      [exact, int8].map(async (one) => (await one.run(input))['relu']!.data as Float32Array),
    );
    const largest = Math.max(...a!);
    for (const [k, x] of a!.entries()) expect(Math.abs(x - b![k]!)).toBeLessThan(0.1 * largest);
  });

  it.runIf(hasOpenVino && addsInt8Exactly)('gives the same vectors in OpenVINO, within a step', async () => {
    const { bytes } = await whole();
    await using ort = await createFeatureExtractor(bytes, ['logits']);
    await using ov = await createFeatureExtractor(bytes, ['logits'], { engine: 'openvino' });
    const data = Float32Array.from({ length: 3 * SMALL_SIZE ** 2 }, (_, i) => Math.sin(3 * i));
    const input = { dtype: 'float32', dims: [1, 3, SMALL_SIZE, SMALL_SIZE], data } as const;
    const [a, b] = await Promise.all(
      [ort, ov].map(async (one) => (await one.run(input))['logits']!.data as Float32Array),
    );
    for (const [k, x] of a!.entries()) expect(Math.abs(x - b![k]!)).toBeLessThan(0.05);
  });

  it('takes pruned models with pixels in the graph, and keeps what is named', async () => {
    const pruned = await pruneModel(file, { avgpool: 'pooled' }, { input: 'image-uint8' });
    const { model, report } = await quantizeModel(pruned, photos, { ...options, keep: ['/conv1/Conv'] });
    expect(report.nodes).toBe(1);
    expect(report.kept).toEqual([{ node: '/conv1/Conv', operator: 'Conv', reason: 'you keep it (keep)' }]);
    const verified = await verifyModel(model);
    expect(verified.tolerance).toBe(0.5);
    expect(verified.maxRelative).toBeLessThan(0.5);
    expect(verified.isEqual).toBe(false);
  });

  it('refuses what it cannot judge, with the figures', async () => {
    expect(await refused(quantise({ minCosine: 1 }))).toMatchObject({
      code: 'PRECISION_TOO_LOW',
      message: expect.stringMatching(
        /4 of 4 parts in 8 bits: 0\.9\d+, \d+.* % of neighbours.*--engine openvino --precision bfloat16/,
      ),
    });
    const one = quantizeModel(file, [join(photos, 'sea/sea-0.jpg')], options);
    expect(await refused(one)).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('two or more'),
    });
    const { bytes } = await whole();
    expect(await refused(quantise({ activations: 'static' }, bytes))).toMatchObject({
      code: 'PRECISION_UNSUPPORTED',
      message: expect.stringContaining('8 bits already'),
    });
    expect(await refused(quantise({ keep: ['Conv', 'Gemm'] }))).toMatchObject({
      code: 'PRECISION_UNSUPPORTED',
    });
    expect(await refused(quantise({ keep: ['nothing'] }))).toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('says how far the search got if its time ends first', async () => {
    const { now } = Date;
    let passed = 0;
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + passed);
    const onProgress = ({ unit, done }: Progress): void => {
      if (unit === 'nodes' && done === 2) passed = 60_000;
    };
    const ended = await refused(quantise({ minCosine: 1, seconds: 60, onProgress })).finally(() =>
      clock.mockRestore(),
    );
    expect(ended.message).toMatch(
      /^the 60 seconds of the search ended before it: 3 of 4 parts had been tried\. .*4 of 4 parts in 8 bits: 0\.9\d+.*\. Give the search more time \(seconds, --set seconds=…\)$/,
    );
  });

  it('refuses pixels that are not finite, and keeps a layer in float32 whose weights are not', async () => {
    const tiny = { ...transform, std: [1e-42, 1, 1] as [number, number, number] };
    expect(await refused(quantise({ transform: tiny }))).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/finite values, got "NaN or infinity in input of sample 0"/),
    });
    const broken: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3, 16, 16] }],
      outputs: [{ name: 'y', dims: ['n', 2, 16, 16] }],
      nodes: [
        { op: 'Conv', name: 'a', inputs: ['x', 'w'], outputs: ['y'] },
        { op: 'Conv', name: 'b', inputs: ['y', 'v'], outputs: ['z'] },
        { op: 'Add', name: 'sum', inputs: ['y', 'z'], outputs: ['unused'] },
      ],
      initializers: {
        w: { dims: [2, 3, 1, 1], values: [1, -1, 0.5, 0.3, 0.2, -0.7] },
        v: { dims: [2, 2, 1, 1], values: [1, Number.NaN, 3, 4] },
      },
    };
    const { report } = await quantise({}, modelBytes(broken));
    expect(report.kept).toEqual([
      { node: 'b', operator: 'Conv', reason: 'its weights have values that are not finite' },
    ]);
  });

  it('is what auto takes where convolutions are most of the work, however many products follow them', async () => {
    const heads = [0, 1, 2, 3].map((i) => `head${i}`);
    const weights = (dims: readonly number[]): WeightSpec => ({
      dims,
      values: Array.from({ length: dims.reduce((a, b) => a * b) }, (_, i) => Math.sin(i * 7 + dims.length)),
    });
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3, SMALL_SIZE, SMALL_SIZE] }],
      outputs: heads.map((name) => ({ name, dims: ['n', 4] })),
      nodes: [
        {
          op: 'Conv',
          name: 'conv',
          inputs: ['x', 'w'],
          outputs: ['c'],
          ints: { kernel_shape: [3, 3], pads: [1, 1, 1, 1] },
        },
        { op: 'Relu', inputs: ['c'], outputs: ['r'] },
        { op: 'GlobalAveragePool', inputs: ['r'], outputs: ['p'] },
        { op: 'Flatten', inputs: ['p'], outputs: ['f'] },
        ...heads.map((name) => ({ op: 'Gemm', name, inputs: ['f', `w.${name}`], outputs: [name] })),
      ],
      initializers: {
        w: weights([8, 3, 3, 3]),
        ...Object.fromEntries(heads.map((name) => [`w.${name}`, weights([8, 4])])),
      },
    };
    const { report } = await quantise({ minCosine: 0.5, minNeighbours: 0 }, modelBytes(spec));
    expect(report).toMatchObject({ calibration: { samples: 12 } });
  });

  it('takes copies of one photo, and leaves a layer in float32 whose activations are not finite', async () => {
    const same = Array.from({ length: 14 }, () => join(photos, 'sea/sea-0.jpg'));
    // One gives the ranges, and the other judges.
    const { report: ofTwo } = await quantizeModel(file, same.slice(12), options);
    expect((ofTwo as StaticReport).calibration).toMatchObject({ samples: 1, heldBack: 1 });
    const { report } = await quantizeModel(file, same, options);
    expect((report as StaticReport).calibration.neighbours).toBe(1);
    const broken: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3, 16, 16] }],
      outputs: [{ name: 'y', dims: ['n', 2, 16, 16] }],
      nodes: [
        { op: 'Conv', name: 'a', inputs: ['x', 'w'], outputs: ['h'] },
        { op: 'Log', inputs: ['h'], outputs: ['l'] },
        { op: 'Conv', name: 'b', inputs: ['l', 'v'], outputs: ['i'] },
        { op: 'IsNaN', inputs: ['i'], outputs: ['isNan'] },
        { op: 'Where', inputs: ['isNan', 'h', 'h'], outputs: ['y'] },
      ],
      initializers: {
        w: { dims: [2, 3, 1, 1], values: [1, -1, 0.5, 0.3, 0.2, -0.7] },
        v: { dims: [2, 2, 1, 1], values: [1, 2, 3, 4] },
      },
    };
    const { report: kept } = await quantise({}, modelBytes(broken));
    expect(kept.kept).toEqual([
      { node: 'b', operator: 'Conv', reason: 'its activations are not finite on a photo' },
    ]);
  });
});

describe('tapir quantize', () => {
  it('says what it does where there is no terminal, unless the report is JSON', async () => {
    const flags = [
      '--min-cosine',
      '1',
      '-o',
      join(folder, 'none.onnx'),
      '--transform',
      JSON.stringify(transform),
    ];
    const ended = await runTapir(['quantize', file, photos, ...flags]);
    expect(ended.stderr).toMatch(
      /^reading photos\nmeasuring ranges\n(?:.+\n)?judging 8 bits in every layer\ntrying each layer in 8 bits\nchoosing layers\n.*PRECISION_TOO_LOW/,
    );
    expect(ended).toMatchObject({ code: 5, stdout: '' });
    const json = await runTapir(['quantize', file, photos, ...flags, '--json']);
    expect(json.stderr).toMatch(/^[^\n]*PRECISION_TOO_LOW/);
  });

  it.runIf(addsInt8Exactly)('writes the file, and says what it costs and gains', async () => {
    const out = join(folder, 'cli.onnx');
    writeFileSync(join(folder, 'transform.json'), JSON.stringify(transform));
    const flags = ['--min-cosine', '0.9', '--set', 'minNeighbours=0.5', '-o', out];
    const ended = await runTapir(['quantize', file, photos, ...flags]);
    expect(ended.stderr).not.toMatch(/Error/);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toMatch(
      /^int8: .*, 3 nodes\n {2}cosine to float32 of "logits" on 12 photos: least 0\.9\d+/,
    );
    expect(ended.stdout).toMatch(
      /ranges from 12 photos \(.+\), judged on 12 others; \d+\.\d % of the ten nearest/,
    );
    expect(ended.stdout).toMatch(/\n {2}onnxruntime +int8 and float32 +\d/);
    expect(Buffer.compare(readFileSync(out), (await whole()).bytes)).toBe(0);
    const again = await runTapir([
      'quantize',
      file,
      photos,
      ...flags,
      '--overwrite',
      '--json',
      '--return',
      'avgpool',
    ]);
    expect(JSON.parse(again.stdout)).toMatchObject({ file: out, nodes: 2, calibration: { heldBack: 12 } });
  });
});
