/** `tapir explore`: what the command prints, and what it refuses. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'net.onnx');
writeFileSync(model, tinyResNet());
const photo = projectPath('examples/photos/city/city-1.jpg');
const explore = (...flags: string[]) => runTapir(['explore', model, ...flags], { cwd: scratch });

describe('tapir explore', () => {
  it('writes a page, and says how large it is', async () => {
    const out = join(scratch, 'page.html');
    const ended = await explore(photo, '--return', 'layer4', '--cam', 'layer4', '--class', '3', '--out', out);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(/page\.html: [\d.]+ kB\n$/);
    const again = await explore('--out', out, '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ path: out, problems: [] });
  });

  it('cuts pictures into tiles', async () => {
    const out = join(scratch, 'tiles.html');
    const tiles = ['--tile', '128,overlap=16,edge=pad'];
    expect(await explore(photo, ...tiles, '--out', out)).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(out, 'utf8')).toContain('"name":"city-1.jpg [128×128 at 112,0]"');
    expect(await explore(photo, '--tile', 'overlap=16', '--out', out)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--tile') as string,
    });
  });

  it('takes labels from a file', async () => {
    const labels = join(scratch, 'labels.txt');
    writeFileSync(labels, Array.from({ length: 10 }, (_, i) => `kind ${i}`).join('\n'));
    const out = join(scratch, 'labels.html');
    const ended = await explore(
      photo,
      '--labels',
      labels,
      '--cam',
      'layer4',
      '--class',
      'kind 7',
      '--out',
      out,
    );
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(out, 'utf8')).toContain('"classIndex":7,"label":"kind 7"');
    expect((await explore('--labels', join(scratch, 'none.txt'), '--out', out)).code).toBe(2);
  });

  it('serves a page, and ends with 0 when it is stopped', async () => {
    const args = ['explore', model, photo, '--no-open', '--return', 'layer3'];
    const ended = await runTapir(args, {
      cwd: scratch,
      signal: { name: 'SIGINT', when: /for this machine/ },
    });
    expect(ended.code).toBe(0);
    expect(ended.stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?key=[\w-]{24}\n$/);
  });

  it('refuses what makes no sense, and writes nothing', async () => {
    const out = join(scratch, 'refused.html');
    for (const flags of [
      ['--cam', 'layer4'],
      ['--time'],
      ['--device', 'toaster'],
      ['--port', 'any'],
      ['--port', '70000', '--no-open'],
      ['--transform', 'nonsense', '--out', out, photo],
    ])
      expect(await explore(...flags), flags.join(' ')).toMatchObject({ code: 2 });
    expect((await explore('--return', 'layer9', '--out', out)).stderr).toContain('layer9');
    expect((await explore(join(scratch, 'none.jpg'), '--out', out)).code).not.toBe(0);
    expect(existsSync(out)).toBe(false);
  });

  it('records problems of single questions, and goes on', async () => {
    const out = join(scratch, 'cam.html');
    const ended = await explore(photo, '--cam', 'flatten', '--out', out);
    expect(ended.code).toBe(0);
    expect(ended.stderr).toMatch(/^note: Grad-CAM of flatten, city-1\.jpg: /);
  });
});
