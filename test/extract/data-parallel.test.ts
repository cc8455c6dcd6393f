/**
 * Data parallelism on real lanes. The applicable tests of torch's test/distributed/test_data_parallel.py by their names, then
 * what torch gets wrong or leaves open.
 */
import { runInNewContext } from 'node:vm';
import { setFlagsFromString } from 'node:v8';
import {
  createFeatureExtractor,
  DataParallel,
  isTapirError,
  type DType,
  type FeatureExtractor,
  type Tensor,
} from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { tinyResNet } from '../support/fixtures.js';
import { chain, modelBytes, type GraphSpec } from '../support/graphs.js';

const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((one) => one.close())));

function keep<One extends { close(): Promise<void> }>(one: One): One {
  open.push(one);
  return one;
}

const TWO = ['cpu:0', 'cpu:1'] as const;
const ELEM_TYPES = { float32: 1, float64: 11, float16: 10, int64: 7, string: 8 } as const;

/** y = x + x, of dims [n, 2]. */
const doubling = (dtype: keyof typeof ELEM_TYPES = 'float32'): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2], elemType: ELEM_TYPES[dtype] }],
    outputs: [{ name: 'y', dims: ['n', 2], elemType: ELEM_TYPES[dtype] }],
    nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
  });

const rowsOf = (rows: number, columns = 2): Tensor<'float32'> => ({
  dtype: 'float32',
  dims: [rows, columns],
  data: Float32Array.from({ length: rows * columns }, (_, i) => i),
});

const photos = (rows: number): Tensor<'float32'> => ({
  dtype: 'float32',
  dims: [rows, 3, 64, 64],
  data: Float32Array.from({ length: rows * 3 * 64 * 64 }, (_, i) => Math.sin(i)),
});

/** Collects warnings of the process while a step runs. */
async function warningsOf(step: () => Promise<unknown>): Promise<string[]> {
  const codes: string[] = [];
  const onWarning = (warning: Error & { code?: string }): void => void codes.push(warning.code ?? '');
  process.on('warning', onWarning);
  await step();
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', onWarning);
  return codes;
}

