/** `tapir models load`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { exportedNetwork } from '../../../support/exports.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';
import { stateFixture } from '../../../support/states.js';

const scratch = scratchFolder();
const resnet = exportedNetwork('resnet', scratch);
const model = join(resnet.folder, 'resnet.dynamo.external.onnx');
const weights = join(resnet.folder, 'resnet.B.checkpoint.pth');

describe('tapir models load', () => {
  it('loads a checkpoint of DataParallel, with the weights inside or beside', async () => {
    for (const place of ['weights=inline', 'weights=repack']) {
      const out = join(scratch, `tuned${place}.onnx`);
      const run = await runTapir(['models', 'load', model, '--weights', weights, '-o', out, '--set', place]);
      expect(run).toMatchObject({
        code: 0,
        stdout: `written: ${out} (52 tensors loaded: 50 folded, 2 exact)\n`,
      });
      expect(run.stderr).toContain('note: "module." was removed from 62 keys');
      const tuned = await openModel(out);
      expect(tuned.namedParameters().length).toBeGreaterThan(40);
      expect(existsSync(`${out}.data`)).toBe(false); // All weights are new, and so inside.
    }
  });

  it('reports what it could not load', async () => {
    const missing = stateFixture('bad/missing_keys.safetensors', scratch);
    const out = join(scratch, 'part.onnx');
    const args = ['models', 'load', model, '--weights', missing, '-o', out, '--set', 'weights=inline'];
    expect(await runTapir(args)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('missing: fc.bias') as string,
    });
    expect(existsSync(out)).toBe(false);
    const run = await runTapir([...args, '--no-strict']);
    expect(run).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('missing: fc.bias, bn1.running_mean') as string,
    });
    const json = await runTapir([...args, '--no-strict', '--overwrite', '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      missing: ['fc.bias', 'bn1.running_mean'],
      unexpected: [],
    });
  });

  it('never replaces the model', async () => {
    const inside = join(resnet.folder, 'resnet.ts.onnx');
    const flags = ['--weights', weights, '-o', inside, '--overwrite'];
    const refused = await runTapir(['models', 'load', inside, ...flags]);
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain('[STATE_AMBIGUOUS]');
    const run = await runTapir(['models', 'load', inside, ...flags, '--set', 'epsilon=1e-5']);
    expect(run.stderr).toContain('it is the model that is read');
  });
});
