/** A fixed batch made dynamic: verified by running it, or left as it is with the reason. */
import {
  createFeatureExtractor,
  openModel,
  pruneModel,
  verifyModel,
  type FeatureExtractor,
} from 'onnx-tapir';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((extractor) => extractor.close())));

function keep<Key extends string>(extractor: FeatureExtractor<Key>): FeatureExtractor<Key> {
  open.push(extractor);
  return extractor;
}

/**
 * Tokens of a small ViT: patches by a Reshape that holds the batch, and a class token for that batch in front.
 *
 * @param stated - What the file says of the batch.
 */
function vit(batch: number, stated: number | string = batch): Uint8Array {
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: [stated, 3, 4, 4] }],
    outputs: [{ name: 'y', dims: [stated, 5, 12] }],
    initializers: {
      shape: { dims: [3], values: [batch, 12, 4], elemType: 'int64' },
      token: { dims: [batch, 1, 12], values: Array.from({ length: batch * 12 }, (_, i) => Math.cos(i % 12)) },
    },
    nodes: [
      { op: 'Reshape', name: 'patches', inputs: ['x', 'shape'], outputs: ['p'] },
      { op: 'Transpose', inputs: ['p'], outputs: ['t'], ints: { perm: [0, 2, 1] } },
      { op: 'Concat', name: 'class', inputs: ['token', 't'], outputs: ['y'], ints: { axis: 1 } },
    ],
  };
  return modelBytes(spec);
}

const images = (rows: number): { dtype: string; dims: number[]; data: Float32Array } => ({
  dtype: 'float32',
  dims: [rows, 3, 4, 4],
  data: Float32Array.from({ length: rows * 48 }, (_, i) => Math.sin(i)),
});

describe.each([1, 4])("batch: 'dynamic', exported for %i", (batch) => {
  it('takes any number of rows, with the values of runs as exported', async () => {
    const dynamic = keep(await createFeatureExtractor(vit(batch), ['y'], { batch: 'dynamic' }));
    const fixed = keep(await createFeatureExtractor(vit(batch), ['y']));
    expect(dynamic.model.plan.batch).toMatchObject({ mode: 'dynamic', exported: batch, maxRelative: 0 });
    expect(dynamic.inputs[0]?.dims).toEqual(['batch', 3, 4, 4]);
    expect(dynamic.outputs[0]?.dims).toEqual(['batch', 5, 12]);
    const { y } = await dynamic.run(images(3));
    const expected = await fixed.run(images(4));
    expect(y.dims).toEqual([3, 5, 12]);
    expect(y.data).toEqual(expected.y.data.slice(0, 3 * 60));
    await expect(fixed.run(images(batch === 1 ? 0 : 3))).rejects.toMatchObject({
      code: expect.stringMatching(/BATCH_FIXED|INPUT_MISMATCH|RUN_FAILED/) as string,
    });
  });

  it('is written so, and verified against the full graph', async () => {
    const pruned = await pruneModel(vit(batch), { y: 'tokens' }, { batch: 'dynamic', pool: 'cls' });
    expect((await verifyModel(pruned, { rows: 3 })).maxRelative).toBeLessThan(1e-6);
    const written = await openModel(await pruned.bytes());
    expect(written.inputs[0]?.dims).toEqual(['batch', 3, 4, 4]);
    expect(written.outputs[0]).toEqual({ name: 'tokens', dtype: 'float32', dims: ['batch', 12] });
  });
});

/** Two halves of each row; one row per batch, whatever the file says. No run fails. */
const flattened: GraphSpec = {
  inputs: [{ name: 'x', dims: ['batch', 2, 2] }],
  outputs: [{ name: 'y', dims: ['batch', 4] }],
  initializers: { shape: { dims: [2], values: [1, -1], elemType: 'int64' } },
  nodes: [{ op: 'Reshape', inputs: ['x', 'shape'], outputs: ['y'] }],
};

