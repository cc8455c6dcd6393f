/** Two models on the same photos, from the library and the command line. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, createTransform, pruneModel } from 'onnx-tapir';
import { compareModels, type ModelComparison } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { makeTar } from '../../../support/archives.js';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
mkdirSync(photos);
const folders = readdirSync(projectPath('examples/photos'), { withFileTypes: true }).filter((one) =>
  one.isDirectory(),
);
for (const { name } of folders)
  for (const file of readdirSync(projectPath(`examples/photos/${name}`)).filter((one) =>
    one.endsWith('.jpg'),
  ))
    copyFileSync(projectPath(`examples/photos/${name}/${file}`), join(photos, file));
const count = readdirSync(photos).length;

/** The tiny ResNet with a transform of its own. */
function layOut(name: string, interpolation: string): string {
  const path = join(scratch, name);
  writeFileSync(path, tinyResNet());
  writeFileSync(
    `${path}.transform.json`,
    JSON.stringify(
      createTransform({ resize: 64, crop: 64, interpolation: interpolation as 'bicubic' }).options,
    ),
  );
  return path;
}
const first = layOut('first.onnx', 'bilinear');
const second = layOut('second.onnx', 'bilinear');
const bicubic = layOut('bicubic.onnx', 'bicubic');
const nodes = { avgpool: 'v' };

