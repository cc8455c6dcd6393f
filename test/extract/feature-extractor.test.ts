import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, openModel, pruneModel, type FeatureExtractor } from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { scratchFolder, tinyResNet } from '../support/fixtures.js';
import { chain, modelBytes, type GraphSpec } from '../support/graphs.js';

const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((extractor) => extractor.close())));

function keep<Key extends string>(extractor: FeatureExtractor<Key>): FeatureExtractor<Key> {
  open.push(extractor);
  return extractor;
}

const batch = (rows: number, value = 0.5): { dtype: string; dims: number[]; data: Float32Array } => ({
  dtype: 'float32',
  dims: [rows, 3, 64, 64],
  data: Float32Array.from({ length: rows * 3 * 64 * 64 }, (_, i) => value * Math.sin(i)),
});

describe('createFeatureExtractor', () => {
  it('describes its outputs before running', async () => {
    const extractor = keep(
      await createFeatureExtractor(tinyResNet(), { layer4: 'features', avgpool: 'pooled', flatten: 'flat' }),
    );
    expect(extractor.inputs).toEqual([{ name: 'input', dtype: 'float32', dims: ['batch', 3, 64, 64] }]);
    expect(extractor.outputs).toEqual([
      {
        name: 'features',
        tensor: '/layer4/layer4.0/relu_2/Relu_output_0',
        dtype: 'float32',
        dims: ['batch', 128, 2, 2],
        channels: 128,
        reduction: 32,
        layout: 'NCHW',
        tokens: null,
      },
      {
        name: 'pooled',
        tensor: '/avgpool/GlobalAveragePool_output_0',
        dtype: 'float32',
        dims: ['batch', 128, 1, 1],
        channels: 128,
        reduction: null,
        layout: 'NCHW',
        tokens: null,
      },
      {
        name: 'flat',
        tensor: '/Flatten_output_0',
        dtype: 'float32',
        dims: ['batch', 128],
        channels: 128,
        reduction: null,
        layout: 'NC',
        tokens: null,
      },
    ]);
    expect(extractor.device).toBe('cpu');
  });

  it('gives outputs by key, in request order, in buffers of their own, and leaves the input alone', async () => {
    const extractor = keep(
      await createFeatureExtractor(tinyResNet(), { avgpool: 'b', layer1: 'a', 'layer1.0.relu_2': 'c' }),
    );
    const input = batch(3);
    const before = input.data.slice();
    const results = await extractor.run(input);
    expect(Object.keys(results)).toEqual(['b', 'a', 'c']);
    expect(results.a.dims).toEqual([3, 16, 16, 16]);
    expect(results.c.data).toEqual(results.a.data);
    const buffers = Object.values(results).map((tensor) => (tensor.data as Float32Array).buffer);
    expect(new Set(buffers).size).toBe(3);
    expect(input.data).toEqual(before);
  });

  it('takes an ort.Tensor, a record by name, and any request form', async () => {
    const ort = await import('onnxruntime-node');
    const { data, dims } = batch(1);
    const requests = [['fc'], { fc: 'fc' }, [['fc', 'fc']], new Map([['fc', 'fc']])] as const;
    const sums = [];
    for (const request of requests) {
      const extractor = keep(await createFeatureExtractor(tinyResNet(), request));
      const feed = new ort.Tensor('float32', data, dims) as unknown as {
        type: string;
        dims: readonly number[];
        data: Float32Array;
      };
      sums.push(String((await extractor.run({ input: feed })).fc?.data.slice(0, 2)));
    }
    expect(new Set(sums).size).toBe(1);
  });

  it('takes the name of a tensor as the key of what is computed from it, as a list does', async () => {
    const { plan } = await pruneModel(tinyResNet(), { layer4: 'out', conv1: 'other' });
    const [layer4, conv1] = plan.resolved.map(({ tensor }) => tensor) as [string, string];
    const steps = { pool: 'avg', l2Normalize: true } as const;
    const list = keep(await createFeatureExtractor(tinyResNet(), [layer4], steps));
    const keyed = keep(await createFeatureExtractor(tinyResNet(), { layer4 }, steps));
    expect(keyed.outputs).toEqual(list.outputs);
    expect(await keyed.run(batch(2))).toEqual(await list.run(batch(2)));
    await expect(createFeatureExtractor(tinyResNet(), { layer4: conv1 }, steps)).rejects.toMatchObject({
      code: 'OUTPUT_NAME_TAKEN',
    });
    await expect(pruneModel(tinyResNet(), { layer4 }, steps)).rejects.toMatchObject({
      code: 'OUTPUT_NAME_TAKEN',
    });
  });

  it('moves the buffer with transfer, and only then', async () => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['fc']));
    const input = batch(1);
    await extractor.run(input, { transfer: true });
    expect(input.data.length).toBe(0);
  });

  it('answers overlapping calls each with its own result', async () => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['fc']));
    const alone = [];
    for (let i = 1; i <= 4; i++) alone.push((await extractor.run(batch(1, i))).fc.data);
    const together = await Promise.all([1, 2, 3, 4].map((i) => extractor.run(batch(1, i))));
    expect(together.map(({ fc }) => fc.data)).toEqual(alone);
  });

  it('does not block the event loop while running', async () => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['fc']));
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    await extractor.run(batch(256));
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(3);
  });

  it('saves the model it runs', async () => {
    const path = join(scratchFolder(), 'cut.onnx');
    const extractor = keep(await createFeatureExtractor(tinyResNet(), { layer2: 'features' }));
    await extractor.model.save(path);
    const again = keep(await createFeatureExtractor(path, ['features']));
    expect((await again.run(batch(2))).features.data).toEqual((await extractor.run(batch(2))).features.data);
  });

  it('runs a fixed batch as often as needed', async () => {
    const fixed = modelBytes({ inputs: ['t0'], outputs: ['t1'], nodes: chain(1).nodes });
    const bytes = Buffer.from(fixed);
    // The symbolic size "n" becomes the number 2, in a field of the same length.
    for (
      let at = bytes.indexOf('\u0012\u0001n', 0, 'latin1');
      at >= 0;
      at = bytes.indexOf('\u0012\u0001n', at, 'latin1')
    ) {
      bytes.set([0x08, 0x82, 0x00], at);
    }
    const model = await openModel(bytes);
    expect(model.inputs[0]?.dims).toEqual([2]);
  });

  it('is not changed by what happens to the request or the options afterwards', async () => {
    const request: Record<string, string> = { layer1: 'a' };
    const options = { session: { graphOptimizationLevel: 'disabled' as const } };
    const pending = createFeatureExtractor(tinyResNet(), request, options);
    request['layer2'] = 'b';
    const extractor = keep(await pending);
    expect(Object.keys(await extractor.run(batch(1)))).toEqual(['a']);
  });
});

