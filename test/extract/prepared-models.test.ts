/** Models that are prepared once for several sessions: the same results, whatever becomes of the cache. */
import { cpSync, existsSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  DataParallel,
  type DType,
  type Extractor,
  type FeatureExtractorOptions,
  type Options,
  type Tensor,
  type TensorLike,
} from 'onnx-tapir';
import { afterEach, describe, expect, it } from 'vitest';
import { fixturePath, scratchFolder, tinyResNet } from '../support/fixtures.js';
import { modelBytes, readCorpus, type GraphSpec } from '../support/graphs.js';
import { readNpy } from '../support/npy.js';
import { damageGraph } from '../support/prepared.js';
import { runScript } from '../support/run.js';

const scratch = scratchFolder();
let caches = 0;
const newFolder = (): string => join(scratch, `cache-${caches++}`);
const entriesOf = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : []);

const warnings: Error[] = [];
const onWarning = (warning: Error): void => void warnings.push(warning);
process.on('warning', onWarning);
afterEach(() => void warnings.splice(0));

type Given = Options<FeatureExtractorOptions>;
type Source = string | Uint8Array;

/** Opens with and without preparation, runs both, and expects no difference at all. */
async function compare(
  model: Source,
  names: readonly string[],
  feeds: Record<string, TensorLike>,
  options: Given = {},
): Promise<Record<string, Tensor>> {
  const cacheFolder = newFolder();
  const outputDtype = options.outputDtype ?? 'keep';
  const open = (cache: 'always' | 'off'): Promise<Extractor> =>
    createFeatureExtractor(model, names, { ...options, outputDtype, cache, cacheFolder, devices: undefined });
  const [plain, prepared] = [await open('off'), await open('always')];
  try {
    expect(entriesOf(cacheFolder)).toHaveLength(1);
    expect(prepared.inputs).toEqual(plain.inputs);
    expect(prepared.outputs).toEqual(plain.outputs);
    expect(prepared.device).toBe(plain.device);
    const results = await prepared.run(feeds);
    expect(results).toEqual(await plain.run(feeds));
    return results;
  } finally {
    await plain.close();
    await prepared.close();
  }
}

const floats = (...dims: number[]): TensorLike => ({
  dtype: 'float32',
  dims,
  data: Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i * 0.7)),
});

const square = Array.from({ length: 1024 }, (_, i) => Math.cos(i * 1.3));
/** Matrices, which onnxruntime packs; a quantised product; int64 and bool outputs; an open first axis. */
const mixed: GraphSpec = {
  inputs: [{ name: 'x', dims: ['rows', 32] }],
  outputs: ['product', 'integer', 'best', 'sign'].map((name) => ({
    name,
    dims: name === 'best' ? ['rows', 1] : ['rows', 32],
    elemType: { product: 1, integer: 6, best: 7, sign: 9 }[name]!,
  })),
  initializers: { w: { dims: [32, 32], values: square }, v: { dims: [32, 32], values: square.toReversed() } },
  nodes: [
    { op: 'MatMul', inputs: ['x', 'w'], outputs: ['product'] },
    { op: 'DynamicQuantizeLinear', inputs: ['product'], outputs: ['pq', 'ps', 'pz'] },
    { op: 'DynamicQuantizeLinear', inputs: ['v'], outputs: ['vq', 'vs', 'vz'] },
    { op: 'MatMulInteger', inputs: ['pq', 'vq', 'pz', 'vz'], outputs: ['integer'] },
    { op: 'ArgMax', inputs: ['product'], outputs: ['best'], ints: { axis: 1 } },
    { op: 'Greater', inputs: ['product', 'zero'], outputs: ['sign'] },
    { op: 'Sub', inputs: ['w', 'w'], outputs: ['zeros'] },
    { op: 'ReduceMax', inputs: ['zeros'], outputs: ['zero'], ints: { keepdims: 0 } },
  ],
};
const levels = ['disabled', 'basic', 'extended', 'layout', 'all'] as const;

