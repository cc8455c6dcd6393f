/** The engine OpenVINO, through the public interface, with its real libraries. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  isTapirError,
  openModel,
  type DataParallel,
  type FeatureExtractorOptions,
  type FeatureInfo,
  type Tensor,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { describeCompiled } from '../../../../src/run/model/lanes/describe-compiled.js';
import { describeInMemory } from '../../../../src/run/model/lanes/weights-in-file.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import { prunedInternals } from '../../../../src/run/model/prune/pruned-model.js';
import { openSession } from '../../../../src/run/runtime/engines/openvino.js';
import { readLaneOptions } from '../../../../src/run/runtime/lanes/lane-options.js';
import { readSessionOptions } from '../../../../src/run/runtime/lanes/session-options.js';
import { operatorsIn } from '../../../../src/run/runtime/engines/openvino-failure.js';
import { buildResNet } from '../../../../models/resnet.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';
import { hasBfloat16, hasOpenVino } from '../../../support/openvino.js';
import { rounds } from '../../../support/rounds.js';
import { runScript } from '../../../support/run.js';

const scratch = scratchFolder();
const OPENVINO = { engine: 'openvino' } as const;

const pixels = (rows: number, size: number): { dtype: string; dims: number[]; data: Float32Array } => {
  const dims = [rows, 3, size, size];
  const length = dims.reduce((a, b) => a * b);
  return { dtype: 'float32', dims, data: Float32Array.from({ length }, (_, i) => Math.sin(i * 0.01)) };
};

/** The largest difference, as a share of the largest value. */
function distance(a: Tensor, b: Tensor): number {
  expect(a.dims).toEqual(b.dims);
  const [left, right] = [a.data as Float32Array, b.data as Float32Array];
  let difference = 0;
  let range = 0;
  left.forEach((value, i) => {
    difference = Math.max(difference, Math.abs(value - right[i]!));
    range = Math.max(range, Math.abs(value));
  });
  return difference / range;
}

const cosine = (a: Tensor, b: Tensor): number => {
  const dot = (x: Float32Array, y: Float32Array): number =>
    x.reduce((sum, value, i) => sum + value * y[i]!, 0);
  const [x, y] = [a.data as Float32Array, b.data as Float32Array];
  return dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y));
};

/** A model of 8 MiB and more, as a file. */
function largeModel(): string {
  const path = join(scratch, 'large.onnx');
  if (!existsSync(path))
    writeFileSync(path, buildResNet(0, { blocks: [2, 2, 2, 2], width: 64, size: 64, classes: 10 }).bytes);
  return path;
}

