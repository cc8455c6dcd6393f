/** `tapir draw features-map`: the picture that drawFeatures makes of the features of all photos. */
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createFeatureExtractor, loadImage } from 'onnx-tapir';
import { drawFeatures } from 'onnx-tapir/explain';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, tinyResNet());
const photos = [0, 1].map((i) => projectPath(`examples/photos/flower/flower-${i}.jpg`));
const transform = { resize: 64, crop: 64 };
const flags = ['--transform', JSON.stringify(transform)];

describe('tapir draw features-map', () => {
  it('draws one basis for all photos', async () => {
    const out = join(scratch, 'map.png');
    const ended = await runTapir([
      'draw',
      'features-map',
      model,
      ...photos,
      '-o',
      out,
      '--layer',
      'layer1',
      '--clip',
      '0',
      ...flags,
    ]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    await using extractor = await createFeatureExtractor(model, { layer1: 'map' });
    const images = await Promise.all(photos.map((photo) => loadImage(photo, transform)));
    const maps = await Promise.all(images.map(async (image) => (await extractor.run(image)).map));
    const expected = await drawFeatures(maps, { clip: 0, imageSize: { height: 64, width: 64 } });
    expect(await readFile(out)).toEqual(Buffer.from(expected));
  });

  it('takes the last layer with places, and keeps files', async () => {
    const out = join(scratch, 'chosen.png');
    const ended = await runTapir(['draw', 'features-map', model, photos[0]!, '-o', out, ...flags]);
    expect(ended.stderr).toBe('layer: layer4.0.relu_2 (--layer names another one)\n');
    const again = await runTapir(['draw', 'features-map', model, photos[0]!, '-o', out, ...flags]);
    expect(again.stderr).toContain('OUTPUT_EXISTS');
  });
});
