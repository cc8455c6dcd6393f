/** `tapir models create`. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openModel, pruneModel, type Tensor } from 'onnx-tapir';
import { writeStateDict } from 'onnx-tapir/parameters';
import { createModel } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { sendFile, startServer } from '../../../support/file-server.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();

describe('tapir models create', () => {
  it('lists networks', async () => {
    const { code, stdout } = await runTapir(['models', 'create', '--list', 'resnet1*']);
    expect(code).toBe(0);
    expect(stdout).toBe('classification:\n  resnet101\n  resnet152\n  resnet18\n');
    const all = (await runTapir(['models', 'create', '--list'])).stdout;
    expect(all).toContain('\n  resnet50\n');
    expect(all).toContain('\nvideo:\n  mc3_18\n');
  });

  it('writes the model that createModel gives', async () => {
    const out = join(scratch, 'resnet18.onnx');
    const run = await runTapir([
      'models',
      'create',
      'resnet18',
      '--num-classes',
      '5',
      '--set',
      'seed=3',
      '-o',
      out,
    ]);
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('untrained') });
    expect(run.stdout).toContain(`written: ${out} (`);
    const created = await createModel('resnet18', { numClasses: 5, seed: 3 });
    const [a, b] = [await openModel(out), created].map((model) => pruneModel(model, ['output']));
    expect(Buffer.compare(await (await a!).bytes(), await (await b!).bytes())).toBe(0);
    expect(await runTapir(['models', 'create', 'resnet18', '-o', out])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('exists already'),
    });
  });

  it('says which classifier of the weights is replaced', async () => {
    const file = join(scratch, 'thousand.safetensors');
    const state = new Map<string, Tensor>();
    for (const parameter of (await createModel('squeezenet1_1')).namedParameters())
      state.set(parameter.name, await parameter.read());
    await writeStateDict(file, state);
    const run = (...flags: string[]): ReturnType<typeof runTapir> =>
      runTapir(['models', 'create', 'squeezenet1_1', '--weights', file, '-o', 'seven.onnx', ...flags], {
        cwd: scratch,
      });
    expect(await run('--num-classes', '7')).toMatchObject({
      code: 0,
      stderr: '"classifier.1" gets 7 outputs in place of 1000, and starts from scratch\n',
    });
    expect(await run('--overwrite')).toMatchObject({ code: 0, stderr: '' });
  });

  it('downloads weights once, and refuses a file that is not the one of its name', async () => {
    const state = new Map<string, Tensor>();
    const source = await createModel('squeezenet1_1', { seed: 5 });
    for (const parameter of source.namedParameters()) state.set(parameter.name, await parameter.read());
    await writeStateDict(join(scratch, 'weights.safetensors'), state);
    const bytes = readFileSync(join(scratch, 'weights.safetensors'));
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const out = join(scratch, 'squeezenet.onnx');
    const create = (address: string): ReturnType<typeof runTapir> =>
      runTapir(['models', 'create', 'squeezenet1_1', '--weights', address, '-o', out, '--overwrite'], {
        env: { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache') },
      });
    const digits = createHash('sha256').update(bytes).digest('hex').slice(0, 8);
    for (const file of [
      `net-${digits}.pth?token=1`,
      `net-${digits}.pth?token=1`,
      '%2e%2e/_a%20b.safetensors',
    ]) {
      expect(await create(`${server.url}/${file}`)).toMatchObject({ code: 0, stderr: '' });
      const parameter = (await openModel(out)).parameters()[0]!;
      expect(await parameter.read()).toEqual(await source.parameters()[0]!.read());
    }
    expect(server.requests).toHaveLength(2);
    expect(await create(`${server.url}/net-0123abcd.pth`)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('not 0123abcd') as string,
    });
    expect(await create('http://example.invalid/net.pth')).toMatchObject({
      stderr: expect.stringContaining('--allow-http') as string,
    });
  });

  it.each([
    [['models', 'create', 'resnet18'], 2, '--out'],
    [['models', 'create', '-o', 'x.onnx'], 2, '--list'],
    [['models', 'create', 'resnet17', '-o', 'x.onnx'], 2, 'nearest: resnet18'],
    [['models', 'create', 'resnet18', '--set', 'seed=x', '-o', 'x.onnx'], 2, '--set seed'],
    [['models', 'create', 'resnet18', '--weights', 'none.pth', '-o', 'x.onnx'], 3, 'none.pth'],
  ])('%j is refused', async (args, code, message) => {
    const run = await runTapir(args, { cwd: scratch });
    expect(run).toMatchObject({ code, stdout: '' });
    expect(run.stderr).toContain(message);
    expect(existsSync(join(scratch, 'x.onnx'))).toBe(false);
  });
});
