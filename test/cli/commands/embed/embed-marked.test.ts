/** Photos that another door of a library reads as other pixels: the flags, the lines at the end of a run, and the manifest. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedImages, openDataset, type Manifest } from 'onnx-tapir';
import { expect, it } from 'vitest';
import { fixturePath, scratchFolder } from '../../../support/fixtures.js';
import { patchModel } from '../../../support/patches.js';
import { runTapir } from '../../../support/run.js';

const folder = mkdtempSync(join(scratchFolder(), 'marked-'));
const model = join(folder, 'model.onnx');
writeFileSync(model, patchModel());
writeFileSync(
  join(folder, 'transform.json'),
  JSON.stringify({ resize: { height: 16, width: 16 }, crop: null }),
);
const photos = join(folder, 'photos');
mkdirSync(photos);
for (const name of ['opaque.png', 'rgba.png', 'palette_one.png', 'turned.jpg', 'turned.png'])
  copyFileSync(fixturePath(`alpha/${name}`), join(photos, name));

async function embed(
  ...flags: string[]
): Promise<{ stdout: string; manifest: Manifest; vectors: Float32Array }> {
  const out = mkdtempSync(join(folder, 'out-'));
  const { code, stdout, stderr } = await runTapir(
    ['embed', photos, '--model', model, '--return', 'tokens=t', '--out', join(out, 'd')].concat(flags),
  );
  expect({ code, stderr: stderr.replace(/^transform: .*\n/, '') }).toEqual({ code: 0, stderr: '' });
  const dataset = await openDataset(join(out, 'd'));
  const manifest = JSON.parse(readFileSync(join(out, 'd/manifest.json'), 'utf8')) as Manifest;
  for await (const { data } of dataset.blocks('t')) return { stdout, manifest, vectors: data };
  throw new Error('no rows');
}

it('counts them, says what another setting does, and gives the pixels of the setting that is asked for', async () => {
  const plain = await embed();
  expect(plain.stdout).toMatch(/\n {2}2 photos with an EXIF orientation, read as stored.*orientation=exif/);
  expect(plain.stdout).toMatch(/\n {2}3 photos with transparency, without their alpha.*alpha=white/);
  expect(plain.manifest.run?.marked).toEqual({ turned: 2, transparent: 3 });
  const other = await embed('--transform', 'orientation=exif,alpha=white');
  expect(other.stdout).toMatch(
    /2 photos with an EXIF orientation, turned upright; --transform orientation=ignore/,
  );
  expect(other.stdout).toMatch(/3 photos with transparency, laid over white; --transform alpha=drop/);
  expect(other.manifest.transform).toMatchObject({
    orientation: 'exif',
    alpha: 'white',
    source: { kind: 'onnx-tapir' },
  });
  const partial = await embed('--transform', '{"orientation":"exif","alpha":"white"}');
  expect(partial.vectors).toEqual(other.vectors);
  const rows = plain.vectors.length / 5;
  const changed = Array.from({ length: 5 }, (_, row) =>
    plain.vectors
      .slice(row * rows, (row + 1) * rows)
      .some((value, i) => value !== other.vectors[row * rows + i]),
  );
  // opaque, palette_one, rgba, turned.jpg, turned.png
  expect(changed).toEqual([false, true, true, true, true]);
  // The functions take the same words.
  await using extractor = await createFeatureExtractor(model, { tokens: 't' });
  const changes = { orientation: 'exif', alpha: 'white' } as const;
  let row = 0;
  for await (const { features } of embedImages(extractor, photos, { transform: changes }))
    expect(Float32Array.from(features!.t.data as Float32Array)).toEqual(
      other.vectors.slice(rows * row, rows * ++row),
    );
});

it('refuses a backend where the configuration has none, and words that are none', async () => {
  const asked = ['embed', photos, '--model', model, '--return', 'tokens=t', '--out', join(folder, 'never')];
  const backend = await runTapir([...asked, '--transform', 'backend=pil']);
  expect(backend).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('only configurations of transformers'),
  });
  expect(await runTapir([...asked, '--transform', 'alpha=black'])).toMatchObject({ code: 2 });
});