describe('run refuses', () => {
  const expectMismatch = async (input: unknown, message: string | RegExp): Promise<void> => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['fc']));
    const run = extractor.run(input as Parameters<typeof extractor.run>[0]);
    await expect(run).rejects.toMatchObject({ code: 'INPUT_MISMATCH' });
    await expect(run).rejects.toThrow(message);
  };

  it('a missing, unknown or misshapen input, naming it', async () => {
    await expectMismatch({}, 'input "input" must be given');
    await expectMismatch({ imput: batch(1) }, 'input "imput" must be one of the model\'s inputs: "input"');
    await expectMismatch(null, 'a tensor');
    await expectMismatch(
      { ...batch(1), dims: [1, 3, 32, 128] },
      'must be of dims [batch, 3, 64, 64], got [1, 3, 32, 128]',
    );
    await expectMismatch(
      { dtype: 'float64', dims: [1, 3, 64, 64], data: new Float64Array(12288) },
      'must be float32, got float64',
    );
    await expectMismatch({ dtype: 'float32', dims: [12288], data: new Float32Array(12288) }, 'of dims');
  });

  it('a single tensor for several inputs', async () => {
    const spec: GraphSpec = {
      inputs: ['a', 'b'],
      outputs: ['y'],
      nodes: [{ op: 'Add', inputs: ['a', 'b'], outputs: ['y'] }],
    };
    const extractor = keep(await createFeatureExtractor(modelBytes(spec), ['y']));
    const one = { dtype: 'float32', dims: [1], data: new Float32Array(1) };
    await expect(extractor.run(one)).rejects.toThrow(/given by name: the model has 2 inputs/);
    expect((await extractor.run({ a: one, b: one })).y.dims).toEqual([1]);
  });

  it('to run after closing, and closes once', async () => {
    const extractor = await createFeatureExtractor(tinyResNet(), ['fc']);
    const last = extractor.run(batch(1));
    await Promise.all([extractor.close(), extractor.close()]);
    expect((await last).fc.dims).toEqual([1, 10]);
    await expect(extractor.run(batch(1))).rejects.toMatchObject({ code: 'CLOSED' });
    await extractor[Symbol.asyncDispose]();
  });

  it('with the signal’s reason, at once, and goes on to serve others', async () => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['fc']));
    const abort = new AbortController();
    const settled: string[] = [];
    const run = extractor
      .run(batch(512), { signal: abort.signal })
      .catch((error: Error) => settled.push(error.message));
    const next = extractor.run(batch(1)).then(() => settled.push('next'));
    abort.abort(new Error('enough'));
    await Promise.all([run, next]);
    // The run given up settles first, although the one after it waits for its end.
    expect(settled).toEqual(['enough', 'next']);
    await expect(extractor.run(batch(1), { signal: abort.signal })).rejects.toThrow('enough');
    expect((await extractor.run(batch(1))).fc.dims).toEqual([1, 10]);
  });
});

