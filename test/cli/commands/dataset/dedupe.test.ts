/** `tapir dedupe` on a dataset that `tapir embed` has written. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Duplicates } from 'onnx-tapir/features';
import { buildResNet } from '../../../../models/resnet.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const out = join(scratch, 'out');

beforeAll(async () => {
  const model = join(scratch, 'model.onnx');
  const photos = join(scratch, 'photos');
  const shape = { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 } as const;
  writeFileSync(model, buildResNet(0, shape).bytes);
  mkdirSync(photos);
  for (const name of ['sea-0', 'sea-1'])
    cpSync(projectPath(`examples/photos/sea/${name}.jpg`), join(photos, `${name}.jpg`));
  cpSync(projectPath('examples/photos/sea/sea-0.jpg'), join(photos, 'again.jpg'));
  const run = await runTapir(['embed', photos, '--model', model, '--return', 'fc=logits', '--out', out]);
  expect(run).toMatchObject({ code: 0 });
});

describe('tapir dedupe', () => {
  it('finds a file that is there twice, as JSON', async () => {
    const run = await runTapir(['dedupe', out, '--cosine', '1', '--json']);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const { groups, compared, key } = JSON.parse(run.stdout) as Duplicates;
    expect({ compared, key }).toEqual({ compared: 3, key: 'logits' });
    expect(groups).toMatchObject([{ copies: [{ cosine: 1 }] }]);
    const paths = [groups[0]!.best, ...groups[0]!.copies].map(({ path }) => path);
    expect(paths).toEqual([expect.stringContaining('again.jpg'), expect.stringContaining('sea-0.jpg')]);
  });

  it('prints a table per group and a summary', async () => {
    const { stdout, code } = await runTapir(['dedupe', out, '--cosine', '1']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/best .*again\.jpg\n *1\.000000 .*sea-0\.jpg/);
    expect(stdout).toContain('3 images, 1 group, 1 copy beside the best (cosine ≥ 1)');
  });

  it('names the flag of an unknown output', async () => {
    const run = await runTapir(['dedupe', out, '--output', 'nothing']);
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toContain('--output');
  });
});
