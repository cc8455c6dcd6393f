/** Heat maps in the report: which photos, what they show, and what is said where they cannot be made. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, createTransform, embedFolder, loadImage } from 'onnx-tapir';
import { attribute } from 'onnx-tapir/explain';
import { writeReport } from 'onnx-tapir/pages';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../../../support/fixtures.js';
import { withMetadata } from '../../../../support/graphs.js';
import { runTapir } from '../../../../support/run.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
const dataset = join(scratch, 'vectors');
const model = join(scratch, 'model.onnx');
const transform = createTransform({ resize: 64, crop: 64 });
const labels = Array.from({ length: 10 }, (_, i) => `kind <${i}>`);

beforeAll(async () => {
  for (const folder of ['flower', 'sea'])
    cpSync(projectPath(`examples/photos/${folder}`), join(photos, folder), {
      recursive: true,
      filter: (file) => !file.endsWith('.ts'),
    });
  writeFileSync(model, withMetadata(tinyResNet(), { labels: JSON.stringify(labels) }));
  const extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
  await embedFolder(extractor, photos, { out: dataset, transform });
  await extractor.close();
});

/** A figure of the page. */
interface Figure {
  readonly name: string;
  readonly path: string;
  readonly photo: Buffer;
  readonly overlay: Buffer;
}

const FIGURE =
  /<figure class="heatmap">.*?src="data:image\/webp;base64,([^"]+)".*?src="data:image\/webp;base64,([^"]+)".*?<bdi>(.*?)<\/bdi><span>score (-?[\d.]+)<\/span><bdi class="path muted">(.*?)<\/bdi>/gs;

function figuresOf(page: string): Figure[] {
  return [...readFileSync(page, 'utf8').matchAll(FIGURE)].map(([, photo, overlay, name, , path]) => ({
    name: name!.replace('&lt;', '<').replace('&gt;', '>'),
    path: path!,
    photo: Buffer.from(photo!, 'base64'),
    overlay: Buffer.from(overlay!, 'base64'),
  }));
}

async function pixelsOf(picture: Uint8Array): Promise<Buffer> {
  return await sharp(picture).raw().toBuffer();
}

function meanDifference(a: Uint8Array, b: Uint8Array): number {
  expect(a.length).toBe(b.length);
  return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length;
}

describe('heat maps of a report', () => {
  it('show photos spread over the dataset, with the class that the model predicts', async () => {
    const out = join(scratch, 'cam.html');
    const flags = [
      '--images',
      photos,
      '--out',
      out,
      '--cam',
      'layer4',
      '--model',
      model,
      '--set',
      'photos=3',
    ];
    const ended = await runTapir(['report', dataset, ...flags]);
    expect(ended, ended.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(/8 images, 8 with a picture, 3 with a heat map, /);
    const figures = figuresOf(out);
    expect(figures).toHaveLength(3);
    expect(figures[0]!.path).toMatch(/^flower\//);
    expect(figures[2]!.path).toMatch(/^sea\//);
    for (const { name, path, photo, overlay } of figures) {
      const image = await loadImage(join(photos, path), transform);
      const found = await attribute(model, image, { layer: 'layer4' });
      expect(name).toBe(found.labels[0]);
      const drawn = await pixelsOf(await found.overlay({ scale: false }));
      // WebP loses a little.
      expect(meanDifference(await pixelsOf(photo), image.data)).toBeLessThan(6);
      expect(meanDifference(await pixelsOf(overlay), drawn)).toBeLessThan(6);
      expect(meanDifference(await pixelsOf(overlay), await pixelsOf(photo))).toBeGreaterThan(6);
    }
  });

  it('take the last layer with places, and say which scores they explain', async () => {
    const out = join(scratch, 'last.html');
    const flags = ['--images', photos, '--out', out, '--cam', '--model', model, '--set', 'photos=1'];
    const ended = await runTapir(['report', dataset, '--set', 'umap=false', ...flags]);
    expect(ended, ended.stderr).toMatchObject({ code: 0, stderr: '' });
    const { layer, output } = await attribute(
      model,
      await loadImage(join(photos, figuresOf(out)[0]!.path), transform),
    );
    const page = readFileSync(out, 'utf8');
    expect(page).toContain(`<code>grad-cam</code> of <code>${layer}</code>`);
    expect(page).toContain(`The score is a value of “${output}”.`);
  });

  it('are not there unless asked for', async () => {
    const { path, heatmaps } = await writeReport(dataset, {
      images: photos,
      out: join(scratch, 'none.html'),
    });
    expect(heatmaps).toBe(0);
    expect(readFileSync(path, 'utf8')).not.toContain('heatmaps-title');
  });

  it('are left out for photos that are gone', async () => {
    const few = join(scratch, 'few');
    cpSync(photos, few, { recursive: true });
    rmSync(join(few, 'sea'), { recursive: true });
    const heatmaps = { model, layer: 'layer4', photos: 4 };
    const options = { umap: false, out: join(scratch, 'few.html'), heatmaps };
    const some = await writeReport(dataset, { ...options, images: few });
    expect(some.heatmaps).toBe(2);
    expect(some.notes).toContain('2 of the photos for heat maps could not be read again.');
    const empty = join(scratch, 'empty');
    mkdirSync(empty);
    const none = await writeReport(dataset, { ...options, images: empty });
    expect(none.heatmaps).toBe(0);
    expect(readFileSync(none.path, 'utf8')).toContain('None of the chosen photos could be read.');
    rmSync(photos, { recursive: true });
    const gone = await writeReport(dataset, options);
    expect(gone.notes).toEqual([
      'There are no pictures, because the folder of the images is not here. Name it with --images.',
      'There are no heat maps, for the same reason.',
    ]);
    cpSync(few, photos, { recursive: true });
  });

  const other = join(scratch, 'other.onnx');
  writeFileSync(other, tinyResNet());
  it.each([
    [
      'another model',
      ['--cam', 'layer4', '--model', other],
      /not the model of the dataset.*CHECKSUM_MISMATCH/s,
    ],
    ['a model that is gone', ['--cam', 'layer4', '--model', join(scratch, 'gone.onnx')], /MODEL_UNREADABLE/],
    ['a layer that is not there', ['--cam', 'layer9', '--model', model], /layer4.*NAME_NOT_FOUND/s],
    ['no model', ['--cam', 'layer4'], /--model.*OPTION_INVALID/s],
    ['no layer', ['--model', model], /--cam.*OPTION_INVALID/s],
    ['no photos', ['--cam', 'layer4', '--model', model, '--set', 'photos=0'], /1 to 100.*OPTION_INVALID/s],
  ])('refuse %s', async (_, flags, message) => {
    const out = join(scratch, 'refused.html');
    const ended = await runTapir(['report', dataset, '--images', photos, '--out', out, ...flags]);
    expect(ended.code).not.toBe(0);
    expect(ended.stderr).toMatch(message);
  });
});