describe('createFeatureExtractor refuses', () => {
  it.each([
    ['a CUDA device without its libraries', { device: 'cuda' }, 'DEVICE_UNAVAILABLE'],
    ['an unknown device', { device: 'gpu' }, 'OPTION_INVALID'],
    ['an unknown option', { devcie: 'cpu' }, 'OPTION_INVALID'],
    ['an unknown session option', { session: { threads: 2 } }, 'OPTION_INVALID'],
  ])('%s', async (_what, options, code) => {
    await expect(createFeatureExtractor(tinyResNet(), ['fc'], options as object)).rejects.toMatchObject({
      code,
    });
  });

  it('a model that ONNX Runtime refuses, with its reason', async () => {
    const bytes = modelBytes({
      inputs: ['a'],
      outputs: ['y'],
      nodes: [{ op: 'NoSuchOp', inputs: ['a'], outputs: ['y'] }],
    });
    await expect(createFeatureExtractor(bytes, ['y'])).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(/NoSuchOp/),
    });
  });

  it('a run that fails inside the model, and serves the next', async () => {
    const spec: GraphSpec = {
      inputs: ['a', 'b'],
      outputs: ['y'],
      nodes: [{ op: 'Add', inputs: ['a', 'b'], outputs: ['y'] }],
    };
    const extractor = keep(await createFeatureExtractor(modelBytes(spec), ['y']));
    const of = (length: number): { dtype: string; dims: number[]; data: Float32Array } => ({
      dtype: 'float32',
      dims: [length],
      data: new Float32Array(length),
    });
    await expect(extractor.run({ a: of(2), b: of(3) })).rejects.toMatchObject({
      code: 'RUN_FAILED',
      details: { device: 'cpu' },
    });
    expect((await extractor.run({ a: of(2), b: of(2) })).y.dims).toEqual([2]);
  });

  it('data that is moved away meanwhile, and serves the next', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      nodes: [{ op: 'Neg', inputs: ['a'], outputs: ['y'] }],
    };
    const extractor = keep(await createFeatureExtractor(modelBytes(spec), ['y']));
    const of = (data: Float32Array): { dtype: string; dims: number[]; data: Float32Array } => ({
      dtype: 'float32',
      dims: [data.length],
      data,
    });
    const twice = of(new Float32Array(4));
    const runs = await Promise.allSettled([1, 2].map(() => extractor.run(twice, { transfer: true })));
    expect(runs.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(runs[1]).toMatchObject({
      reason: {
        code: 'INPUT_MISMATCH',
        message: expect.stringMatching(/left unchanged until the call settles/),
      },
    });
    expect((await extractor.run(of(new Float32Array(4)))).y.dims).toEqual([4]);
  });

  it('falls back with "auto" only, and says so', async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning.message);
    process.on('warning', onWarning);
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['fc'], { device: 'auto' }));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', onWarning);
    if (extractor.device === 'cpu') expect(warnings.join()).toContain('fell back to the CPU');
  });
});

