/** `tapir embed SOURCE --out DIR` continues a dataset with what the run that made it was told. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, it } from 'vitest';
import { buildResNet } from '../../../../models/resnet.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
const photos = join(scratch, 'photos');
const out = join(scratch, 'vectors');

interface Made {
  readonly counts: object;
  readonly run: { readonly options: unknown };
}
const manifest = (): Made => JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Made;

it('continues with model, names, transform and parts of the manifest, unless it is another model', async () => {
  writeFileSync(model, tinyResNet());
  const sea = projectPath('examples/photos/sea/sea-0.jpg');
  cpSync(sea, join(photos, 'first.jpg'));
  const transform = JSON.stringify({ resize: null, crop: null });
  const asked = ['--model', model, '--return', 'avgpool=embedding', '--transform', transform];
  const parts = [
    '--tile',
    '64,overlap=16,scales=1,0.5',
    '--set',
    'l2Normalize=true',
    '--set',
    'dtype=float16',
  ];
  const first = await runTapir(['embed', photos, '--out', out, ...asked, ...parts, '--batch', '2']);
  expect(first).toMatchObject({ code: 0 });
  const options = {
    model,
    return: ['avgpool=embedding'],
    transform,
    tiles: '64,overlap=16,scales=1,0.5',
    l2Normalize: true,
    dtype: 'float16',
  };
  expect(manifest().run.options).toEqual(options);
  const schema = JSON.parse(readFileSync(projectPath('docs/manifest.schema.json'), 'utf8')) as object;
  const ajv = new Ajv2020({ allowUnionTypes: true, formats: { 'date-time': true } });
  expect(ajv.validate(schema, manifest()), ajv.errorsText()).toBe(true);

  cpSync(sea, join(photos, 'second.jpg'));
  const second = await runTapir(['embed', photos, '--out', out]);
  expect(second).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('1 of 1 images embedded') as string,
  });
  expect(manifest()).toMatchObject({ counts: { inputs: 2, ok: 2 }, run: { options } });

  cpSync(sea, join(photos, 'third.jpg'));
  writeFileSync(model, buildResNet(1, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes);
  const other = await runTapir(['embed', photos, '--out', out]);
  expect(other.code).not.toBe(0);
  expect(other.stderr).toMatch(
    /other settings: the model is [^;]* there and [^;]* in this run.*DATASET_MISMATCH/,
  );
});

it('needs a model where there is no dataset, and refuses a manifest with other options', async () => {
  const none = await runTapir(['embed', photos, '--out', join(scratch, 'none')]);
  expect(none).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("option '--model <file>'") as string,
  });
  const made = manifest();
  writeFileSync(join(out, 'manifest.json'), JSON.stringify({ ...made, run: { options: { modell: 'x' } } }));
  const wrong = await runTapir(['embed', photos, '--out', out]);
  expect(wrong).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/manifest of .*one of model/) as string,
  });
  writeFileSync(join(out, 'manifest.json'), JSON.stringify({ ...made, model: null, run: null }));
  const imported = await runTapir(['embed', photos, '--out', out]);
  expect(imported.stderr).toContain('imported vectors take no photos');
  rmSync(join(out, 'manifest.json'));
  const unfinished = await runTapir(['embed', photos, '--out', out]);
  expect(unfinished.stderr).toMatch(/--model must be stated, .* because it is unfinished/);
  const searched = await runTapir(['dedupe', out]);
  expect(searched.stderr).toContain('it is unfinished; to finish it, run the same tapir embed again');
});

it('says how many vectors come from --reuse', async () => {
  const others = join(scratch, 'others');
  const asked = ['--model', model, '--return', 'avgpool=embedding', '--transform', '{"resize":64,"crop":64}'];
  const names = [...asked, '--out', join(scratch, 'plain')];
  expect(await runTapir(['embed', photos, ...names])).toMatchObject({ code: 0 });
  const copied = await runTapir([
    'embed',
    photos,
    ...asked,
    '--out',
    others,
    '--reuse',
    join(scratch, 'plain'),
  ]);
  expect(copied.stdout).toMatch(/nothing to compute[^]*\d+ with vectors from --reuse/);
});
