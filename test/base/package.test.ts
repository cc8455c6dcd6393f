/** The package's files are found wherever its code runs: from source, installed, and inside a user's bundle. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { packageFile, packageVersion } from '../../src/base/package.js';
import { projectPath, scratchFolder, tinyResNet } from '../support/fixtures.js';
import { runNode } from '../support/run.js';

const scratch = scratchFolder();

describe('packageFile', () => {
  it('finds files of this checkout', () => {
    expect(existsSync(packageFile('models/manifest.json'))).toBe(true);
    const { version } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as { version: string };
    expect(packageVersion()).toBe(version);
  });
});

describe("a program that a user's bundler packed into one file", () => {
  const model = join(scratch, 'model.onnx');
  writeFileSync(model, tinyResNet());
  const photo = JSON.stringify(projectPath('examples/photos/sea/sea-0.jpg'));
  const entry = join(scratch, 'app.ts');
  writeFileSync(
    entry,
    `import { createFeatureExtractor, createTransform, embedImages } from 'onnx-tapir';
     async function main() {
       const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { avgpool: 'v' });
       const transform = createTransform({ resize: 64, crop: 64 });
       for await (const row of embedImages(extractor, [${photo}], { transform }))
         console.log('features' in row ? row.features.v.dims.join() : row.error);
       await extractor.close();
     }
     main().catch((error) => console.log(error.code, error.message));`,
  );

  async function bundle(name: string, format: 'esm' | 'cjs'): Promise<string> {
    const folder = join(scratch, name);
    mkdirSync(join(folder, 'node_modules'), { recursive: true });
    const outfile = join(folder, format === 'cjs' ? 'app.cjs' : 'app.mjs');
    await build({
      entryPoints: [entry],
      outfile,
      bundle: true,
      platform: 'node',
      target: 'node20',
      format,
      // Native modules cannot be packed; packages in CommonJS need a require that modules do not have.
      external: ['onnxruntime-node', 'sharp', 'onnx-proto', 'protobufjs'],
      alias: { 'onnx-tapir': projectPath('dist/lib/index.js') },
      logLevel: 'error',
    });
    return outfile;
  }

  it.each(['esm', 'cjs'] as const)('runs as %s beside the installed package', async (format) => {
    const file = await bundle(`installed-${format}`, format);
    const modules = join(file, '../node_modules');
    symlinkSync(projectPath('.'), join(modules, 'onnx-tapir'));
    for (const name of ['onnxruntime-node', 'sharp', 'onnx-proto', 'protobufjs'])
      symlinkSync(projectPath(`node_modules/${name}`), join(modules, name));
    expect(await runNode([file], { cwd: join(file, '..') })).toMatchObject({ stdout: '128\n', code: 0 });
  });

  it('says what is missing without the installed package', async () => {
    const file = await bundle('alone', 'esm');
    for (const name of ['onnxruntime-node', 'sharp', 'onnx-proto', 'protobufjs'])
      symlinkSync(projectPath(`node_modules/${name}`), join(file, '../node_modules', name));
    const { stdout } = await runNode([file], { cwd: join(file, '..') });
    expect(stdout).toMatch(/^DEPENDENCY_MISSING .*mark "onnx-tapir" as external/);
  });
});

describe('the built package', () => {
  it('prints errors under their own name', async () => {
    const { stderr } = await runNode([
      '--input-type=module',
      '-e',
      "(await import('onnx-tapir')).chunkSizes(-1, 2)",
    ]);
    expect(stderr).toMatch(/^TapirError: option "rows"/m);
  });
});
