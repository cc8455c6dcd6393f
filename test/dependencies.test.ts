/** Without a native package: what does not need it works, what does says so. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from './support/fixtures.js';
import { runScript } from './support/run.js';
import { writeHuggingFacePair } from './support/text-models.js';

const model = join(scratchFolder(), 'model.onnx');
writeFileSync(model, tinyResNet());

const without = (name: string): string => `
import { register } from 'node:module';
const hook = 'export async function resolve(name, context, next) { if (name === "${name}") throw new Error("it is not here"); return next(name, context); }';
register('data:text/javascript,' + encodeURIComponent(hook));
const tapir = await import('onnx-tapir');
const show = (error) => console.log(JSON.stringify({ code: error.code, package: error.details.package }));`;

describe('without sharp', () => {
  it('images cannot be loaded, plain JPEGs and models can', async () => {
    const jpeg = JSON.stringify(projectPath('examples/photos/sea/sea-0.jpg'));
    const photo = JSON.stringify(fixturePath('preprocess/images/png_rgb_333x500.png'));
    const ended = await runScript(`${without('sharp')} await tapir.loadImage(${photo}).catch(show);
      console.log((await tapir.loadImage(${jpeg})).width);
      console.log((await tapir.openModel(${JSON.stringify(model)})).inputs.length);`);
    expect(ended.stdout, ended.stderr).toBe('{"code":"DEPENDENCY_MISSING","package":"sharp"}\n224\n1\n');
  });
});

describe('without @huggingface/tokenizers', () => {
  it('text says what to install', async () => {
    const tower = JSON.stringify(writeHuggingFacePair(join(scratchFolder(), 'clip'), 'clip'));
    const code = `
      import Module from 'node:module';
      import { createTextEncoder } from 'onnx-tapir/features';
      const resolve = Module._resolveFilename;
      Module._resolveFilename = (name, ...rest) => resolve(name.startsWith('@huggingface/') ? './absent.cjs' : name, ...rest);
      await createTextEncoder(${tower}).catch(({ code, message }) => console.log(code, message));`;
    const { stdout } = await runScript(code);
    expect(stdout).toContain('DEPENDENCY_MISSING');
    expect(stdout).toContain('npm install @huggingface/tokenizers@0.2.0');
  });
});

describe('whoever only rewrites graphs, and states no types that the file does not', () => {
  it('loads no native code', async () => {
    const code = `
      import { pruneModel } from 'onnx-tapir';
      const pruned = await pruneModel(${JSON.stringify(model)}, { layer1: 'features' }, { fillTypes: false });
      await pruned.bytes();
      const native = process.report.getReport().sharedObjects.filter((file) => /onnxruntime|vips|sharp/.test(file));
      console.log(pruned.plan.kept.nodes.length > 0, native.length);`;
    expect(await runScript(code)).toMatchObject({ code: 0, stdout: 'true 0\n' });
  });
});

describe('whoever loads plain JPEGs', () => {
  it('loads no native code', async () => {
    const code = `
      import { loadImage } from 'onnx-tapir';
      const { width } = await loadImage(${JSON.stringify(projectPath('examples/photos/sea/sea-0.jpg'))});
      const native = process.report.getReport().sharedObjects.filter((file) => /onnxruntime|vips|sharp/.test(file));
      console.log(width, native.length);`;
    expect(await runScript(code)).toMatchObject({ code: 0, stdout: '224 0\n' });
  });
});