describe.skipIf(!hasOpenVino)('engine openvino', () => {
  it('gives the features of onnxruntime, for any batch', async () => {
    const nodes = { layer1: 'map', avgpool: 'vector' } as const;
    await using theirs = await createFeatureExtractor(tinyResNet(), nodes);
    await using ours = await createFeatureExtractor(tinyResNet(), nodes, OPENVINO);
    expect(ours).toMatchObject({ engine: 'openvino', precision: 'float32' });
    expect(ours.runtime).toMatch(/^20\d\d\./);
    // OpenVINO keeps no names of open axes.
    const named = ({ dims, ...rest }: FeatureInfo) => ({
      ...rest,
      dims: dims?.map((size) => size ?? 'batch'),
    });
    expect(ours.outputs.map(named)).toEqual(theirs.outputs);
    for (const rows of [1, 3, 8, 2]) {
      const batch = pixels(rows, 64);
      const [a, b] = [await theirs.run(batch), await ours.run(batch)];
      expect(distance(a.map, b.map)).toBeLessThan(1e-4);
      expect(distance(a.vector, b.vector)).toBeLessThan(1e-4);
    }
  });

  it('leaves the caller its buffers, and gives outputs that later runs do not change', async () => {
    await using extractor = await createFeatureExtractor(tinyResNet(), ['avgpool'], OPENVINO);
    const batch = pixels(2, 64);
    const before = batch.data.slice();
    const first = await extractor.run(batch);
    const kept = first.avgpool.data.slice();
    await extractor.run({ ...batch, data: batch.data.map((value) => -value) });
    expect(batch.data).toEqual(before);
    expect(first.avgpool.data).toEqual(kept);
  });

  it('runs several streams of one compiled model at once, each result in its place', async () => {
    const options = {
      ...OPENVINO,
      devices: ['cpu:0'],
      parallel: { split: 'dynamic', microBatch: 1, sessionsPerDevice: 3 },
    } as const;
    await using one = await createFeatureExtractor(tinyResNet(), ['avgpool'], OPENVINO);
    await using several: DataParallel<'avgpool'> = await createFeatureExtractor(
      tinyResNet(),
      ['avgpool'],
      options,
    );
    const batch = pixels(16, 64);
    const [a, b] = [await one.run(batch), await several.run(batch)];
    expect(distance(a.avgpool, b.avgpool)).toBeLessThan(1e-5);
    const parts = await Promise.all([1, 2, 3, 4, 5].map((rows) => several.run(pixels(rows, 64))));
    expect(parts.map(({ avgpool }) => avgpool.dims[0])).toEqual([1, 2, 3, 4, 5]);
  });

  it.each(['thread', 'process'] as const)('splits a batch over lanes, each a %s', async (isolation) => {
    await using one = await createFeatureExtractor(tinyResNet(), ['avgpool'], OPENVINO);
    await using two = await createFeatureExtractor(tinyResNet(), ['avgpool'], {
      ...OPENVINO,
      devices: ['cpu:0', 'cpu:1'],
      isolation,
    });
    const batch = pixels(7, 64);
    const [a, b] = [await one.run(batch), await two.run(batch)];
    expect(distance(a.avgpool, b.avgpool)).toBeLessThan(1e-5);
  });

  it('ends a run when the signal fires, and is free at once', async () => {
    const model = buildResNet(0, { blocks: [2, 2, 2, 2], width: 64, size: 224, classes: 10 }).bytes;
    await using extractor = await createFeatureExtractor(model, ['avgpool'], {
      ...OPENVINO,
      devices: ['cpu:0'],
    });
    const control = new AbortController();
    // Numbers of 64 photos are made once.
    const batch = { ...pixels(1, 224), dims: [64, 3, 224, 224], data: new Float32Array(64 * 3 * 224 * 224) };
    const running = extractor.run(batch, { signal: control.signal });
    const waiting = extractor.run(batch, { signal: control.signal });
    setTimeout(() => control.abort(new Error('enough')), 100);
    await expect(running).rejects.toThrow('enough');
    await expect(waiting).rejects.toThrow('enough');
    await extractor.run(pixels(1, 224));
    // Without cancelling, the two large runs would count as done before this one.
    expect(extractor.replicas).toMatchObject([{ runs: 1, failures: 0 }]);
  });

  it.runIf(hasBfloat16)('computes in bfloat16 when asked, and only then', async () => {
    const open = (precision: 'float32' | 'bfloat16') =>
      createFeatureExtractor(tinyResNet(), ['avgpool'], { ...OPENVINO, precision });
    await using exact = await open('float32');
    await using half = await open('bfloat16');
    const batch = pixels(4, 64);
    const [a, b] = [await exact.run(batch), await half.run(batch)];
    expect(b.avgpool.dtype).toBe('float32');
    expect(distance(a.avgpool, b.avgpool)).toBeGreaterThan(1e-4);
    expect(cosine(a.avgpool, b.avgpool)).toBeGreaterThan(0.998);
  });

  it('takes and gives the element types of JavaScript arrays, and empty tensors', async () => {
    const types = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, bool: 9, float16: 10, float64: 11 };
    const value = (name: string) =>
      Object.entries(types).map(([type, elemType]) => ({
        name: `${name}_${type}`,
        dims: ['n', 2],
        elemType,
      }));
    const spec: GraphSpec = {
      inputs: value('x'),
      outputs: value('y'),
      nodes: Object.keys(types).map((type) => ({
        op: 'Identity',
        inputs: [`x_${type}`],
        outputs: [`y_${type}`],
      })),
    };
    await using extractor = await createFeatureExtractor(
      modelBytes(spec),
      Object.keys(types).map((type) => `y_${type}`),
      { ...OPENVINO, outputDtype: 'keep' },
    );
    const data = {
      float32: Float32Array.of(1.5, -2),
      uint8: Uint8Array.of(1, 255),
      int8: Int8Array.of(-1, 127),
      int32: Int32Array.of(-1, 2 ** 31 - 1),
      int64: BigInt64Array.of(-1n, 2n ** 30n),
      bool: Uint8Array.of(0, 1),
      float16: Uint16Array.of(0x3c00, 0xc000),
      float64: Float64Array.of(1.5, -2),
    };
    const fed = Object.entries(data).map(([dtype, each]) => [
      `x_${dtype}`,
      { dtype, dims: [1, 2], data: each },
    ]);
    const outputs: Record<string, Tensor> = await extractor.run(Object.fromEntries(fed) as never);
    for (const [dtype, each] of Object.entries(data))
      expect(outputs[`y_${dtype}`]).toEqual({ dtype, dims: [1, 2], data: each });
    const large = {
      ...Object.fromEntries(fed),
      x_int64: { dtype: 'int64', dims: [1, 2], data: BigInt64Array.of(0n, 2n ** 40n) },
    };
    await expect(extractor.run(large as never)).rejects.toMatchObject({
      code: 'RUN_FAILED',
      message: expect.stringContaining('in 32 bits'),
    });
    const none = Object.entries(data).map(([dtype, each]) => [
      `x_${dtype}`,
      { dtype, dims: [0, 2], data: each.slice(0, 0) },
    ]);
    const empty: Record<string, Tensor> = await extractor.run(Object.fromEntries(none) as never);
    expect(empty['y_float32']).toEqual({ dtype: 'float32', dims: [0, 2], data: new Float32Array(0) });
  });

  it('names the operators that it lacks, and the way out', async () => {
    const nodes = [
      { op: 'Abs', inputs: ['x'], outputs: ['a'] },
      { op: 'NoSuchOperator', inputs: ['a'], outputs: ['y'], domain: 'com.example' },
    ];
    const model = modelBytes({ inputs: ['x'], outputs: ['y'], nodes });
    const failure = await createFeatureExtractor(model, ['y'], OPENVINO).catch((error: unknown) => error);
    expect(isTapirError(failure, 'ENGINE_UNSUPPORTED') && failure.details).toMatchObject({
      engine: 'openvino',
      operators: ['com.example.NoSuchOperator'],
    });
    expect((failure as Error).message).toContain('engine "onnxruntime"');
    // What is pruned away does not matter.
    await using extractor = await createFeatureExtractor(model, ['a'], OPENVINO);
    const { a } = await extractor.run({ dtype: 'float32', dims: [2], data: Float32Array.of(-1, 2) });
    expect([...a.data]).toEqual([1, 2]);
  });

  it('says what is wrong with a feed in the words of a run', async () => {
    const nodes = [{ op: 'Add', inputs: ['a', 'b'], outputs: ['y'] }];
    await using extractor = await createFeatureExtractor(
      modelBytes({ inputs: ['a', 'b'], outputs: ['y'], nodes }),
      ['y'],
      OPENVINO,
    );
    const vector = (length: number) => ({ dtype: 'float32', dims: [length], data: new Float32Array(length) });
    await expect(extractor.run({ a: vector(2), b: vector(3) })).rejects.toMatchObject({ code: 'RUN_FAILED' });
    const { y } = await extractor.run({ a: vector(2), b: vector(2) });
    expect(y.dims).toEqual([2]);
  });

  it('reads weights in other files', async () => {
    const folder = join(scratch, 'external');
    mkdirSync(folder);
    const source = await openModel(tinyResNet());
    expect(source.inputs).toHaveLength(1);
    const values = Float32Array.from({ length: 4096 }, (_, i) => i);
    writeFileSync(join(folder, 'w.bin'), values);
    const nodes = [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }];
    const external = { location: 'w.bin', offset: '0', length: '16384' };
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 4096] }],
      outputs: ['y'],
      nodes,
      initializers: { w: { dims: [4096], external } },
    });
    writeFileSync(join(folder, 'model.onnx'), model);
    await using extractor = await createFeatureExtractor(join(folder, 'model.onnx'), ['y'], {
      ...OPENVINO,
      cacheFolder: join(scratch, 'cache-external'),
    });
    const { y } = await extractor.run({
      dtype: 'float32',
      dims: [1, 4096],
      data: new Float32Array(4096).fill(1),
    });
    expect(Array.from(y.data.slice(0, 3) as Float32Array)).toEqual([1, 2, 3]);
    // The temporary copy is gone, and nothing was written beside the model.
    expect(readdirSync(join(scratch, 'cache-external'))).toEqual([]);
    expect(readdirSync(folder).toSorted()).toEqual(['model.onnx', 'w.bin']);
  });

  it('copies weights out of the model’s file, and gives what the whole bytes give', async () => {
    const path = largeModel();
    const batch = pixels(2, 64);
    const run = async (model: string | Uint8Array): Promise<Tensor> => {
      await using extractor = await createFeatureExtractor(model, ['avgpool'], { ...OPENVINO, cache: 'off' });
      return (await extractor.run(batch))['avgpool']!;
    };
    expect(await run(path)).toEqual(await run(readFileSync(path)));
  });

  it.each([
    ['written to', (path: string) => writeFileSync(path, tinyResNet())],
    ['cut short', (path: string) => truncateSync(path, 100)],
    ['removed', (path: string) => rmSync(path)],
  ])('refuses weights of a file that is %s while the session opens', async (how, change) => {
    const path = join(scratch, `changed-${how.replace(' ', '-')}.onnx`);
    copyFileSync(largeModel(), path);
    const pruned = await pruneModel(path, ['avgpool']);
    const description = await describeInMemory(pruned.source, prunedInternals.of(pruned).rewrite);
    change(path);
    const device = { type: 'cpu', id: 0, threads: 1 } as const;
    const opening = openSession({ ...description, device, session: readSessionOptions({}) });
    await expect(opening).rejects.toMatchObject({ code: 'MODEL_CHANGED', details: { source: path } });
  });

  it.runIf(process.platform === 'linux')(
    'gets the whole bytes if it does not open with addresses',
    async () => {
      const pruned = await pruneModel(largeModel(), ['avgpool']);
      const lane = readLaneOptions({ ...OPENVINO, cache: 'off' });
      const device = { type: 'cpu', id: 0, threads: 1 } as const;
      const describeLane = describeCompiled(pruned, { session: readSessionOptions({}), lane })(device);
      expect(await describeLane()).toMatchObject({ isPrepared: true, weightsFile: { path: largeModel() } });
      const again = await describeLane(new Error('unknown location'));
      expect(again.weightsFile).toBeUndefined();
      expect(again.model.byteLength).toBe(pruned.plan.kept.bytes);
    },
  );

  it('keeps compiled models, opens them again, and survives a damaged one', async () => {
    const cacheFolder = join(scratch, 'cache');
    const options: Partial<FeatureExtractorOptions> = { ...OPENVINO, cacheFolder };
    const batch = pixels(2, 64);
    // A file would be known by its content while it is young, and by its times ten seconds later: by two keys.
    const model = readFileSync(largeModel());
    const run = async (): Promise<Tensor> => {
      await using extractor = await createFeatureExtractor(model, ['avgpool'], options);
      return (await extractor.run(batch)).avgpool;
    };
    const first = await run();
    const [entry] = readdirSync(cacheFolder);
    const blob = join(cacheFolder, entry!, 'weights.bin');
    const bytes = statSync(blob).size;
    expect(bytes).toBeGreaterThan(8 * 2 ** 20);
    expect(distance(first, await run())).toBe(0);
    expect(readdirSync(cacheFolder)).toEqual([entry]);
    writeFileSync(blob, Buffer.alloc(bytes, 7));
    expect(distance(first, await run())).toBe(0);
    // The damaged one was replaced.
    expect(readFileSync(blob).equals(Buffer.alloc(bytes, 7))).toBe(false);
  });

  it('keeps nothing with cache "off"', async () => {
    const cacheFolder = join(scratch, 'cache-off');
    await using extractor = await createFeatureExtractor(largeModel(), ['avgpool'], {
      ...OPENVINO,
      cacheFolder,
      cache: 'off',
    });
    await extractor.run(pixels(1, 64));
    expect(existsSync(cacheFolder)).toBe(false);
  });

  it('passes on to what is made of an extractor', async () => {
    await using first = await createFeatureExtractor(tinyResNet(), ['avgpool'], OPENVINO);
    await using second = await createFeatureExtractor(first, ['layer1']);
    expect(second.engine).toBe('openvino');
    await using third = await createFeatureExtractor(first, ['layer1'], { engine: 'onnxruntime' });
    expect(third.engine).toBe('onnxruntime');
  });

  it('opens and closes many times without keeping memory', async () => {
    const cycle = async (): Promise<void> => {
      await using extractor = await createFeatureExtractor(tinyResNet(), ['avgpool'], OPENVINO);
      await extractor.run(pixels(1, 64));
    };
    for (let i = 0; i < rounds(5, 10); i++) await cycle();
    const before = process.memoryUsage().rss;
    for (let i = 0; i < rounds(10, 30); i++) await cycle();
    expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(20);
  }, 600_000);

  it('is opened again after its process was killed', async () => {
    await using parallel = await createFeatureExtractor(tinyResNet(), ['avgpool'], {
      ...OPENVINO,
      devices: ['cpu:0'],
      isolation: 'process',
    });
    for (let i = 0; i < rounds(2, 5); i++) {
      process.kill(parallel.replicas[0]!.pids[0]!, 'SIGKILL');
      await parallel.run(pixels(1, 64)).catch(() => undefined);
      const { avgpool } = await parallel.run(pixels(1, 64));
      expect(avgpool.dims[0]).toBe(1);
    }
  });
});

