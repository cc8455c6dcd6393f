/** Commands that write and take photo files: what they give is what the ordinary model gives. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'net.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const PHOTO = projectPath('examples/photos/sea/sea-0.jpg');

const tapir = async (...flags: string[]): Promise<string> => {
  const ended = await runTapir(flags);
  expect(ended, `${flags.join(' ')}: ${ended.stderr}`).toMatchObject({ code: 0 });
  return ended.stdout;
};
const extract = (input: string, ...flags: string[]): Promise<string> =>
  tapir('extract', model, '--return', 'avgpool=v', '--input', input, '-o', join(scratch, `${input}.onnx`), '--overwrite', ...flags);

describe.each(['photo', 'photo-batch'])('tapir extract --input %s', (input) => {
  const file = join(scratch, `${input}.onnx`);

  it('writes a file that is proved, and that has the same vectors', async () => {
    const plan = JSON.parse(await extract(input, '--verify', '--json')) as { verified: { isEqual: boolean } };
    expect(plan.verified.isEqual).toBe(true);
    const { inputs } = await openModel(file);
    expect(inputs.map(({ name, dtype }) => ({ name, dtype }))).toEqual([{ name: 'photo', dtype: 'uint8' }]);
    const checked = await runTapir(['check', file]);
    expect(checked.stdout, checked.stderr).toMatch(/the test picture on "cpu": the bits of onnx-tapir/);
    const vectorOf = async (path: string): Promise<unknown> =>
      (JSON.parse(await tapir('embed', PHOTO, '--model', path, '--return', path === model ? 'avgpool=v' : 'v', '--stdout')) as { v: unknown }).v;
    expect(await vectorOf(file)).toEqual(await vectorOf(model));
  });
});