describe('compareModels', () => {
  it('finds a new export equal to the old one', async () => {
    const found = await compareModels(first, second, photos);
    expect(found).toMatchObject({ seen: count, sampled: count, failures: [], transforms: [], pixels: null });
    expect(found.a.file).toBe('first.onnx');
    expect(found.b.sha256).toBe(found.a.sha256);
    expect(found.outputs).toHaveLength(1);
    expect(found.outputs[0]).toMatchObject({
      images: count,
      identical: count,
      maxDifference: 0,
      cosine: { mean: 1, least: 1 },
      recall: { neighbours: 10, mean: 1 },
      onPixelsOfA: null,
    });
  });

  it('tells different pixels from different models', async () => {
    const found = await compareModels(first, bicubic, photos, { returnNodes: nodes });
    expect(found.transforms).toEqual([{ option: 'interpolation', a: 'bilinear', b: 'bicubic' }]);
    expect(found.pixels).toMatchObject({ images: 16, identical: 0 });
    expect(found.pixels!.meanDifference).toBeGreaterThan(0);
    const [output] = found.outputs;
    expect(output!.key).toBe('v');
    expect(output!.identical).toBe(0);
    expect(output!.cosine!.least).toBeLessThan(1);
    expect(output!.worst).toHaveLength(10);
    expect(output!.worst[0]!.cosine).toBe(output!.cosine!.least);
    // The models are the same.
    expect(output!.onPixelsOfA).toMatchObject({ identical: count, cosine: { mean: 1, least: 1 } });
  });

  it('compares extractors and leaves them open, and other names by their keys', async () => {
    await using a = await createFeatureExtractor(first, nodes);
    await using b = await createFeatureExtractor(first, nodes, { l2Normalize: true });
    const { outputs } = await compareModels(a, b, photos, { sample: 20 });
    expect(outputs[0]!.images).toBe(20);
    expect(outputs[0]!.cosine!.least).toBeGreaterThan(0.999999);
    expect(outputs[0]!.maxDifference).toBeGreaterThan(0);
    expect(outputs[0]!.recall!.mean).toBeGreaterThan(0.98);
    const other = { model: second, returnNodes: { layer3: 'v' } };
    const layers = await compareModels(a, other, photos, { sample: 12, returnNodes: nodes });
    expect(layers.outputs[0]!).toMatchObject({ cosine: null, recall: { neighbours: 10 } });
    // The only output of each, whatever it is called.
    const named = { model: second, returnNodes: { avgpool: 'w' } };
    expect((await compareModels(a, named, photos, { sample: 3 })).outputs).toMatchObject([
      { key: 'v', images: 3, identical: 3 },
    ]);
    const two = { model: second, returnNodes: { layer3: 'w', layer4: 'x' } };
    for (const wrong of [two, { models: second }, {}] as never[])
      await expect(compareModels(a, wrong, photos)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('compares a file that was cut out of the other with the values that it was cut at', async () => {
    const cut = join(scratch, 'cut.onnx');
    for (const cutAt of [[['avgpool', 'e']], ['avgpool']] as const) {
      await (await pruneModel(first, cutAt)).save(cut, { overwrite: true });
      copyFileSync(`${first}.transform.json`, `${cut}.transform.json`);
      const { outputs } = await compareModels(first, cut, photos, { sample: 3 });
      expect(outputs).toMatchObject([{ images: 3, identical: 3 }]);
      expect(outputs[0]!.top1).toBeNull();
    }
  });

  it('draws the same sample each time, from archives and iterables too', async () => {
    const files = readdirSync(photos)
      .sort()
      .map((name) => ({ name, bytes: readFileSync(join(photos, name)) }));
    const tar = join(scratch, 'photos.tar');
    writeFileSync(tar, await makeTar(files));
    const worst = ({ outputs }: ModelComparison): unknown => outputs[0]!.worst;
    const drawn = await compareModels(first, bicubic, photos, { sample: 8 });
    expect(drawn.sampled).toBe(8);
    expect(worst(await compareModels(first, bicubic, photos, { sample: 8 }))).toEqual(worst(drawn));
    expect(worst(await compareModels(first, bicubic, tar, { sample: 8 }))).toEqual(worst(drawn));
    // A Response can be read only once.
    const bodies = files.slice(0, 3).map(({ bytes }) => new Response(new Uint8Array(bytes)));
    expect(await compareModels(first, bicubic, bodies)).toMatchObject({ sampled: 3, failures: [] });
  });

  it('lists images that cannot be read, and compares the others', async () => {
    const broken = fixturePath('heic/images/cut_off.heic');
    const found = await compareModels(first, second, [join(photos, readdirSync(photos)[0]!), broken]);
    expect(found.failures).toMatchObject([{ path: broken, error: { code: 'IMAGE_TRUNCATED' } }]);
    expect(found.outputs[0]).toMatchObject({ images: 1, identical: 1, recall: null });
  });
});

describe('tapir compare', () => {
  it('prints the numbers and writes a page', async () => {
    const out = join(scratch, 'page.html');
    const ended = await runTapir(['compare', first, bicubic, photos, '--return', 'avgpool=v', '--out', out]);
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stdout).toMatch(/A: first\.onnx\nB: bicubic\.onnx/);
    expect(ended.stdout).toMatch(/own pixels +pixels of A\n +mean cosine +0\.\d+ +1\n/);
    expect(ended.stdout).toMatch(/recall@10 +\d+\.\d % +100\.0 %/);
    expect(ended.stdout).toContain('their transforms differ in interpolation (bilinear and bicubic)');
    const page = readFileSync(out, 'utf8');
    expect(page).toMatch(/^<!doctype html>\n<!-- onnx-tapir compare -->/);
    expect(page).toContain('recall@10');
    expect(page.match(/data:image\/webp;base64,/g)).toHaveLength(10);
    expect(page).not.toMatch(/(?:src|href)="https?:/);
    // A page may be replaced, another file may not.
    writeFileSync(join(scratch, 'other.html'), 'mine');
    const refused = await runTapir(['compare', first, second, photos, '--out', join(scratch, 'other.html')]);
    expect(refused.code).toBe(4);
    expect(refused.stderr).toContain('was not written by tapir compare');
    expect(readFileSync(join(scratch, 'other.html'), 'utf8')).toBe('mine');
  });

  it('prints JSON', async () => {
    const ended = await runTapir(['compare', first, second, photos, '--set', 'sample=5', '--json']);
    expect(ended.code, ended.stderr).toBe(0);
    expect(JSON.parse(ended.stdout)).toMatchObject({ sampled: 5, outputs: [{ identical: 5, recall: null }] });
  });
});