describe('torch’s tests', () => {
  it.each([
    ['test_data_parallel', ['cpu:0', 'cpu:1']],
    ['test_data_parallel, the other order', ['cpu:1', 'cpu:0']],
    ['test_data_parallel, one device', ['cpu:1']],
    ['test_data_parallel, four devices', ['cpu:0', 'cpu:1', 'cpu:2', 'cpu:3']],
  ] as const)('%s', async (_name, devices) => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), { layer2: 'map', fc: 'logits' }));
    const parallel = keep(await DataParallel.create(extractor, { devices }));
    expect(parallel.devices).toEqual(devices);
    const whole = await extractor.run(photos(9));
    const joined = await parallel.run(photos(9));
    expect(joined.map.dims).toEqual([9, 32, 8, 8]);
    for (const key of ['map', 'logits'] as const) expectClose(joined[key], whole[key]);
  });

  it('test_data_parallel with device_ids=None: the extractor’s own device', async () => {
    const extractor = keep(await createFeatureExtractor(doubling(), ['y']));
    const parallel = keep(await DataParallel.create(extractor));
    expect(parallel.devices).toEqual(['cpu']);
    expect(parallel.module).toBe(extractor);
  });

  it.each([
    ['float32', Float32Array.of(1, 2, 3, 4, 5, 6), Float32Array.of(2, 4, 6, 8, 10, 12)],
    ['float64', Float64Array.of(1, 2, 3, 4, 5, 6), Float64Array.of(2, 4, 6, 8, 10, 12)],
    [
      'float16',
      Uint16Array.of(0x3c00, 0x4000, 0, 0, 0, 0x3c00),
      Uint16Array.of(0x4000, 0x4400, 0, 0, 0, 0x4000),
    ],
    ['int64', BigInt64Array.of(1n, 2n, 3n, 4n, 5n, 6n), BigInt64Array.of(2n, 4n, 6n, 8n, 10n, 12n)],
  ] as const)('test_data_parallel_module: %s', async (dtype, data, expected) => {
    const parallel = keep(
      await createFeatureExtractor(doubling(dtype), ['y'], { devices: TWO, outputDtype: 'keep' }),
    );
    const { y } = await parallel.run({ dtype, dims: [3, 2], data });
    expect(y).toEqual({ dtype, dims: [3, 2], data: expected });
  });

  it.each([
    ['_kwargs_only', {}],
    ['_kwargs_only_empty_list', { unused: [] }],
    ['_kwargs_only_empty_dict', { unused: {} }],
    ['_kwargs_only_empty_tuple', { unused: [[], {}] }],
  ])('test_data_parallel_module%s', async (_name, unused) => {
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    const { y } = await parallel.run({ x: rowsOf(5), ...unused });
    expect(y.data).toEqual(rowsOf(5).data.map((value) => 2 * value));
  });

  const weighted: GraphSpec = {
    inputs: [
      { name: 'a', dims: ['n', 2] },
      { name: 'b', dims: ['n', 2] },
      { name: 'scale', dims: [] },
    ],
    outputs: ['y'],
    nodes: [
      { op: 'Mul', inputs: ['b', 'scale'], outputs: ['c'] },
      { op: 'Add', inputs: ['a', 'c'], outputs: ['y'] },
    ],
  };
  const scale = { dtype: 'float32', dims: [], data: Float32Array.of(3) } as const;

  it.each([['cpu:0,cpu:1'], ['cpu:1,cpu:0'], ['cpu:0']])(
    'test_data_parallel_multiple_input: two tensors and a number, on %s',
    async (devices) => {
      const list = devices.split(',') as 'cpu:0'[];
      const parallel = keep(await createFeatureExtractor(modelBytes(weighted), ['y'], { devices: list }));
      const { y } = await parallel.run({ a: rowsOf(7), b: rowsOf(7), scale });
      expect(y.dims).toEqual([7, 2]);
      expect(y.data).toEqual(rowsOf(7).data.map((value) => 4 * value));
    },
  );

  it('test_data_parallel_nested_input', async () => {
    const parallel = keep(await createFeatureExtractor(modelBytes(weighted), ['y'], { devices: TWO }));
    const expected = rowsOf(3).data.map((value) => 4 * value);
    for (const input of [
      [rowsOf(3), [rowsOf(3), scale]],
      { pair: { a: rowsOf(3), b: rowsOf(3) }, scale },
      { scale, pair: [rowsOf(3), rowsOf(3)] },
    ]) {
      expect((await parallel.run(input)).y.data).toEqual(expected);
    }
    await expect(parallel.run([rowsOf(3), rowsOf(3), scale, scale])).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      message: expect.stringMatching(/4 tensors/),
    });
    await expect(parallel.run({ x: { a: rowsOf(3) }, a: rowsOf(3) })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      details: { input: 'a', expected: 'given once', actual: 'twice' },
    });
  });

  it('test_data_parallel_nested_output: keys in the order of the request', async () => {
    const request = { fc: 'z', layer1: 'a', relu: 'm' } as const;
    const parallel = keep(await createFeatureExtractor(tinyResNet(), request, { devices: TWO }));
    expect(Object.keys(await parallel.run(photos(3)))).toEqual(['z', 'a', 'm']);
    expect(parallel.outputs.map(({ name }) => name)).toEqual(['z', 'a', 'm']);
  });

  it('test_data_parallel_module_zero_inputs: one run, on the first device', async () => {
    const spec: GraphSpec = {
      outputs: ['y'],
      nodes: [{ op: 'Add', inputs: ['w', 'w'], outputs: ['y'] }],
      initializers: { w: [1, 2] },
    };
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO }));
    expect((await parallel.run({})).y.data).toEqual(Float32Array.of(2, 4));
    expect(parallel.replicas.map(({ runs }) => runs)).toEqual([1, 0]);
  });

  it('test_data_parallel_device_args: strings or records', async () => {
    const extractor = keep(await createFeatureExtractor(doubling(), ['y']));
    const devices = ['cpu:0', { type: 'cpu', id: 1, threads: 1 }] as const;
    const parallel = keep(await DataParallel.create(extractor, { devices }));
    expect(parallel.devices).toEqual(['cpu:0', 'cpu:1']);
  });

  it('test_data_parallel_model_device: a device named twice, or that does not exist', async () => {
    const extractor = keep(await createFeatureExtractor(doubling(), ['y']));
    await expect(DataParallel.create(extractor, { devices: ['cpu', 'cpu:0'] })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/"cpu:0" is named twice/),
    });
    const missing = DataParallel.create(extractor, { devices: ['cpu:0', 'cuda:99'] });
    await expect(missing).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      details: { device: 'cuda:99' },
    });
  });

  it('test_data_parallel_small_back: 20 rows', async () => {
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    expect((await parallel.run(rowsOf(20))).y.data).toEqual(rowsOf(20).data.map((value) => 2 * value));
  });

  it('test_parallel_apply_passes_exception: all settle, the lowest replica’s error is thrown', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 1], elemType: 7 }],
      outputs: ['y'],
      nodes: [{ op: 'GatherND', inputs: ['w', 'x'], outputs: ['y'] }],
      initializers: { w: [1, 2, 3] },
    };
    const devices = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { devices }));
    const of = (...data: number[]): Tensor => ({
      dtype: 'int64',
      dims: [data.length, 1],
      data: BigInt64Array.from(data.map(BigInt)),
    });
    const error: unknown = await parallel.run(of(0, 9, 9)).catch((caught: unknown) => caught);
    if (!isTapirError(error, 'REPLICA_FAILED')) throw error;
    expect(error.details).toEqual({ replica: 1, device: 'cpu:1' });
    expect(error.message).toMatch(/^replica 1 on cpu:1 failed for row 1 \(and 1 more failed/);
    expect(error.cause).toMatchObject({ code: 'RUN_FAILED' });
    expect(error.errors).toMatchObject([
      { code: 'REPLICA_FAILED', details: { replica: 2, device: 'cpu:2' } },
    ]);
    // The lanes serve the next batch.
    expect((await parallel.run(of(2, 1, 0))).y.data).toEqual(Float32Array.of(3, 2, 1));
  });

  it('test_replicate_buffers: running statistics are in each replica', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 2] }],
      outputs: ['y'],
      nodes: [{ op: 'BatchNormalization', inputs: ['x', 'g', 'b', 'm', 'v'], outputs: ['y'] }],
      initializers: { g: [1, 1], b: [0, 0], m: [10, 20], v: [1, 1] },
    };
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO }));
    const data = Float32Array.of(10, 20, 10, 20);
    const { y } = await parallel.run({ dtype: 'float32', dims: [2, 2], data });
    expect([...(y.data as Float32Array)].map(Math.abs)).toEqual([0, 0, 0, 0]);
  });

  it('test_parameter_list_dict_replica: a bare parameter, as a class token', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 2] }],
      outputs: ['y'],
      nodes: [{ op: 'Add', inputs: ['x', 'class_token'], outputs: ['y'] }],
      initializers: { class_token: { dims: [1, 2], values: [100, 200] } },
    };
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO }));
    expect((await parallel.run(rowsOf(2))).y.data).toEqual(Float32Array.of(100, 201, 102, 203));
  });

  it('test_data_parallel_no_refcycles: nothing is held after a run', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    const held: WeakRef<object>[] = [];
    const runOnce = async (): Promise<void> => {
      const x = rowsOf(1000);
      const results = await parallel.run(x);
      held.push(new WeakRef(x), new WeakRef(x.data), new WeakRef(results.y.data));
    };
    await runOnce();
    for (let i = 0; i < 200 && held.some((ref) => ref.deref()); i++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      collect();
    }
    expect(held.map((ref) => ref.deref())).toEqual([undefined, undefined, undefined]);
  });

  it('test_data_parallel_complex: onnxruntime has no complex numbers', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n'], elemType: 14 }],
      outputs: [{ name: 'y', dims: ['n'], elemType: 14 }],
      nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
    };
    await expect(createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO })).rejects.toMatchObject({
      code: 'SESSION_FAILED',
    });
  });
});