describe('a batch of 1 behind an open label', () => {
  it('is rewritten as an honest one is, and verified on several rows', async () => {
    const pruned = await pruneModel(vit(1, 'batch'), ['y'], { batch: 'dynamic' });
    expect(pruned.plan.batch).toMatchObject({ mode: 'dynamic', exported: 1, maxRelative: 0 });
    expect(await verifyModel(pruned, { rows: 3 })).toMatchObject({
      rows: 3,
      rowsRefused: null,
      isEqual: true,
    });
    const dynamic = keep(await createFeatureExtractor(await pruned.bytes(), ['y']));
    const fixed = keep(await createFeatureExtractor(vit(1), ['y']));
    expect((await dynamic.run(images(3))).y).toEqual((await fixed.run(images(3))).y);
  });

  it('is rewritten where no run fails, too: the outputs lack rows', async () => {
    const pruned = await pruneModel(modelBytes(flattened), ['y'], { batch: 'dynamic' });
    expect(pruned.plan.batch).toMatchObject({ mode: 'dynamic', exported: 1 });
  });

  it('is said by verifyModel, which ran one row', async () => {
    const report = await verifyModel(await pruneModel(vit(1, 'batch'), ['y']));
    expect(report).toMatchObject({ rows: 1, isEqual: true });
    expect(report.rowsRefused).toContain('cannot be reshaped');
  });

  it('runs row by row without the rewrite, and says so once', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    try {
      const baked = keep(await createFeatureExtractor(vit(1, 'batch'), ['y']));
      const fixed = keep(await createFeatureExtractor(vit(1), ['y']));
      const expected = (await fixed.run(images(3))).y;
      expect((await baked.run(images(3))).y).toEqual(expected);
      expect((await baked.run(images(3))).y).toEqual(expected);
      expect(warn.mock.calls).toEqual([
        [expect.stringContaining('--set dynamicBatch=true'), { code: 'TAPIR_BATCH_BAKED' }],
      ]);
    } finally {
      warn.mockRestore();
    }
  });

  it('leaves an open batch that works as it is', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['batch', 3] }],
      outputs: [{ name: 'y', dims: [1, 3] }],
      nodes: [{ op: 'ReduceMean', inputs: ['x'], outputs: ['y'], ints: { axes: [0], keepdims: 1 } }],
    };
    const pruned = await pruneModel(modelBytes(spec), ['y'], { batch: 'dynamic' });
    expect(pruned.plan.batch).toEqual({ mode: 'as-exported' });
    expect(await verifyModel(pruned)).toMatchObject({ rows: 2, rowsRefused: null });
  });
});

describe("batch: 'dynamic' where it cannot be", () => {
  it('leaves a graph that mixes samples as it is, says why, and runs it batch by batch', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 3] }],
      outputs: [{ name: 'y', dims: [2, 3] }],
      nodes: [
        { op: 'ReduceMean', name: 'mix', inputs: ['x'], outputs: ['m'], ints: { axes: [0], keepdims: 1 } },
        { op: 'Sub', inputs: ['x', 'm'], outputs: ['y'] },
      ],
    };
    const extractor = keep(await createFeatureExtractor(modelBytes(spec), ['y'], { batch: 'dynamic' }));
    expect(extractor.model.plan.batch).toMatchObject({
      mode: 'per-sample',
      exported: 2,
      reason: expect.stringContaining('mix') as string,
    });
    const { y } = await extractor.run({
      dtype: 'float32',
      dims: [4, 3],
      data: Float32Array.from({ length: 12 }, (_, i) => i),
    });
    expect([...(y.data as Float32Array)].slice(0, 3)).toEqual([-1.5, -1.5, -1.5]);
  });

  it('finds by running it that a batch is mixed where the operators do not tell', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [1, 2, 2] }],
      outputs: [{ name: 'y', dims: [1, 2, 2] }],
      initializers: {
        flat: { dims: [2], values: [1, 4], elemType: 'int64' },
        back: { dims: [3], values: [1, 2, 2], elemType: 'int64' },
      },
      nodes: [
        { op: 'Reshape', inputs: ['x', 'flat'], outputs: ['f'] },
        // Of one row the largest along axis 0 is the row itself; of several it is not.
        { op: 'Hardmax', inputs: ['f'], outputs: ['h'], ints: { axis: 0 } },
        { op: 'Mul', inputs: ['f', 'h'], outputs: ['g'] },
        { op: 'Reshape', inputs: ['g', 'back'], outputs: ['y'] },
      ],
    };
    const pruned = await pruneModel(modelBytes(spec), ['y'], { batch: 'dynamic' });
    expect(pruned.plan.batch?.mode).toBe('per-sample');
  });

  it('does not write sizes that are open into the graph', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 'n'] }],
      outputs: [{ name: 'y', dims: ['m', 2] }],
      initializers: { shape: { dims: [2], values: [2, -1], elemType: 'int64' } },
      nodes: [
        { op: 'Reshape', inputs: ['x', 'shape'], outputs: ['r'] },
        { op: 'Relu', inputs: ['r'], outputs: ['y'] },
      ],
    };
    const { plan } = await pruneModel(modelBytes(spec), ['tensor:r'], { batch: 'dynamic' });
    expect(plan.batch).toMatchObject({ mode: 'per-sample' });
  });

  it('leaves a dynamic batch alone', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3] }],
      outputs: ['y'],
      nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
    };
    const pruned = await pruneModel(modelBytes(spec), ['y'], { batch: 'dynamic' });
    expect(pruned.plan.batch).toEqual({ mode: 'as-exported' });
    expect((await pruneModel(modelBytes(spec), ['y'])).plan.batch).toBeNull();
  });
});
