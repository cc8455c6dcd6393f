/** `tapir nodes` of graphs that it can list and ONNX Runtime refuses. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { scratchFolder } from '../../support/fixtures.js';
import { modelBytes, type NodeSpec } from '../../support/graphs.js';
import { runTapir } from '../../support/run.js';

const file = join(scratchFolder(), 'broken.onnx');
const node = (name: string, op: string, output: string): NodeSpec => ({
  name,
  op,
  inputs: ['x'],
  outputs: [output],
});

it.each([
  [
    'two nodes of one name',
    [node('n', 'Relu', 'y'), node('n', 'Sigmoid', 'z')],
    'two nodes have the name "n"',
  ],
  [
    'a tensor that is defined twice',
    [node('n', 'Relu', 'y'), node('m', 'Sigmoid', 'y'), node('o', 'Tanh', 'z')],
    'tensor "y"',
  ],
])('says so: %s', async (_, nodes, flaw) => {
  writeFileSync(file, modelBytes({ inputs: ['x'], outputs: ['y', 'z'], nodes }));
  const { code, stderr, stdout } = await runTapir(['nodes', file]);
  expect(code).toBe(0);
  expect(stdout).toContain('Relu');
  expect(stderr).toContain(flaw);
});
