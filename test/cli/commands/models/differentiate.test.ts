/** `tapir models differentiate`: writes a file that opens, and says what it refuses. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, tinyResNet());

describe('tapir models differentiate', () => {
  it('writes gradients by name', async () => {
    const out = join(scratch, 'gradients.onnx');
    const request = ['--of', 'fc', '--wrt', 'input', '--wrt', 'fc.weight', '--return', 'layer4', '-o', out];
    const ended = await runTapir(['models', 'differentiate', model, ...request]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(/gradient\/fc\.weight +fc\.weight/);
    expect(ended.stdout).toContain('inputs: gradient/fc, input');
    const written = await openModel(out);
    expect(written.outputs.map(({ name }) => name)).toEqual([
      'layer4',
      'gradient/input',
      'gradient/fc.weight',
    ]);
  });

  it('computes results between named values again', async () => {
    const out = join(scratch, 'again.onnx');
    const request = [
      '--of',
      'fc',
      '--wrt',
      'conv1.weight',
      '--set',
      'recompute=layer1',
      '--set',
      'recompute=layer3',
    ];
    const ended = await runTapir(['models', 'differentiate', model, ...request, '-o', out, '--json']);
    const { added } = JSON.parse(ended.stdout) as { added: { nodes: string[] } };
    expect(added.nodes.some((name) => name.startsWith('tapir/recompute/'))).toBe(true);
  });

  it('prints the plan as JSON, and refuses unknown names', async () => {
    const out = join(scratch, 'other.onnx');
    const ended = await runTapir([
      'models',
      'differentiate',
      model,
      '--of',
      'fc',
      '--wrt',
      'layer4',
      '-o',
      out,
      '--json',
    ]);
    expect(JSON.parse(ended.stdout)).toMatchObject({ added: { inputs: ['gradient/fc'] } });
    const unknown = await runTapir([
      'models',
      'differentiate',
      model,
      '--of',
      'fc',
      '--wrt',
      'nothing',
      '-o',
      out,
    ]);
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('NAME_NOT_FOUND') });
  });
});
