/** `tapir create`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createModel, openModel, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();

describe('tapir create', () => {
  it('lists networks', async () => {
    const { code, stdout } = await runTapir(['create', '--list', 'resnet1*']);
    expect(code).toBe(0);
    expect(stdout).toBe('resnet101\nresnet152\nresnet18\n');
    expect((await runTapir(['create', '--list'])).stdout).toContain('\nresnet50\n');
  });

  it('writes the model that createModel gives', async () => {
    const out = join(scratch, 'resnet18.onnx');
    const run = await runTapir(['create', 'resnet18', '--num-classes', '5', '--seed', '3', '-o', out]);
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('untrained') });
    expect(run.stdout).toContain(`written: ${out} (`);
    const created = await createModel('resnet18', { numClasses: 5, seed: 3 });
    const [a, b] = [await openModel(out), created].map((model) => pruneModel(model, ['output']));
    expect(Buffer.compare(await (await a!).bytes(), await (await b!).bytes())).toBe(0);
    expect(await runTapir(['create', 'resnet18', '-o', out])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('exists already'),
    });
  });

  it.each([
    [['create', 'resnet18'], 2, '--out'],
    [['create', '-o', 'x.onnx'], 2, '--list'],
    [['create', 'resnet17', '-o', 'x.onnx'], 2, 'nearest: resnet18'],
    [['create', 'resnet18', '--seed', 'x', '-o', 'x.onnx'], 2, 'whole number'],
    [['create', 'resnet18', '--weights', 'none.pth', '-o', 'x.onnx'], 3, 'none.pth'],
  ])('%j is refused', async (args, code, message) => {
    const run = await runTapir(args, { cwd: scratch });
    expect(run).toMatchObject({ code, stdout: '' });
    expect(run.stderr).toContain(message);
    expect(existsSync(join(scratch, 'x.onnx'))).toBe(false);
  });
});
