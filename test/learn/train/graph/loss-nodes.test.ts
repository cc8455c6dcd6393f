/** Losses as nodes: each form against its formula in float64, on old and new operator sets, under names that are free. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cutGraph } from '../../../../src/onnx/graph/rewrite/prune.js';
import { startRewrite } from '../../../../src/onnx/graph/rewrite/rewrite.js';
import { COSINE_EPSILON, withLoss, type LossForm } from '../../../../src/learn/train/graph/loss-nodes.js';
import { modelInternals } from '../../../../src/run/model/open/model-state.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { deriveRewritten } from '../../../../src/run/model/prune/derive-rewritten.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { openSession } from '../../../support/gradients.js';
import { modelBytes } from '../../../support/graphs.js';
import { floats } from '../../../support/linear-models.js';

const scratch = scratchFolder();
let files = 0;

/** y = −x with a loss after it. */
async function lossModel(form: LossForm, dims: readonly number[], opset = 17, name = 'y') {
  const bytes = modelBytes(
    {
      inputs: [{ name: 'x', dims }],
      outputs: [{ name, dims }],
      nodes: [{ op: 'Neg', inputs: ['x'], outputs: [name] }],
    },
    { opset },
  );
  const model = await openModel(bytes);
  const { graph } = modelInternals.of(model);
  const output = { request: name, key: name, value: graph.values.get(name)!, why: 'test' };
  const started = startRewrite(cutGraph(graph, { outputs: [output] }));
  const { rewrite, ...names } = withLoss(started, started.outputs[0]!, { dims, form });
  const path = join(scratch, `${files++}.onnx`);
  await (await deriveRewritten(model, rewrite, 'tensors')).save(path);
  return { ...names, run: await openSession(readFileSync(path)) };
}

const X = [0.5, -1, 2, 3, -0.25, 1];
const T = [1, 0, 0.5, -1, 0.75, 0.25];
const U = [1, 0.5, 2, 1, 3, 0.25];
const DIMS = [2, 3];
const sum = (term: (x: number, t: number, u: number) => number): number =>
  X.reduce((total, x, i) => total + term(-x, T[i]!, U[i]!), 0);
const rows = (values: readonly number[]): readonly (readonly number[])[] => [
  values.slice(0, 3),
  values.slice(3),
];
const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((s, value, i) => s + value * b[i]!, 0);

const FORMS: readonly (readonly [LossForm, number])[] = [
  [{ kind: 'linear' }, sum((x, t) => -t * x)],
  [{ kind: 'logistic' }, sum((x, t, u) => t * x + u * Math.log1p(Math.exp(-x)))],
  [{ kind: 'squared' }, sum((x, t) => (x - t) ** 2)],
  [{ kind: 'absolute' }, sum((x, t) => Math.abs(x - t))],
  ...[1, 0.5].map((scale): readonly [LossForm, number] => [
    { kind: 'smooth', beta: 1.25, scale },
    sum((x, t) => {
      const off = Math.abs(x - t);
      return scale * (off < 1.25 ? off ** 2 / 2.5 : off - 0.625);
    }),
  ]),
  [
    { kind: 'log-softmax' },
    rows(X).reduce((total, row, r) => {
      const norm = Math.log(row.reduce((s, x) => s + Math.exp(-x), 0));
      return total + row.reduce((s, x, k) => s - rows(T)[r]![k]! * (-x - norm), 0);
    }, 0),
  ],
  [
    { kind: 'cosine' },
    rows(X).reduce(
      (total, row, r) => total + 1 + dot(row, rows(T)[r]!) / Math.sqrt(dot(row, row) + COSINE_EPSILON),
      0,
    ),
  ],
];

describe('withLoss', () => {
  it.each(
    FORMS.flatMap(([form, value]) => [9, 13, 17].map((opset) => [form.kind, opset, form, value] as const)),
  )('%s, operator set %d', async (_, opset, form, value) => {
    const { run, loss, targets } = await lossModel(form, DIMS, opset);
    expect(targets).toHaveLength(form.kind === 'logistic' ? 2 : 1);
    const fed = targets.map((name, i) => [name, floats(DIMS, i === 0 ? T : U)]);
    const results = await run({ x: floats(DIMS, X), ...Object.fromEntries(fed) });
    expect(results[loss]!.dims).toEqual([]);
    expect((results[loss]!.data as Float32Array)[0]).toBeCloseTo(value, 5);
    expect(results['y']!.data).toEqual(
      floats(
        DIMS,
        X.map((x) => -x),
      ).data,
    );
  });

  it('predicts classes along axis 1, where there are some', async () => {
    for (const kind of ['log-softmax', 'linear'] as const) {
      const { run, predicted, targets } = await lossModel({ kind }, DIMS);
      const results = await run({ x: floats(DIMS, X), [targets[0]!]: floats(DIMS, T) });
      expect(results[predicted!]!.data).toEqual(BigInt64Array.of(1n, 1n));
    }
    expect((await lossModel({ kind: 'squared' }, DIMS)).predicted).toBeUndefined();
    expect((await lossModel({ kind: 'linear' }, [6])).predicted).toBeUndefined();
  });

  it('has classes at every position of a map', async () => {
    const dims = [1, 2, 3];
    const { run, loss, predicted, targets } = await lossModel({ kind: 'log-softmax' }, dims);
    const results = await run({ x: floats(dims, X), [targets[0]!]: floats(dims, [1, 0, 0, 0, 1, 1]) });
    const other = (a: number, b: number): number => Math.log(1 + Math.exp(b - a));
    const expected = other(-0.5, -3) + other(0.25, 1) + other(-1, -2);
    expect((results[loss]!.data as Float32Array)[0]).toBeCloseTo(expected, 5);
    expect(results[predicted!]).toMatchObject({ dims: [1, 3], data: BigInt64Array.of(0n, 0n, 1n) });
  });

  it('refuses classes of maps before operator set 13', async () => {
    await expect(lossModel({ kind: 'log-softmax' }, [1, 2, 3], 12)).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringContaining('needs operator set 13'),
    });
  });

  it('takes no name that the model has', async () => {
    const { targets, loss } = await lossModel({ kind: 'squared' }, DIMS, 17, 'tapir/loss/target');
    expect(targets).not.toContain('tapir/loss/target');
    expect(loss).not.toBe('tapir/loss/target');
  });
});
