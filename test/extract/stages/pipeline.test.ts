import { join } from 'node:path';
import { createFeatureExtractor, createTransform, embedFolder, embedImages, type Tensor } from 'onnx-tapir';
import { Pipeline } from 'onnx-tapir/stages';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { seededImages } from '../../support/exports.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';
import { readNpy } from '../../support/npy.js';
import { cleanUpServices, photo, postImage, serve, type EmbedReply } from '../../support/service.js';
import { stagesModel } from '../../support/stages.js';

const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
afterAll(() => vi.restoreAllMocks());

const scratch = scratchFolder();
cleanUpServices();
const TWO = { devices: ['cpu:0', 'cpu:1'] } as const;
const EXACT = { graphOptimizationLevel: 'disabled' } as const;

function images(rows: number, size = 64): Tensor {
  const dims = [rows, 3, size, size];
  return { dtype: 'float32', dims, data: seededImages('pipeline', dims) };
}

async function wholeOf(model: Uint8Array, nodes: Record<string, string>, input: Tensor) {
  const extractor = await createFeatureExtractor(model, nodes, { session: EXACT });
  const result = await extractor.run(input);
  await extractor.close();
  return result;
}

describe('Pipeline', () => {
  it('gives the bits of the whole model, rows in order, over two and three stages', async () => {
    const nodes = { layer2: 'early', avgpool: 'pooled' };
    const input = images(13);
    const whole = await wholeOf(tinyResNet(), nodes, input);
    for (const devices of [
      ['cpu:0', 'cpu:1'],
      ['cpu:0', 'cpu:1', 'cpu:2'],
    ]) {
      await using pipeline = await Pipeline.create(tinyResNet(), nodes, {
        devices: devices as ['cpu:0'],
        microBatch: 2,
        session: EXACT,
      });
      expect(pipeline.device).toBe(devices.join(' → '));
      expect(pipeline.stages.map((stage) => stage.devices)).toEqual(devices.map((device) => [device]));
      const result = await pipeline.run(input);
      expect(Object.keys(result)).toEqual(['early', 'pooled']);
      expect(result.early).toEqual(whole['early']);
      expect(result.pooled).toEqual(whole['pooled']);
    }
  });

  it('cuts where it is told to, and adds the parts that are asked for', async () => {
    const options = { pool: 'avg', l2Normalize: true, input: 'image-uint8' } as const;
    await using pipeline = await Pipeline.create(
      tinyResNet(),
      { layer4: 'vector' },
      { ...TWO, cuts: ['layer2'], session: EXACT, ...options },
    );
    await using single = await createFeatureExtractor(
      tinyResNet(),
      { layer4: 'vector' },
      { session: EXACT, ...options },
    );
    expect(pipeline.inputs).toEqual(single.inputs);
    expect(pipeline.outputs).toEqual(single.outputs);
    const data = new Uint8Array(3 * 64 * 64 * 3).map((_, i) => (i * 31) % 251);
    const input = { dtype: 'uint8', dims: [3, 64, 64, 3], data } as const;
    expect((await pipeline.run(input)).vector).toEqual((await single.run(input)).vector);
  });

  it('hands on inputs that only a late stage reads, and outputs that are read on', async () => {
    const spec: GraphSpec = {
      inputs: ['x', 'z'],
      outputs: ['y'],
      nodes: [
        { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'Neg', name: 'second', inputs: ['a'], outputs: ['b'] },
        { op: 'Add', name: 'third', inputs: ['b', 'z'], outputs: ['c'] },
        { op: 'Add', inputs: ['c', 'a'], outputs: ['y'] },
      ],
    };
    await using pipeline = await Pipeline.create(modelBytes(spec), ['first', 'y'], {
      devices: ['cpu:0', 'cpu:1', 'cpu:2'],
      cuts: ['second', 'third'],
    });
    const vector = (...values: number[]): Tensor => ({
      dtype: 'float32',
      dims: [values.length],
      data: Float32Array.from(values),
    });
    const x = vector(-1, 2, 3);
    const result = await pipeline.run({ x, z: vector(10, 20, 30) });
    expect([...(result.first.data as Float32Array)]).toEqual([0, 2, 3]);
    expect([...(result.y.data as Float32Array)]).toEqual([10, 20, 30]);
    expect([...(x.data as Float32Array)]).toEqual([-1, 2, 3]);
  });

  it('maps many batches in order, and runs pipelines side by side', async () => {
    await using pipeline = await Pipeline.create(
      tinyResNet(),
      { fc: 'logits' },
      {
        devices: [
          ['cpu:0', 'cpu:1'],
          ['cpu:2', 'cpu:3'],
        ],
        session: EXACT,
      },
    );
    expect(pipeline.stages.map(({ devices }) => devices)).toEqual([
      ['cpu:0', 'cpu:2'],
      ['cpu:1', 'cpu:3'],
    ]);
    const batches = Array.from({ length: 9 }, (_, i): Tensor => ({
      dtype: 'float32',
      dims: [1, 3, 64, 64],
      data: new Float32Array(3 * 64 * 64).fill(i / 9),
    }));
    const seen: unknown[] = [];
    for await (const { logits } of pipeline.map(batches)) seen.push(logits);
    const whole = [];
    for (const batch of batches) whole.push((await wholeOf(tinyResNet(), { fc: 'logits' }, batch))['logits']);
    expect(seen).toEqual(whole);
  });

  it('names the stage and the device of a failure', async () => {
    // The second stage reads an element that a table does not have.
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: [],
      initializers: { table: [1, 2, 3, 4] },
      nodes: [
        { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'Cast', inputs: ['a'], outputs: ['at'], ints: { to: 7 } },
        { op: 'Gather', inputs: ['table', 'at'], outputs: ['y'] },
      ],
    };
    await using pipeline = await Pipeline.create(modelBytes(spec), ['y'], { ...TWO, cuts: ['first'] });
    const x = { dtype: 'float32', dims: [1], data: Float32Array.of(1000) } as const;
    await expect(pipeline.run(x)).rejects.toMatchObject({
      code: 'STAGE_FAILED',
      details: { stage: 1, device: 'cpu:1' },
      cause: { code: 'RUN_FAILED' },
    });
  });

  it('fails the batch when a stage dies, says which, and goes on with the next batch', async () => {
    await using pipeline = await Pipeline.create(
      tinyResNet(),
      { fc: 'logits' },
      { ...TWO, isolation: 'process', session: EXACT },
    );
    const before = await pipeline.run(images(2));
    const [pid] = pipeline.stages[1]!.pids;
    process.kill(pid!, 'SIGSTOP');
    const running = pipeline.run(images(2));
    setTimeout(() => process.kill(pid!, 'SIGKILL'), 50);
    await expect(running).rejects.toMatchObject({
      code: 'STAGE_FAILED',
      details: { stage: 1, device: 'cpu:1' },
      cause: { code: 'LANE_DIED' },
    });
    expect(await pipeline.run(images(2))).toEqual(before);
  });

  it('stops when the signal fires, and refuses to run after it was closed', async () => {
    const pipeline = await Pipeline.create(tinyResNet(), { fc: 'logits' }, TWO);
    await expect(pipeline.run(images(8), { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow(
      'enough',
    );
    const controller = new AbortController();
    const running = pipeline.run(images(200), { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('later')), 5);
    await expect(running).rejects.toThrow('later');
    await pipeline.close();
    await pipeline.close();
    await expect(pipeline.run(images(1))).rejects.toMatchObject({
      code: expect.stringMatching(/CLOSED|STAGE_FAILED/),
    });
  });

  it('shares nothing that can change: weights belong to stages, and options are read once', async () => {
    const devices = ['cpu:0', 'cpu:1'];
    const nodes: Record<string, string> = { fc: 'logits' };
    const options = { devices, cuts: ['layer2'], session: { ...EXACT } };
    const pipeline = await Pipeline.create(tinyResNet(), nodes, options as never);
    const before = await pipeline.run(images(3));
    devices.reverse();
    options.cuts[0] = 'layer1';
    delete nodes['fc'];
    Object.assign(options.session, { graphOptimizationLevel: 'nonsense' });
    expect(await pipeline.run(images(3))).toEqual(before);
    // Another model with other weights, open beside it, changes nothing either.
    const other = await Pipeline.create(stagesModel('resnet'), ['output'], TWO);
    await other.run(images(3, 32));
    expect(await pipeline.run(images(3))).toEqual(before);
    await Promise.all([pipeline.close(), other.close()]);
  });

  it('embeds a folder and serves like any extractor', async () => {
    const transform = createTransform({ resize: 64, crop: 64 });
    const photos = projectPath('examples/photos');
    const options = { devices: ['cpu:0', 'cpu:1'], session: EXACT } as const;
    await using pipeline = await Pipeline.create(tinyResNet(), { avgpool: 'vector' }, options);
    await using single = await createFeatureExtractor(
      tinyResNet(),
      { avgpool: 'vector' },
      { session: EXACT },
    );
    const out = join(scratch, 'vectors');
    const { manifest } = await embedFolder(pipeline, photos, { out, transform, batch: 5 });
    expect(manifest.counts.ok).toBeGreaterThan(10);
    const written = readNpy(join(out, 'features/vector/vector-00000.npy'));
    const expected: number[] = [];
    for await (const { features } of embedImages(single, photos, { transform, batch: 5 }))
      if (features) expected.push(...(features.vector.data as Float32Array));
    expect([...(written.data as Float32Array)]).toEqual(expected);
    const { service, url } = await serve(pipeline);
    const response = await postImage(url, photo('city/city-0.jpg'));
    const { results } = (await response.json()) as EmbedReply;
    await service.close();
    expect([...Float32Array.from(results[0]!.features!['vector']!)]).toEqual(expected.slice(0, 128));
  });

  it('says when replicas would be faster', async () => {
    const pipeline = await Pipeline.create(tinyResNet(), { fc: 'logits' }, TWO);
    await pipeline.close();
    expect(pipeline.advice).toContain('DataParallel');
    expect(emitWarning).toHaveBeenCalledWith(pipeline.advice, { code: 'TAPIR_PIPELINE_UNNEEDED' });
  });

  it('runs a model with a fixed batch batch by batch', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 3] }],
      outputs: [{ name: 'y', dims: [2, 3] }],
      nodes: [
        { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'Neg', inputs: ['a'], outputs: ['y'] },
      ],
    };
    await using pipeline = await Pipeline.create(modelBytes(spec), ['y'], TWO);
    const data = Float32Array.from({ length: 18 }, (_, i) => i);
    const { y } = await pipeline.run({ dtype: 'float32', dims: [6, 3], data });
    expect(y.data).toEqual(data.map((value) => -value));
    await expect(pipeline.run({ dtype: 'float32', dims: [3, 3], data: data.slice(9) })).rejects.toMatchObject(
      {
        code: 'BATCH_FIXED',
      },
    );
  });

  it.each([
    [{ devices: [] }],
    [{ devices: ['cpu:0', 'cpu:0'] }],
    [{ devices: [['cpu:0', 'cpu:1'], ['cpu:2']] }],
    [{ ...TWO, cuts: ['layer1', 'layer2'] }],
    [{ ...TWO, microBatch: -1 }],
    [{ ...TWO, stages: 2 }],
    [{}],
  ])('refuses %j', async (options) => {
    await expect(Pipeline.create(tinyResNet(), { fc: 'logits' }, options as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});