function expectClose(actual: Tensor, expected: Tensor): void {
  expect(actual.dims).toEqual(expected.dims);
  const largest = Math.max(...(expected.data as Float32Array).map(Math.abs));
  const worst = (actual.data as Float32Array).reduce(
    (most, value, i) => Math.max(most, Math.abs(value - (expected.data[i] as number))),
    0,
  );
  expect(worst).toBeLessThanOrEqual(1e-5 * largest);
}

describe('data parallel', () => {
  it('equals the same chunks run on one session, bit for bit', async () => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), ['layer4', 'fc']));
    for (const count of [1, 2, 3, 4]) {
      const devices = Array.from({ length: count }, (_, id) => ({ type: 'cpu', id, threads: 1 }) as const);
      const parallel = keep(await DataParallel.create(extractor, { devices }));
      for (const rows of [1, 2, 5, 9]) {
        const batch = photos(rows);
        const joined = await parallel.run(batch);
        let start = 0;
        for (const { rows: part } of parallel.rowsPerDevice(rows)) {
          if (part === 0) continue;
          const size = 3 * 64 * 64;
          const alone = await extractor.run({
            dtype: 'float32',
            dims: [part, 3, 64, 64],
            data: batch.data.slice(start * size, (start + part) * size),
          });
          for (const key of ['layer4', 'fc'] as const) {
            const row = alone[key].data.length / part;
            expect(joined[key].data.slice(start * row, (start + part) * row)).toEqual(alone[key].data);
          }
          start += part;
        }
        expect(start).toBe(rows);
      }
    }
  });

  it('takes a batch smaller than the devices, and an empty one', async () => {
    const devices = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices }));
    expect((await parallel.run(rowsOf(1))).y.data).toEqual(Float32Array.of(0, 2));
    expect(parallel.replicas.map(({ runs }) => runs)).toEqual([1, 0, 0]);
    const { y } = await parallel.run(rowsOf(0));
    expect(y).toEqual({ dtype: 'float32', dims: [0, 2], data: new Float32Array(0) });
    expect(parallel.replicas.map(({ runs }) => runs)).toEqual([2, 0, 0]);
  });

  it('says once which devices torch’s chunks leave idle', async () => {
    const devices = ['cpu:0', 'cpu:1', 'cpu:2', 'cpu:3', 'cpu:4'] as const;
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices }));
    expect(parallel.rowsPerDevice(8).map(({ rows }) => rows)).toEqual([2, 2, 2, 2, 0]);
    const codes = await warningsOf(async () => {
      await parallel.run(rowsOf(8));
      await parallel.run(rowsOf(8));
    });
    expect(codes.filter((code) => code === 'TAPIR_DEVICES_IDLE')).toHaveLength(1);
  });

  it('refuses inputs of different lengths, of which torch drops rows', async () => {
    const spec: GraphSpec = {
      inputs: [
        { name: 'a', dims: ['n', 2] },
        { name: 'b', dims: ['m', 2] },
      ],
      outputs: ['c', 'd'],
      nodes: [
        { op: 'Neg', inputs: ['a'], outputs: ['c'] },
        { op: 'Neg', inputs: ['b'], outputs: ['d'] },
      ],
    };
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['c', 'd'], { devices: TWO }));
    await expect(parallel.run({ a: rowsOf(6), b: rowsOf(4) })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      details: { input: 'b', actual: 'a: 6, b: 4' },
    });
  });

  it.each([
    ['balanced', [3, 2, 2]],
    [
      [4, 2, 1],
      [4, 2, 1],
    ],
    ['chunk', [3, 3, 1]],
  ] as const)('splits %j', async (split, expected) => {
    const devices = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices, parallel: { split } }));
    expect(parallel.rowsPerDevice(7).map(({ rows }) => rows)).toEqual(expected);
    expect((await parallel.run(rowsOf(7))).y.data).toEqual(rowsOf(7).data.map((value) => 2 * value));
  });

  it('splits into small parts that go to free devices, and restores the order', async () => {
    const parallel = keep(
      await createFeatureExtractor(doubling(), ['y'], {
        devices: TWO,
        parallel: { split: 'dynamic', microBatch: 2 },
      }),
    );
    expect((await parallel.run(rowsOf(101))).y.data).toEqual(rowsOf(101).data.map((value) => 2 * value));
    const runs = parallel.replicas.map((replica) => replica.runs);
    expect(runs.reduce((a, b) => a + b)).toBe(51);
    expect(Math.min(...runs)).toBeGreaterThan(0);
    expect(() => parallel.rowsPerDevice(3)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });

  it('splits along another axis', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 'n'] }],
      outputs: ['y'],
      nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }],
    };
    const parallel = keep(
      await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO, parallel: { dim: 1 } }),
    );
    const { y } = await parallel.run(rowsOf(2, 5));
    expect(y).toEqual({ dtype: 'float32', dims: [2, 5], data: rowsOf(2, 5).data.map((value) => -value) });
  });

  it('runs a graph with a fixed batch in multiples of it', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 2] }],
      outputs: [{ name: 'y', dims: [2, 2] }],
      nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }],
    };
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO }));
    for (const split of ['chunk', 'dynamic', 'none'] as const) {
      const { y } = await parallel.run(rowsOf(10), { split });
      expect(y.data).toEqual(rowsOf(10).data.map((value) => -value));
    }
    await expect(parallel.run(rowsOf(3))).rejects.toMatchObject({
      code: 'BATCH_FIXED',
      details: { batch: 2, rows: 3 },
    });
  });

  it('joins outputs without axes to a vector, and says so', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 2] }],
      outputs: ['y'],
      nodes: [{ op: 'ReduceSum', inputs: ['x'], outputs: ['y'], ints: { keepdims: 0 } }],
    };
    const parallel = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO }));
    const codes = await warningsOf(async () => {
      expect((await parallel.run(rowsOf(4))).y).toEqual({
        dtype: 'float32',
        dims: [2],
        data: Float32Array.of(6, 22),
      });
    });
    expect(codes).toContain('TAPIR_SCALARS_GATHERED');
    // One part: a scalar stays one, as in torch.
    expect((await parallel.run(rowsOf(1))).y.dims).toEqual([]);
  });

  it('refuses to join an output whose rows are no multiple of the fixed batch', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 3] }],
      outputs: [{ name: 'y', dims: [3, 2] }],
      nodes: [{ op: 'Transpose', inputs: ['x'], outputs: ['y'], ints: { perm: [1, 0] } }],
    };
    const extractor = keep(await createFeatureExtractor(modelBytes(spec), ['y']));
    expect((await extractor.run(rowsOf(2, 3))).y.dims).toEqual([3, 2]);
    await expect(extractor.run(rowsOf(4, 3))).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
      message: expect.stringContaining('for a batch of 2') as string,
      details: { output: 'y', rows: 4 },
    });
  });

  it('refuses an output that has no row per sample', async () => {
    const parallel = keep(
      await createFeatureExtractor(tinyResNet(), ['tensor:conv1.weight', 'fc'], { devices: TWO }),
    );
    await expect(parallel.run(photos(4))).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
      details: { output: 'tensor:conv1.weight', rows: 4 },
    });
    expect((await parallel.run(photos(4), { split: 'none' })).fc.dims).toEqual([4, 10]);
  });

  it('works off overlapping calls, each with its own result', async () => {
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    const runs = Array.from({ length: 40 }, async (_, i) => {
      const split = (['chunk', 'dynamic', 'none', 'balanced'] as const)[i % 4];
      const { y } = await parallel.run(rowsOf(i), { split });
      expect(y.data).toEqual(rowsOf(i).data.map((value) => 2 * value));
    });
    await Promise.all(runs);
    expect(parallel.replicas.map(({ load }) => load)).toEqual([0, 0]);
  });

  it('never changes the caller’s data unless it may be moved', async () => {
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    const x = rowsOf(6);
    await parallel.run(x, { transfer: true });
    expect(x.data).toEqual(rowsOf(6).data);
    await parallel.run(x, { split: 'none' });
    expect(x.data).toEqual(rowsOf(6).data);
    await parallel.run(x, { split: 'none', transfer: true });
    expect(x.data).toHaveLength(0);
  });

  it('gives up at once when told to, and goes on with the next call', async () => {
    const parallel = keep(await createFeatureExtractor(tinyResNet(), ['fc'], { devices: TWO }));
    const abort = new AbortController();
    const run = parallel.run(photos(100), { signal: abort.signal });
    setTimeout(() => abort.abort(new Error('enough')), 5);
    const started = performance.now();
    await expect(run).rejects.toThrow('enough');
    expect(performance.now() - started).toBeLessThan(10_000);
    expect((await parallel.run(photos(3))).fc.dims).toEqual([3, 10]);
    await expect(parallel.run(photos(3), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
  });

  it('streams batches in order, as many at once as keep the devices busy', async () => {
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    let taken = 0;
    let given = 0;
    let most = 0;
    const batches = function* (): Generator<Tensor> {
      for (let i = 1; i <= 30; i++) {
        most = Math.max(most, ++taken - given);
        yield rowsOf(i);
      }
    };
    for await (const { y } of parallel.map(batches())) {
      given++;
      expect(y.dims).toEqual([given, 2]);
    }
    expect(given).toBe(30);
    expect(most).toBeLessThanOrEqual(5);
    await expect(drain(parallel)).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
    });
  });

  it('is not changed by what becomes of the options and the request', async () => {
    const devices: ('cpu:0' | 'cpu:1')[] = ['cpu:0', 'cpu:1'];
    const request: Record<string, string> = { y: 'out' };
    const split = [1, 1];
    const session = { extra: { session: { intra_op: { allow_spinning: '0' } } } };
    const options = { devices, parallel: { split }, session, isolation: 'thread' as const };
    const creating = createFeatureExtractor(doubling(), request, options);
    devices.length = 0;
    request['y'] = 'other';
    split[0] = 1000;
    session.extra.session.intra_op.allow_spinning = 'nonsense';
    const parallel = keep(await creating);
    expect(parallel.rowsPerDevice(4).map(({ rows }) => rows)).toEqual([2, 2]);
    expect(Object.keys(await parallel.run(rowsOf(4)))).toEqual(['out']);
  });

  it('refuses calls after it was closed, and closing twice is one', async () => {
    const extractor = keep(await createFeatureExtractor(doubling(), ['y']));
    const parallel = await DataParallel.create(extractor, { devices: TWO });
    const last = parallel.run(rowsOf(3));
    await Promise.all([parallel.close(), parallel.close()]);
    expect((await last).y.dims).toEqual([3, 2]);
    await expect(parallel.run(rowsOf(3))).rejects.toMatchObject({
      code: 'REPLICA_FAILED',
      cause: { code: 'CLOSED' },
    });
    // Its module is not its own to close.
    expect((await extractor.run(rowsOf(1))).y.dims).toEqual([1, 2]);
    const own = await createFeatureExtractor(doubling(), ['y'], { devices: TWO });
    await own.close();
    await expect(own.module.run(rowsOf(1))).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it.each([
    ['no device', { devices: [] }],
    ['a device and devices', { device: 'cpu', devices: TWO }],
    ['an unknown split', { devices: TWO, parallel: { split: 'even' } }],
    ['a weight too few', { devices: TWO, parallel: { split: [1] } }],
    ['an unknown option', { devices: TWO, parallel: { output: 0 } }],
    ['a split without devices', { parallel: { split: 'chunk' } }],
    ['no isolation', { isolation: 'container' }],
    ['no sessions', { devices: TWO, parallel: { sessionsPerDevice: 0 } }],
  ])('refuses %s', async (_what, options) => {
    await expect(createFeatureExtractor(doubling(), ['y'], options as object)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});

async function drain(parallel: DataParallel): Promise<void> {
  for await (const result of parallel.map([rowsOf(1), rowsOf(1, 3)])) void result;
}

describe('createFeatureExtractor of a data-parallel model', () => {
  it('resolves against the source model, on the same devices', async () => {
    const extractor = keep(await createFeatureExtractor(tinyResNet(), { layer1: 'early' }));
    const parallel = keep(await DataParallel.create(extractor, { devices: TWO, split: 'balanced' }));
    const later = keep(await createFeatureExtractor(parallel, { layer4: 'late' }));
    expect(later).toBeInstanceOf(DataParallel);
    expect(later.devices).toEqual(['cpu:0', 'cpu:1']);
    const other = keep(
      await DataParallel.create(keep(await createFeatureExtractor(tinyResNet(), { layer4: 'late' })), {
        devices: TWO,
        split: 'balanced',
      }),
    );
    expect(await later.run(photos(5))).toEqual(await other.run(photos(5)));
  });

  it('can be put on another device', async () => {
    const parallel = keep(await createFeatureExtractor(doubling(), ['y'], { devices: TWO }));
    const devices = ['cpu:2'] as const;
    expect(keep(await createFeatureExtractor(parallel, ['y'], { devices })).devices).toEqual(devices);
  });
});

describe('two extractors of different weights', () => {
  it('share nothing: an ensemble on two lanes', async () => {
    const of = (weight: number): Promise<FeatureExtractor<'y'>> =>
      createFeatureExtractor(
        modelBytes({
          inputs: [{ name: 'x', dims: ['n', 2] }],
          outputs: ['y'],
          nodes: [{ op: 'Mul', inputs: ['x', 'w'], outputs: ['y'] }],
          initializers: { w: [weight] },
        }),
        ['y'] as const,
        { device: 'cpu' },
      );
    const [zero, two] = await Promise.all([of(0), of(2)]);
    keep(zero);
    keep(two);
    const [a, b] = await Promise.all([zero.run(rowsOf(2)), two.run(rowsOf(2))]);
    expect(a.y.data).toEqual(Float32Array.of(0, 0, 0, 0));
    expect(b.y.data).toEqual(Float32Array.of(0, 2, 4, 6));
  });
});

describe('lanes in processes', () => {
  const options = { devices: TWO, isolation: 'process' } as const;
  const PRODUCTS = 25;

  it('give the same as threads', async () => {
    const parallel = keep(await createFeatureExtractor(tinyResNet(), ['layer4', 'fc'], options));
    const threads = keep(await createFeatureExtractor(tinyResNet(), ['layer4', 'fc'], { devices: TWO }));
    expect(await parallel.run(photos(5))).toEqual(await threads.run(photos(5)));
    const pids = parallel.replicas.flatMap((replica) => replica.pids);
    expect(new Set([...pids, process.pid]).size).toBe(3);
  });

  /** Adds nothing to its input, and takes a good while for it. */
  const slow = (): Uint8Array => {
    const products = Array.from({ length: PRODUCTS }, (_, i) => ({
      op: 'MatMul',
      inputs: [`m${i}`, 'm0'],
      outputs: [`m${i + 1}`],
    }));
    return modelBytes({
      inputs: [{ name: 'x', dims: ['n', 2] }],
      outputs: [{ name: 'y', dims: ['n', 2] }],
      nodes: [
        { op: 'ConstantOfShape', inputs: ['side'], outputs: ['m0'] },
        ...products,
        { op: 'ReduceSum', inputs: [`m${PRODUCTS}`], outputs: ['sum'], ints: { keepdims: 0 } },
        { op: 'Add', inputs: ['x', 'sum'], outputs: ['y'] },
      ],
      initializers: { side: { dims: [2], values: [1024, 1024], elemType: 'int64' } },
    });
  };

  it('that die fail their part only, and are opened again', async () => {
    const session = { graphOptimizationLevel: 'disabled' } as const;
    const parallel = keep(await createFeatureExtractor(slow(), ['y'], { ...options, session }));
    const [pid] = parallel.replicas[1]!.pids;
    const run = parallel.run(rowsOf(4));
    setTimeout(() => process.kill(pid!, 'SIGKILL'), 50);
    await expect(run).rejects.toMatchObject({
      code: 'REPLICA_FAILED',
      details: { replica: 1, device: 'cpu:1' },
      cause: { code: 'LANE_DIED', details: { device: 'cpu:1', reason: 'its process ended (SIGKILL)' } },
      errors: [],
    });
    expect((await parallel.run(rowsOf(4))).y).toEqual(rowsOf(4));
    expect(parallel.replicas[1]).toMatchObject({ state: 'ready', restarts: 1, failures: 1 });
    expect(parallel.replicas[1]!.pids[0]).not.toBe(pid);
    expect(parallel.replicas[0]).toMatchObject({ failures: 0, restarts: 0 });
  });

  it('that die are left out, if so wished', async () => {
    const parallel = keep(
      await createFeatureExtractor(doubling(), ['y'], { ...options, parallel: { onLaneDeath: 'remove' } }),
    );
    const kill = async (replica: number): Promise<void> => {
      process.kill(parallel.replicas[replica]!.pids[0]!, 'SIGKILL');
      while (parallel.replicas[replica]!.state === 'ready')
        await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await kill(0);
    expect((await parallel.run(rowsOf(4))).y.dims).toEqual([4, 2]);
    expect(parallel.replicas.map(({ runs }) => runs)).toEqual([0, 1]);
    await kill(1);
    await expect(parallel.run(rowsOf(4))).rejects.toMatchObject({
      code: 'REPLICA_FAILED',
      cause: { code: 'LANE_DIED' },
    });
  });
});

describe('feeds of any dtype', () => {
  it('are split and joined', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n'], elemType: 8 }],
      outputs: [{ name: 'y', dims: ['n'], elemType: 8 }],
      nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
    };
    const parallel = keep(
      await createFeatureExtractor(modelBytes(spec), ['y'], { devices: TWO, outputDtype: 'keep' }),
    );
    const data = ['a', 'b', 'c', 'ä', ''];
    const dtype: DType = 'string';
    expect((await parallel.run({ dtype, dims: [5], data })).y).toEqual({ dtype, dims: [5], data });
  });
});

describe('a long chain', () => {
  it('runs on two lanes as on one', async () => {
    const bytes = modelBytes(chain(50));
    const extractor = keep(await createFeatureExtractor(bytes, ['t50']));
    const parallel = keep(await DataParallel.create(extractor, { devices: TWO }));
    const x: Tensor = { dtype: 'float32', dims: [5], data: Float32Array.of(1, -2, 3, -4, 5) };
    expect(await parallel.run(x)).toEqual(await extractor.run(x));
  });
});
