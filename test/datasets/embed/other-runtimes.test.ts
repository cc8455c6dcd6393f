/**
 * Embedding on Bun and Deno, where they are installed: on the PATH, or at TAPIR_BUN and TAPIR_DENO (`npm i --prefix DIR bun` puts Bun
 * at DIR/node_modules/.bin/bun).
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
mkdirSync(join(photos, 'more'), { recursive: true });
copyFileSync(projectPath('examples/photos/sea/sea-0.jpg'), join(photos, 'é.jpg'));
copyFileSync(projectPath('examples/photos/sea/sea-1.jpg'), join(photos, 'more/b.jpg'));
symlinkSync('more/b.jpg', join(photos, 'again.jpg'));
const model = join(scratch, 'model.onnx');
writeFileSync(model, tinyResNet());
const script = join(scratch, 'embed.mjs');
writeFileSync(
  script,
  `import { createFeatureExtractor, createTransform, embedFolder } from ${JSON.stringify(pathToFileURL(projectPath('dist/lib/index.js')))};
  const [source, out] = process.argv.slice(-2);
  const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { avgpool: 'v' });
  try {
    const transform = createTransform({ resize: 64, crop: 64 });
    const { manifest } = await embedFolder(extractor, source, { out, transform });
    console.log(JSON.stringify(manifest.counts));
  } catch ({ code, message }) {
    console.log(code);
  } finally {
    await extractor.close();
  }`,
);

function find(name: string): string | undefined {
  const given = process.env[`TAPIR_${name.toUpperCase()}`] ?? name;
  try {
    execFileSync(given, ['--version'], { stdio: 'ignore' });
    return given;
  } catch {
    return undefined;
  }
}

const runtimes = [
  ['Bun', find('bun'), []],
  ['Deno', find('deno'), ['run', '--allow-all', '--node-modules-dir=manual']],
] as const;

describe.each(runtimes)('%s', (name, runtime, args) => {
  const note = runtime ? '' : ` (NOT RUN: ${name} is not here)`;
  const run = (source: string, out: string): { stdout: string; stderr: string; status: number | null } =>
    spawnSync(runtime!, [...args, script, source, out], {
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1', NODE_OPTIONS: '' },
    });

  it.skipIf(!runtime)(`embeds a folder to the same bytes as Node.js, and ends quietly${note}`, () => {
    const expected = join(scratch, `node-${name}`);
    execFileSync(process.execPath, [script, photos, expected]);
    const out = join(scratch, name);
    const { stdout, stderr, status } = run(photos, out);
    expect([stdout.trim(), stderr, status]).toEqual(['{"inputs":2,"ok":2,"errors":0}', '', 0]);
    const file = 'features/v/v-00000.npy';
    expect(readFileSync(join(out, file))).toEqual(readFileSync(join(expected, file)));
  });

  it.skipIf(!runtime)(`refuses a folder that does not exist${note}`, () => {
    const { stdout, status } = run(join(scratch, 'nowhere'), join(scratch, `${name}-nowhere`));
    expect([stdout.trim(), status]).toEqual(['SOURCE_INVALID', 0]);
  });
});