describe('a prepared model gives the same, bit for bit', () => {
  it.each(levels)('of a convolutional network, optimised "%s"', async (graphOptimizationLevel) => {
    const results = await compare(
      tinyResNet(),
      ['layer3', 'avgpool', 'fc'],
      { input: floats(3, 3, 64, 64) },
      { session: { graphOptimizationLevel } },
    );
    expect(results['fc']!.dims).toEqual([3, 10]);
  });

  it.each(levels)('of matrices, a quantised product, int64 and bool, "%s"', async (level) => {
    const names = ['product', 'integer', 'best', 'sign'];
    const options = { session: { graphOptimizationLevel: level } };
    const results = await compare(modelBytes(mixed), names, { x: floats(5, 32) }, options);
    expect(names.map((name) => results[name]!.dtype)).toEqual(['float32', 'int32', 'int64', 'bool']);
  });

  it('of weights in another file', async () => {
    const folder = join(scratch, 'external');
    cpSync(fixturePath('graphs/generated/external'), folder, { recursive: true });
    const feed = readNpy(join(folder, 'data_ok/input_0.npy'));
    const results = await compare(join(folder, 'ok.onnx'), ['tensor:y'], { x: feed });
    expect(results['tensor:y']!.data).toEqual(readNpy(join(folder, 'data_ok/tap_000.npy')).data);
  });

  it('of parts added to the graph, with pixels fed', async () => {
    const pixels = { dtype: 'uint8', dims: [2, 64, 64, 3], data: new Uint8Array(2 * 64 * 64 * 3).fill(77) };
    const options = { input: 'image-uint8', pool: 'avg', outputDtype: 'float16' } as const;
    const results = await compare(tinyResNet(), ['layer4'], { image: pixels }, options);
    expect(results['layer4']!.dtype).toBe('float16');
  });

  const corpus = readCorpus(fixturePath('graphs')).filter(
    ({ file, taps }) => (taps?.length ?? 0) > 0 && !file.includes('/external/'),
  );
  it.each(corpus.map((entry) => [entry.name, entry] as const))('of %s', async (_, { file, inputs, taps }) => {
    const feeds = (inputs ?? []).map(
      (input) => [input.name, readNpy(fixturePath(`graphs/${input.file}`))] as const,
    );
    const tap = taps!.find((one) => one.inputs.length > 0);
    if (!tap) return;
    const needed = Object.fromEntries(feeds.filter(([name]) => tap.inputs.includes(name)));
    const names = tap.request.map((name) => `tensor:${name}`);
    await compare(fixturePath(`graphs/${file}`), [...new Set(names)], needed);
  });
});

describe('several sessions', () => {
  const devices = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
  const feed = floats(6, 3, 64, 64);

  it('share one preparation, on several devices and for those wrapped later', async () => {
    const cacheFolder = newFolder();
    const options = { cache: 'always', cacheFolder } as const;
    const single = await createFeatureExtractor(tinyResNet(), { fc: 'out' }, { cache: 'off' });
    const parallel = await createFeatureExtractor(tinyResNet(), { fc: 'out' }, { ...options, devices });
    const module = await createFeatureExtractor(tinyResNet(), { fc: 'out' }, options);
    const wrapped = await DataParallel.create(module, { devices, sessionsPerDevice: 2 });
    const expected = (await parallel.run(feed)).out;
    expect((await wrapped.run(feed)).out).toEqual(expected);
    expect(expected.dims).toEqual((await single.run(feed)).out.dims);
    expect(entriesOf(cacheFolder)).toHaveLength(1);
    for (const one of [single, parallel, wrapped, module]) await one.close();
  });

  it('of a small model are not prepared by default, nor is one session', async () => {
    const cacheFolder = newFolder();
    const parallel = await createFeatureExtractor(tinyResNet(), ['fc'], { cacheFolder, devices });
    await parallel.close();
    const large = bigModel();
    await (await createFeatureExtractor(large, ['y'], { cacheFolder })).close();
    expect(entriesOf(cacheFolder)).toEqual([]);
    await (await createFeatureExtractor(large, ['y'], { cacheFolder, devices, cache: 'off' })).close();
    expect(entriesOf(cacheFolder)).toEqual([]);
    await (await createFeatureExtractor(large, ['y'], { cacheFolder, devices })).close();
    const [entry] = entriesOf(cacheFolder);
    // The matrix as it is, and as it is packed.
    expect(statSync(join(cacheFolder, entry!, 'weights.bin')).size).toBeGreaterThanOrEqual(
      2 * 1600 * 1600 * 4,
    );
  });

  it('have an entry for each level, and for each model', async () => {
    const cacheFolder = newFolder();
    const options = { cacheFolder, cache: 'always' } as const;
    for (const graphOptimizationLevel of ['all', 'basic', 'all'] as const)
      await (
        await createFeatureExtractor(tinyResNet(), ['fc'], {
          ...options,
          session: { graphOptimizationLevel },
        })
      ).close();
    await (await createFeatureExtractor(tinyResNet(), ['layer1'], options)).close();
    expect(entriesOf(cacheFolder)).toHaveLength(3);
  });

  it('of processes that open a model at once make one entry', async () => {
    const cacheFolder = newFolder();
    const model = join(scratch, 'big.onnx');
    writeFileSync(model, bigModel());
    const script = `
      import { createFeatureExtractor } from 'onnx-tapir';
      const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['y'], {
        devices: ['cpu:0', 'cpu:1'], cacheFolder: ${JSON.stringify(cacheFolder)} });
      const { y } = await extractor.run({ dtype: 'float32', dims: [2, 1600], data: new Float32Array(3200).fill(0.5) });
      console.log(y.data[0], y.data[1599]);
      await extractor.close();`;
    const ended = await Promise.all(Array.from({ length: 4 }, () => runScript(script)));
    for (const { code, stdout, stderr } of ended)
      expect([code, stdout, stderr]).toEqual([0, ended[0]!.stdout, '']);
    expect(entriesOf(cacheFolder)).toHaveLength(1);
  });
});

