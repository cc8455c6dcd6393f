/** Embedding when no more files can be opened. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { makeTar, makeZip } from '../../support/archives.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runScript } from '../../support/run.js';

const scratch = scratchFolder();
const photo = projectPath('examples/photos/sea/sea-0.jpg');
const photos = join(scratch, 'photos');
for (const folder of ['a', 'b']) {
  mkdirSync(join(photos, folder), { recursive: true });
  copyFileSync(photo, join(photos, folder, '0.jpg'));
}
const model = join(scratch, 'model.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);

describe.skipIf(process.platform === 'win32')('without room for another open file', () => {
  it('the command says so, and does not call it a defect', () => {
    const tapir = [process.execPath, projectPath('dist/lib/bin.cjs'), 'embed', photos, '--model', model];
    const codes = [32, 40, 48].map((limit) => {
      const more = ['--return', 'avgpool=v', '--out', join(scratch, `out-${limit}`)];
      const { stderr, status } = spawnSync(
        'sh',
        ['-c', `ulimit -n ${limit}; exec "$@"`, 'sh', ...tapir, ...more],
        {
          encoding: 'utf8',
        },
      );
      if (status !== 0)
        expect(stderr).toMatch(
          /^tapir: this process has too many files open; raise its limit .*\(EMFILE\) \[TOO_MANY_OPEN_FILES\]$/m,
        );
      return status;
    });
    // How many files Node.js itself opens depends on its version.
    expect(codes[0]).toBe(4);
  });

  it('a folder, a list and archives end the run: no image is blamed or left out', async () => {
    const bytes = Buffer.from('not read');
    const entries = [{ name: 'a.jpg', bytes }];
    writeFileSync(join(scratch, 'a.tar'), await makeTar(entries));
    writeFileSync(join(scratch, 'a.zip'), makeZip(entries));
    writeFileSync(join(scratch, 'a.txt'), `${photo}\n`);
    const { stdout, stderr, code } = await runScript(`
      import { closeSync, openSync } from 'node:fs';
      import { createFeatureExtractor, embedImages } from 'onnx-tapir';
      const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { avgpool: 'v' });
      const embed = async (source) => {
        const rows = [];
        for await (const { path, error } of embedImages(extractor, source, { transform: 'ImageNet1K_V1', decodeThreads: 1, batch: 1 }))
          rows.push([path, error?.code]);
        return rows;
      };
      const folder = ${JSON.stringify(scratch)} + '/';
      const sources = ['photos', 'a.tar', 'a.zip', 'a.txt'];
      // Loads all modules.
      for (const source of sources) await embed(folder + source);
      const results = {};
      for (const source of sources) {
        const opened = [];
        const fill = () => { for (;;) try { opened.push(openSync('/dev/null')); } catch { return; } };
        fill();
        results[source] = await embed(folder + source).then((rows) => rows, ({ code }) => code);
        for (const file of opened) closeSync(file);
      }
      await extractor.close();
      console.log(JSON.stringify(results));
    `);
    expect([stderr, code]).toEqual(['', 0]);
    expect(JSON.parse(stdout)).toEqual({
      photos: 'TOO_MANY_OPEN_FILES',
      'a.tar': 'TOO_MANY_OPEN_FILES',
      'a.zip': 'TOO_MANY_OPEN_FILES',
      'a.txt': 'TOO_MANY_OPEN_FILES',
    });
  });
});