describe('what OpenVINO lacks', () => {
  it.each([
    [
      'No conversion rule found for operations: com.microsoft.Gelu, NonZero2 To facilitate the',
      ['com.microsoft.Gelu', 'NonZero2'],
    ],
    ['-- No conversion rule found for operations: a.B -- Conversion is failed for: Scan-17', ['a.B', 'Scan']],
    ['sw node not found in graph cache', []],
  ])('is read from "%s"', (message, operators) => {
    expect(operatorsIn(message)).toEqual(operators);
  });
});

describe('options of engines', () => {
  it('refuses session options of onnxruntime', async () => {
    const opening = createFeatureExtractor(tinyResNet(), ['avgpool'], {
      ...OPENVINO,
      session: { enableMemPattern: false },
    });
    await expect(opening).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'session' } });
  });

  it('refuses a device that the engine does not run on', async () => {
    const opening = createFeatureExtractor(tinyResNet(), ['avgpool'], { ...OPENVINO, device: 'auto' });
    await expect(opening).rejects.toMatchObject({ code: 'ENGINE_UNSUPPORTED' });
  });

  it('refuses bfloat16 on onnxruntime', async () => {
    const opening = createFeatureExtractor(tinyResNet(), ['avgpool'], { precision: 'bfloat16' });
    await expect(opening).rejects.toMatchObject({ code: 'PRECISION_UNSUPPORTED' });
  });

  it('names the remedy if the libraries are missing', async () => {
    const ended = await runScript(
      `import { createFeatureExtractor } from 'onnx-tapir';
      process.env.OPENVINO_LIBS = ${JSON.stringify(scratch)};
      const opening = createFeatureExtractor(${JSON.stringify(largeModel())}, ['avgpool'], { engine: 'openvino' });
      await opening.catch(({ code, message }) => console.log(code, message));`,
    );
    expect(ended.stdout).toContain('DEPENDENCY_MISSING');
    expect(ended.stdout).toContain('tapir engines install openvino');
  });
});
