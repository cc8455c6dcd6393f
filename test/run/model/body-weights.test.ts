/** Weights inside the bodies of an If count in costs and stages, and `tapir models params` says that it does not list them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { profileModel, splitModel } from 'onnx-tapir/stages';
import { describeModel } from '../../../src/products/pages/explore/structure/describe-model.js';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { scratchFolder } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';
import { runTapir } from '../../support/run.js';

const body = (name: string): GraphSpec => ({
  inputs: [],
  outputs: [{ name, dims: ['n', 4] }],
  initializers: { [`${name}.w`]: { dims: [4, 4], values: Array.from({ length: 16 }, (_, i) => i / 16) } },
  nodes: [
    { op: 'Constant', outputs: [`${name}.b`], tensors: { value: { dims: [4], values: [1, 2, 3, 4] } } },
    { op: 'MatMul', inputs: ['a', `${name}.w`], outputs: [`${name}.p`] },
    { op: 'Add', inputs: [`${name}.p`, `${name}.b`], outputs: [name] },
  ],
});

const file = modelBytes({
  inputs: [
    { name: 'x', dims: ['n', 4] },
    { name: 'yes', dims: [], elemType: 9 },
  ],
  outputs: [{ name: 'y', dims: ['n', 4] }],
  initializers: {
    w: { dims: [4, 4], values: Array.from({ length: 16 }, (_, i) => -i / 16) },
  },
  nodes: [
    { op: 'MatMul', inputs: ['x', 'w'], outputs: ['a'], name: 'first' },
    {
      op: 'If',
      inputs: ['yes'],
      outputs: ['y'],
      name: 'choice',
      bodies: { then_branch: body('yes_y'), else_branch: body('no_y') },
    },
  ],
});

it('counts what the bodies of an If hold, and says what params does not list', async () => {
  const { total, nodes } = await profileModel(file);
  expect(nodes.map(({ constants, weightBytes }) => [constants, weightBytes])).toEqual([
    [0, 64],
    [40, 160],
  ]);
  expect(total).toMatchObject({ parameters: 16, constants: 40, weightBytes: 224 });
  const { stages } = await splitModel(file, { cuts: ['a'] }, { by: 'parameters' });
  expect(stages.map(({ parameters, weightBytes }) => [parameters, weightBytes])).toEqual([
    [16, 64],
    [40, 160],
  ]);
  await expect(splitModel(file, { stages: 2 }, { memoryBytes: 150 })).rejects.toMatchObject({
    code: 'SPLIT_IMPOSSIBLE',
  });
  const page = describeModel(await openModel(file), 'model.onnx');
  expect(page.weights.reduce((sum, [, bytes]) => sum + bytes, 0)).toBe(224);
  const path = join(scratchFolder(), 'model.onnx');
  writeFileSync(path, file);
  const { stdout, stderr } = await runTapir(['models', 'params', path]);
  expect(stdout).toContain('16 parameters');
  expect(stderr).toMatch(/^note: 40 more numbers lie inside functions and the bodies of If/);
});
