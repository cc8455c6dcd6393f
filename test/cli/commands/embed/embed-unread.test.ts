/** Files that look like images: HEIC is embedded with libheif-js, what is not read is named at the end. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDataset } from 'onnx-tapir';
import { writeReport } from 'onnx-tapir/pages';
import { describe, expect, it } from 'vitest';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
const model = join(scratch, 'model.onnx');
mkdirSync(photos);
writeFileSync(model, tinyResNet());
copyFileSync(projectPath('examples/photos/sea/sea-0.jpg'), join(photos, 'a.jpg'));
copyFileSync(fixturePath('heic/images/turned_6.heic'), join(photos, 'b.heic'));
for (const name of ['c.svg', 'd.SVG', 'e.CR2', 'notes.txt']) writeFileSync(join(photos, name), 'x');

const SENTENCES = /^1 \.cr2 file was skipped: .*\n2 \.svg files were skipped: to embed them, convert/m;
const embed = (source: string, out: string, ...flags: string[]): ReturnType<typeof runTapir> =>
  runTapir(
    ['embed', source, '--model', model, '--return', 'avgpool=v', '--out', out].concat(
      ['--transform', '{"resize":64,"crop":64}'],
      flags,
    ),
  );

describe('tapir embed', () => {
  it('names the files that it skipped, and embeds HEIC in its decoding threads', async () => {
    const out = join(scratch, 'dataset');
    const ended = await embed(photos, out);
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stderr).toMatch(SENTENCES);
    expect(ended.stdout).toContain('2 of 2 images embedded');
    const { manifest } = await openDataset(out);
    expect(manifest.run?.unreadFiles).toEqual({ '.cr2': 1, '.svg': 2 });
    expect(manifest.counts).toEqual({ inputs: 2, ok: 2, errors: 0 });
    const { path } = await writeReport(out, { umap: false });
    expect(readFileSync(path, 'utf8')).toContain('1 .cr2, 2 .svg');
  });

  it('names them after rows, too', async () => {
    const ended = await embed(photos, '-', '--format', 'jsonl');
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stderr).toMatch(SENTENCES);
    expect(ended.stdout.trim().split('\n')).toHaveLength(2);
  });

  it('says so where a folder holds nothing else', async () => {
    const folder = join(scratch, 'drawings');
    mkdirSync(folder);
    writeFileSync(join(folder, 'a.svg'), '<svg/>');
    const ended = await embed(folder, join(scratch, 'none'));
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(/it holds no image .*; 1 \.svg file was skipped: to embed them, convert/);
  });
});
