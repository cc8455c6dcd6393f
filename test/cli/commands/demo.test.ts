/** `tapir demo`: a first run that warns of nothing, and neighbours that make sense. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDataset } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const motif = (path: string): string => path.split('/')[0]!;

describe('tapir demo', () => {
  it('embeds the example pictures, and finds those of the same motif', async () => {
    const out = join(scratch, 'demo');
    const ended = await runTapir(['demo', '--no-open', '-o', out]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const rows = ended.stdout.split('\n').filter((line) => /^\w+\/\w+-0\.jpg/.test(line));
    expect(rows.map(motif)).toEqual(['city', 'clouds', 'dunes', 'flower', 'forest', 'sea']);
    for (const row of rows) {
      const paths = row.match(/\w+\/[\w-]+\.jpg/g)!;
      expect(paths.slice(1).map(motif)).toEqual([motif(row), motif(row), motif(row)]);
    }
    expect(existsSync(join(out, 'report.html'))).toBe(true);
    expect((await openDataset(out)).manifest.transform).toMatchObject({
      interpolation: 'bicubic',
      mean: [0.5, 0.5, 0.5],
    });
    // A second run has nothing to do, and shows the same.
    expect((await runTapir(['demo', '--no-open', '-o', out])).stdout).toBe(ended.stdout);
  });

  it('takes photos of the user, and says which failed', async () => {
    const photos = join(scratch, 'photos');
    mkdirSync(photos);
    writeFileSync(join(photos, 'broken.jpg'), 'no photo');
    const ended = await runTapir(['demo', photos, '--no-open', '-o', join(scratch, 'empty')]);
    expect(ended).toMatchObject({ code: 1, stdout: '' });
    expect(ended.stderr).toMatch(/^broken\.jpg: cannot read .* as an image/);
    const sea = await runTapir([
      'demo',
      projectPath('examples/photos/sea'),
      '--no-open',
      '-o',
      join(scratch, 'sea'),
    ]);
    expect(sea).toMatchObject({ code: 0, stderr: '' });
    expect(sea.stdout).toContain('4 photos as vectors of 1280 numbers');
  });
});