describe('when something is wrong with the cache', () => {
  const feed = { x: floats(4, 32) };
  const names = ['product', 'best'];
  const open = (options: Given): Promise<DataParallel<string, DType>> =>
    createFeatureExtractor(modelBytes(mixed), names, {
      outputDtype: 'keep',
      cache: 'always',
      ...options,
      devices: ['cpu:0', 'cpu:1'],
      device: undefined,
    });
  const expected = async (): Promise<Record<string, Tensor>> => {
    const plain = await open({ cache: 'off' });
    const results = await plain.run(feed);
    await plain.close();
    return results;
  };

  it('a lane that is opened again finds it gone, and has it made again', async () => {
    const cacheFolder = newFolder();
    const extractor = await open({ cacheFolder, isolation: 'process' });
    const before = await extractor.run(feed);
    rmSync(cacheFolder, { recursive: true });
    const [pid] = extractor.replicas[0]!.pids;
    process.kill(pid!, 'SIGKILL');
    while (extractor.replicas[0]!.pids.length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await extractor.run(feed)).toEqual(before);
    expect(extractor.replicas[0]!.restarts).toBe(1);
    expect(entriesOf(cacheFolder)).toHaveLength(1);
    await extractor.close();
  });

  it('a damaged entry is made again', async () => {
    const cacheFolder = newFolder();
    await (await open({ cacheFolder })).close();
    const [key] = entriesOf(cacheFolder);
    truncateSync(join(cacheFolder, key!, 'weights.bin'), 100);
    const extractor = await open({ cacheFolder });
    expect(await extractor.run(feed)).toEqual(await expected());
    expect(entriesOf(cacheFolder)).toEqual([key]);
    await extractor.close();
  });

  it('an entry that onnxruntime refuses is left alone, and the model is opened as it is', async () => {
    const cacheFolder = newFolder();
    await (await open({ cacheFolder })).close();
    const [key] = entriesOf(cacheFolder);
    damageGraph(join(cacheFolder, key!));
    const extractor = await open({ cacheFolder });
    expect(await extractor.run(feed)).toEqual(await expected());
    await extractor.close();
  });

  it('one that cannot be written is done without, with one warning', async () => {
    const file = join(scratch, 'a-file');
    writeFileSync(file, '');
    for (let i = 0; i < 2; i++) {
      const extractor = await open({ cacheFolder: join(file, 'cache') });
      expect(await extractor.run(feed)).toEqual(await expected());
      await extractor.close();
    }
    expect(warnings.map((warning) => 'code' in warning && warning.code)).toEqual(['TAPIR_CACHE_UNUSABLE']);
    expect(warnings[0]!.message).toMatch(/choose another cacheFolder/);
  });

  it('a model that onnxruntime saves with other inputs is opened as it is, and not tried again', async () => {
    const cacheFolder = newFolder();
    const sizes = ['a', 'b', 'c'];
    const bytes = modelBytes(
      {
        // Of two equal weights one is dropped, but not the input of its name.
        inputs: [{ name: 'x', dims: ['n', 4] }, ...sizes.map((name) => ({ name, dims: [1], elemType: 7 }))],
        outputs: [{ name: 'y', dims: ['n', 4] }],
        initializers: Object.fromEntries(
          sizes.map((name) => [name, { dims: [1], values: [4], elemType: 'int64' }]),
        ),
        nodes: [
          ...sizes.map((name) => ({ op: 'ConstantOfShape', inputs: [name], outputs: [`${name}d`] })),
          { op: 'Sum', inputs: ['x', ...sizes.map((name) => `${name}d`)], outputs: ['y'] },
        ],
      },
      { irVersion: 3, opset: 9 },
    );
    for (let i = 0; i < 2; i++) {
      const extractor = await createFeatureExtractor(bytes, ['y'], { cache: 'always', cacheFolder });
      const input = floats(2, 4);
      expect((await extractor.run(input))['y']!.data).toEqual(input.data);
      await extractor.close();
    }
    const [entry] = entriesOf(cacheFolder);
    expect(readdirSync(join(cacheFolder, entry!))).toEqual(['entry.json']);
  });

  it('a model that cannot be opened is refused as without it', async () => {
    const bytes = modelBytes({ ...mixed, nodes: [{ op: 'NoSuchOp', inputs: ['x'], outputs: ['product'] }] });
    const opening = createFeatureExtractor(bytes, ['product'], { cache: 'always', cacheFolder: newFolder() });
    await expect(opening).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(/NoSuchOp/),
    });
  });

  it.each([
    ['cache', 'yes'],
    ['cacheFolder', ''],
    ['cacheBytes', -1],
  ])('an option "%s" of %j is refused', async (option, value) => {
    await expect(
      createFeatureExtractor(tinyResNet(), ['fc'], { [option]: value } as object),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option } });
  });
});

/** A matrix of 10 MB. */
function bigModel(): Uint8Array {
  const values = Array.from({ length: 1600 * 1600 }, (_, i) => (i % 7) - 3);
  return modelBytes({
    inputs: [{ name: 'x', dims: ['rows', 1600] }],
    outputs: [{ name: 'y', dims: ['rows', 1600] }],
    initializers: { w: { dims: [1600, 1600], values } },
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
  });
}
