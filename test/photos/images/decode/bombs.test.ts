/**
 * Decompression bombs: a few bytes that claim, or hold, more pixels than the limit are refused from their header in every format.
 *
 * Memory: a process that has decoded a small image of each format before must not grow by more than 16 MiB over all bombs of a
 * test. As pixels, the smallest of them would take 27 MB, and the others gigabytes.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { claimGifFrame, claimSize, flatImages, smallImages, withText } from '../../../support/bombs.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { runScript } from '../../../support/run.js';

const MIB = 2 ** 20;
const scratch = scratchFolder();
let small: Readonly<Record<string, Buffer>> = {};

beforeAll(async () => {
  small = await smallImages();
});

interface Outcome {
  /** For each file: `ok`, or the error's code. */
  readonly codes: Readonly<Record<string, string>>;
  /** Growth of the process's largest resident size. */
  readonly growthBytes: number;
}

/** Loads files in a separate process, after all small images. */
async function loadInProcess(
  files: Readonly<Record<string, Buffer>>,
  options: { readonly limitPixels?: number; readonly decode?: 'fast' } = {},
): Promise<Outcome> {
  const folder = mkdtempSync(join(scratch, 'bombs-'));
  const write = (prefix: string, all: Readonly<Record<string, Buffer>>): string[][] =>
    Object.entries(all).map(([name, bytes]) => {
      const path = join(folder, `${prefix}-${name.replaceAll(' ', '-')}`);
      writeFileSync(path, bytes);
      return [name, path];
    });
  const { code, stdout, stderr } = await runScript(`
    import { loadImage } from 'onnx-tapir';
    const [warm, bombs, options] = ${JSON.stringify([write('small', small), write('bomb', files), options])};
    for (const [, path] of warm) await loadImage(path);
    const before = process.resourceUsage().maxRSS;
    const codes = {};
    for (const [name, path] of bombs)
      codes[name] = await loadImage(path, options).then(() => 'ok', (error) => error.code ?? String(error));
    const growthBytes = (process.resourceUsage().maxRSS - before) * 1024;
    console.log(JSON.stringify({ codes, growthBytes }));`);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Outcome;
}

function expectRefused({ codes, growthBytes }: Outcome): void {
  for (const [name, code] of Object.entries(codes)) expect([name, code]).toEqual([name, 'IMAGE_TOO_LARGE']);
  expect(growthBytes).toBeLessThan(16 * MIB);
}

const claimAll = (width: number, height: number): Record<string, Buffer> =>
  Object.fromEntries(
    Object.entries(small).map(([name, bytes]) => [name, claimSize(name, bytes, width, height)]),
  );

describe('a decompression bomb', () => {
  it('comes in every format', () => {
    const formats = new Set(Object.keys(small).map((name) => name.split(' ').at(-1)));
    expect(formats).toEqual(new Set(['avif', 'bmp', 'gif', 'jpeg', 'png', 'tiff', 'webp']));
    for (const bytes of Object.values(small)) expect(bytes.length).toBeLessThan(1000);
  });

  it.each([
    ['60000 × 60000 pixels', 60_000, 60_000],
    ['the most that its header can hold', 2 ** 32 - 1, 2 ** 32 - 1],
  ])('that claims %s is refused', async (_what, width, height) => {
    const files = claimAll(width, height);
    expect(files['avif']!.length).toBeLessThan(1000);
    expectRefused(await loadInProcess({ ...files, frame: claimGifFrame(small['gif']!, 65_535, 65_535) }));
  });

  it('that claims 60000 × 60000 pixels is refused by the fast mode', async () => {
    expectRefused(await loadInProcess(claimAll(60_000, 60_000), { decode: 'fast' }));
  });

  it('that holds 9 million pixels in few bytes is refused by a smaller limit', async () => {
    const files = await flatImages(3000, 3000);
    for (const [name, { length }] of Object.entries(files))
      expect([name, length < 300_000]).toEqual([name, true]);
    expectRefused(await loadInProcess(files, { limitPixels: 3000 * 3000 - 1 }));
    const { codes } = await loadInProcess(
      { png: files['png']!, bmp: files['bmp']! },
      { limitPixels: 3000 * 3000 },
    );
    expect(codes).toEqual({ png: 'ok', bmp: 'ok' });
  });

  it('of a PNG’s texts and colour profile, 600 MB of them, does not expand', async () => {
    const { codes, growthBytes } = await loadInProcess({ text: withText(small['png']!, 200e6) });
    expect(codes).toEqual({ text: 'ok' });
    expect(growthBytes).toBeLessThan(16 * MIB);
  });

  it('that becomes large only by its transform is refused', async () => {
    const pixels = { create: { width: 1, height: 60_000, channels: 3 as const, background: '#246' } };
    const long = await sharp(pixels).png().toBuffer();
    // 256 × 15 360 000 pixels.
    await expect(loadImage(long, { crop: null })).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      message: expect.stringMatching(/the resized image/),
    });
    expect(await loadImage(long, createTransform())).toMatchObject({ height: 224, width: 224 });
    expect(await loadImage(long, { resize: null, crop: null })).toMatchObject({ height: 60_000, width: 1 });
  });
});
