/** The model's own pixels from the command line: no flag, the configuration beside the model. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, createTransform, findTransform, loadImage } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const photo = projectPath('examples/photos/sea/sea-1.jpg');
/** CLIP's steps for a model of 64 × 64 pixels. */
const CLIP = {
  image_processor_type: 'CLIPImageProcessor',
  size: { shortest_edge: 64 },
  crop_size: { height: 64, width: 64 },
};

/** A repository as Hugging Face lays it out. */
function layOut(name: string, config: unknown): string {
  mkdirSync(join(scratch, name, 'onnx'), { recursive: true });
  writeFileSync(join(scratch, name, 'preprocessor_config.json'), JSON.stringify(config));
  const model = join(scratch, name, 'onnx', 'vision_model.onnx');
  writeFileSync(model, tinyResNet());
  return model;
}

const embed = (model: string, ...flags: string[]): ReturnType<typeof runTapir> =>
  runTapir(
    ['embed', '-', '--model', model, '--return', 'avgpool=v', '--out', '-', '--format', 'jsonl', ...flags],
    { input: `${photo}\n` },
  );

describe('tapir embed without --transform', () => {
  const model = layOut('clip', CLIP);

  it('feeds the pixels of the model’s own configuration, and says where it is from', async () => {
    const ended = await embed(model);
    expect(ended.stderr).toMatch(
      /^transform: .*preprocessor_config\.json \(transformers, torchvision arithmetic\): resize 64, bicubic/,
    );
    const found = await findTransform(model);
    await using extractor = await createFeatureExtractor(model, { avgpool: 'v' });
    const { v } = await extractor.run((await loadImage(photo, found!.transform)).toTensor());
    const row = JSON.parse(ended.stdout) as { v: number[] };
    expect(row.v.map(Math.fround)).toEqual([...(v!.data as Float32Array)]);
  });

  it('records it in the manifest', async () => {
    const out = join(scratch, 'dataset');
    const ended = await runTapir([
      'embed',
      projectPath('examples/photos'),
      '--model',
      model,
      '--return',
      'avgpool=v',
      '--out',
      out,
    ]);
    expect(ended.code, ended.stderr).toBe(0);
    const manifest = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as { transform: unknown };
    expect(manifest.transform).toMatchObject({
      preset: null,
      source: {
        file: join(scratch, 'clip', 'preprocessor_config.json'),
        kind: 'transformers',
        backend: 'torchvision',
      },
      resize: 64,
      interpolation: 'bicubic',
      resampler: 'torch',
      arithmetic: 'fused',
    });
  });

  it('stops at a field that it cannot follow, and at a transform that does not fit', async () => {
    const strange = await embed(layOut('strange', { ...CLIP, do_sharpen: true }));
    expect(strange).toMatchObject({ code: 3, stdout: '' });
    expect(strange.stderr).toMatch(/"do_sharpen".*\[TRANSFORM_UNSUPPORTED\]/);
    const small = await embed(layOut('small', { ...CLIP, crop_size: 32 }));
    expect(small).toMatchObject({ code: 2, stdout: '' });
    expect(small.stderr).toMatch(
      /must be one that fits the model's input "input" \[batch, 3, 64, 64\].*got.*\[3, 32, 32\]/,
    );
  });

  it.each([
    ['a preset', 'Squash224'],
    ['a file', join(scratch, 'clip', 'preprocessor_config.json')],
    ['JSON', JSON.stringify({ resize: 64, crop: 64 })],
    ['weights', 'torchvision:ResNet50_Weights.IMAGENET1K_V2'],
  ])('takes %s instead, silently', async (_name, transform) => {
    const ended = await embed(model, '--transform', transform);
    const fits = transform.includes('64') || transform.endsWith('.json');
    expect(ended.code, ended.stderr).toBe(fits ? 0 : 2);
    if (fits) expect(ended.stderr).toBe('');
  });
});

describe('other commands', () => {
  const model = layOut('again', CLIP);

  it('tapir nodes shows where the pixels are from', async () => {
    expect((await runTapir(['nodes', model])).stdout).toMatch(
      /^pixels from .*preprocessor_config\.json \(transformers\)/,
    );
  });

  it('tapir extract writes the transform beside the model that it saves', async () => {
    const out = join(scratch, 'cut.onnx');
    const ended = await runTapir(['extract', model, '--return', 'avgpool=v', '--out', out]);
    expect(ended.code, ended.stderr).toBe(0);
    expect(existsSync(`${out}.tapir.json`)).toBe(true);
    const [before, after] = [await findTransform(model), await findTransform(out)];
    expect(after).toMatchObject({ kind: 'onnx-tapir', from: `${out}.tapir.json` });
    expect(after!.transform.options).toEqual(before!.transform.options);
  });

  it('tapir extract writes the transform that is stated, instead', async () => {
    const out = join(scratch, 'stated.onnx');
    const args = ['extract', model, '--return', 'avgpool=v', '--out', out, '--transform', 'Squash224'];
    const ended = await runTapir(args);
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stdout).toContain('pixels: ');
    expect((await findTransform(out))!.transform.options).toEqual(createTransform('Squash224').options);
    const wrong = await runTapir([...args.slice(0, -1), 'nonsense', '--overwrite']);
    expect(wrong).toMatchObject({ code: 2 });
  });
});
