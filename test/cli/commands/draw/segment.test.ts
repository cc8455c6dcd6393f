/** `tapir draw segment`: masks with a palette at the photo's own size. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import sharp from 'sharp';
import { createModel } from 'onnx-tapir/zoo';
import { beforeAll, describe, expect, it } from 'vitest';
import { classColour } from '../../../../src/products/maps/class-mask.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
const photo = projectPath('examples/photos/sea/sea-0.jpg');
const small = JSON.stringify({ resize: 64, crop: null });

beforeAll(async () => (await createModel('lraspp_mobilenet_v3_large')).save(model));

/** The numbers of a PNG with a palette. */
function numbersOf(path: string): { width: number; height: number; numbers: Uint8Array; palette: Buffer } {
  const bytes = readFileSync(path);
  let palette = Buffer.alloc(0);
  const data: Buffer[] = [];
  for (let at = 8; at < bytes.length;) {
    const length = bytes.readUInt32BE(at);
    const type = bytes.toString('latin1', at + 4, at + 8);
    const body = bytes.subarray(at + 8, at + 8 + length);
    if (type === 'PLTE') palette = body;
    if (type === 'IDAT') data.push(body);
    at += 12 + length;
  }
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  const rows = inflateSync(Buffer.concat(data));
  const numbers = Uint8Array.from({ length: width * height }, (_, i) => rows[i + Math.floor(i / width) + 1]!);
  return { width, height, numbers, palette };
}

describe('tapir draw segment', () => {
  it('writes the class of every pixel, in the colours of Pascal VOC', { timeout: 120_000 }, async () => {
    const out = join(scratch, 'mask.png');
    const { stdout, code } = await runTapir([
      'draw',
      'segment',
      model,
      photo,
      '-o',
      out,
      '--transform',
      small,
      '--json',
    ]);
    expect(code).toBe(0);
    const [{ shares, width, height }] = JSON.parse(stdout) as [
      { shares: { class: number; share: number }[]; width: number; height: number },
    ];
    const mask = numbersOf(out);
    const meta = await sharp(photo).metadata();
    expect([mask.width, mask.height]).toEqual([meta.width, meta.height]);
    expect([width, height]).toEqual([meta.width, meta.height]);
    expect([...mask.palette]).toEqual(Array.from({ length: 21 }, (_, index) => classColour(index)).flat());
    for (const { class: index, share } of shares)
      expect(mask.numbers.filter((value) => value === index).length / mask.numbers.length).toBeCloseTo(
        share,
        12,
      );
    const first = mask.numbers[0]!;
    const { data } = await sharp(out).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    expect([...data.subarray(0, 3)]).toEqual([...classColour(first)]);
  });

  it(
    'names the masks of several photos, lays colours over photos, prints classes',
    { timeout: 120_000 },
    async () => {
      const out = join(scratch, 'both.png');
      const photos = [photo, projectPath('examples/photos/sea/sea-1.jpg')];
      const { stdout, code } = await runTapir([
        'draw',
        'segment',
        model,
        ...photos,
        '-o',
        out,
        '--transform',
        small,
        '--overlay',
        '--labels',
      ]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/both-sea-0\.png\n {2}\d+: \d+\.\d %/);
      expect((await sharp(join(scratch, 'both-sea-1.png')).metadata()).channels).toBe(3);
    },
  );

  it('refuses transforms that crop', async () => {
    const out = join(scratch, 'cropped.png');
    const { stderr, code } = await runTapir([
      'draw',
      'segment',
      model,
      photo,
      '-o',
      out,
      '--transform',
      'ImageNet1K_V1',
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('without a crop')]);
  });
});