describe('openModel', () => {
  it('takes paths, file URLs and bytes', async () => {
    const path = join(scratchFolder(), 'a b#.onnx');
    writeFileSync(path, tinyResNet());
    const { pathToFileURL } = await import('node:url');
    for (const source of [path, pathToFileURL(path), pathToFileURL(path).href, tinyResNet()]) {
      expect((await openModel(source)).inputs).toHaveLength(1);
    }
  });

  it('lists nodes with place, role and name', async () => {
    const model = await openModel(tinyResNet());
    expect(model.nodes[0]).toEqual({
      name: '/conv1/Conv',
      opType: 'Conv',
      module: 'conv1',
      inputs: ['input', 'conv1.weight'],
      outputs: [{ name: '/conv1/Conv_output_0', dtype: null, dims: null }],
      request: 'conv1',
      role: 'data',
    });
  });

  it.each([
    ['a missing file', '/no/such/file.onnx', 'MODEL_UNREADABLE'],
    ['a folder', '.', 'MODEL_UNREADABLE'],
    ['another protocol', new URL('https://example.org/model.onnx'), 'OPTION_INVALID'],
    ['nothing', '', 'OPTION_INVALID'],
    ['a number', 7, 'OPTION_INVALID'],
  ])('refuses %s', async (_what, source, code) => {
    await expect(openModel(source as string)).rejects.toMatchObject({ code });
  });

  it.skipIf(process.platform === 'win32')('refuses a named pipe without waiting for it', async () => {
    const path = join(scratchFolder(), 'pipe.onnx');
    execFileSync('mkfifo', [path]);
    await expect(openModel(path)).rejects.toMatchObject({
      code: 'MODEL_UNREADABLE',
      message: expect.stringMatching(/not a regular file/),
    });
  });

  it.skipIf(process.platform === 'win32')(
    'is not saved over what is no regular file, or to no path',
    async () => {
      const pruned = await pruneModel(tinyResNet(), ['fc']);
      const path = join(scratchFolder(), 'pipe');
      execFileSync('mkfifo', [path]);
      await expect(pruned.save(path)).rejects.toMatchObject({
        code: 'OUTPUT_UNWRITABLE',
        message: expect.stringMatching(/not a regular file/),
      });
      await expect(pruned.save('')).rejects.toMatchObject({ code: 'OPTION_INVALID' });
      await expect(pruned.save(5 as unknown as string)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    },
  );

  it('says what is wrong with an object that refers to itself', async () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    await expect(openModel(circle as unknown as string)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('notices that the file changed before it is copied', async () => {
    const path = join(scratchFolder(), 'changing.onnx');
    writeFileSync(path, tinyResNet());
    const pruned = await pruneModel(path, ['layer1']);
    writeFileSync(path, Buffer.concat([tinyResNet(), Buffer.from([0xa2, 0x06, 0])]));
    await expect(pruned.bytes()).rejects.toMatchObject({ code: 'MODEL_CHANGED' });
  });
});
