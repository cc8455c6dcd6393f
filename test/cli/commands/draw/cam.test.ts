/** `tapir draw cam`: writes the overlay and the map of a photo, and says what it refuses. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadImage } from 'onnx-tapir';
import { attribute } from 'onnx-tapir/explain';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { withMetadata } from '../../../support/graphs.js';
import { runTapir, type Ended } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, tinyResNet());
const labels = join(scratch, 'labels.txt');
writeFileSync(labels, `${Array.from({ length: 10 }, (_, i) => `thing ${i}`).join('\n')}\n`);
const photo = projectPath('examples/photos/flower/flower-0.jpg');
const transform = { resize: 64, crop: 64 };

function cam(...flags: readonly string[]): Promise<Ended> {
  return runTapir(['draw', 'cam', model, photo, '--transform', JSON.stringify(transform), ...flags]);
}

describe('tapir draw cam', () => {
  it('writes the overlay and the map that attribute gives', async () => {
    const [out, map] = [join(scratch, 'heat.png'), join(scratch, 'map.npy')];
    const ended = await cam('--layer', 'layer3', '--class', '4', '-o', out, '--map', map);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(
      /^class 4, score -?[\d.]+, grad-cam of 4×4\nwritten: .*heat\.png\nwritten: .*map\.npy\n$/,
    );
    expect(await sharp(out).metadata()).toMatchObject({ format: 'png', width: 64, height: 71 });
    const image = await loadImage(photo, transform);
    const expected = await attribute(model, image.toTensor(), { layer: 'layer3', target: 4 });
    const bytes = readFileSync(map);
    expect(bytes.toString('latin1')).toContain("'shape': (1, 4, 4)");
    expect(bytes.subarray(-64)).toEqual(Buffer.from(expected.map.data.buffer));
    const again = await cam('--layer', 'layer3', '-o', out);
    expect(again.stderr).toContain('OUTPUT_EXISTS');
    expect(await cam('--layer', 'layer3', '-o', out, '--overwrite')).toMatchObject({ code: 0 });
    // As after a kill between the two files.
    rmSync(out);
    expect(await cam('--layer', 'layer3', '--class', '4', '-o', out, '--map', map)).toMatchObject({
      code: 0,
    });
    expect(readFileSync(map)).toEqual(bytes);
    rmSync(out);
    const other = await cam('--layer', 'layer3', '--class', '5', '-o', out, '--map', map);
    expect(other.stderr).toContain('OUTPUT_EXISTS');
    expect(existsSync(out)).toBe(false);
  });

  it('says which scores and which layer it takes', async () => {
    const ended = await cam('--json');
    expect(ended.stderr).toBe(
      'layer: layer4.0.relu_2, the last one with places (--layer names another one)\n',
    );
    expect(JSON.parse(ended.stdout)).toMatchObject({ layer: 'layer4.0.relu_2', dims: [1, 2, 2] });
  });

  it('prints JSON, with the label of the class', async () => {
    const ended = await cam('--method', 'saliency', '--class', 'thing 7', '--labels', labels, '--json');
    const facts = { method: 'saliency', layer: null, class: 7, label: 'thing 7', dims: [1, 64, 64] };
    expect(JSON.parse(ended.stdout)).toMatchObject(facts);
    const predicted = await cam('--layer', 'layer4', '--labels', labels, '--json');
    const { class: index, label } = JSON.parse(predicted.stdout) as { class: number; label: string };
    expect(label).toBe(`thing ${index}`);
  });

  it('names the class by the metadata of the model', async () => {
    const labelled = join(scratch, 'labelled.onnx');
    const names = Array.from({ length: 10 }, (_, i) => `${i}: 'kind ${i}'`).join(', ');
    writeFileSync(labelled, withMetadata(tinyResNet(), { names: `{${names}}` }));
    const flags = [
      '--transform',
      JSON.stringify(transform),
      '--layer',
      'layer4',
      '--map',
      join(scratch, 'm.npy'),
    ];
    const ended = await runTapir(['draw', 'cam', labelled, photo, ...flags, '--class', 'kind 6']);
    expect(ended.stdout).toMatch(/^class 6 \(kind 6\), score/);
  });

  it.each<[string, readonly string[]]>([
    ['nothing to write', ['--layer', 'layer4']],
    ['a label of a model without labels', ['--layer', 'layer4', '--class', 'thing 7', '--json']],
    ['another label', ['--layer', 'layer4', '--class', 'thing', '--labels', labels, '--json']],
    ['a class out of range', ['--layer', 'layer4', '--class', '10', '--json']],
    ['labels that are not there', ['--layer', 'layer4', '--labels', join(scratch, 'none'), '--json']],
    ['a transform that does not fit', ['--layer', 'layer4', '--transform', 'ImageNet1K_V1', '--json']],
  ])('refuses %s', async (_, flags) => {
    expect(await cam(...flags)).toMatchObject({ code: 2, stderr: expect.stringContaining('OPTION_INVALID') });
  });
});
