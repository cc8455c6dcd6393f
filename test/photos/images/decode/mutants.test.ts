/** Damaged images of every format: each loads or fails with a typed error of an image, in bounded time and memory. */
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { smallImages } from '../../../support/bombs.js';
import { fixturePath, projectPath, scratchFolder } from '../../../support/fixtures.js';
import { runNode } from '../../../support/run.js';
import { rounds } from '../../../support/rounds.js';

/** Some 15 s of CPU time before a release. */
const MUTANTS = rounds(1500, 6000);
const SEED = 20_251;

/** Small files with many kinds of headers, in addition to flat images of every format. */
const FIXTURES = [
  'preprocess/images/own_strip.png',
  'preprocess/images/own.webp',
  'preprocess/images/exif_6_300x400.jpg',
  'preprocess/images/own_progressive.jpg',
  'preprocess/images/own_cmyk.jpg',
  'preprocess/images/own_lzw.tiff',
  'gif/images/transparent_animated.gif',
  'gif/images/own_palette_small_frame_transparent.gif',
  'bmp/images/rgb16_565_v3.bmp',
  'bmp/images/rle4_1.bmp',
  'bmp/images/pal8_os2_v2.bmp',
];

interface Summary {
  readonly loaded: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
  readonly slowestCpuMs: number;
  readonly slowest: string;
  readonly formats: Readonly<Record<string, number>>;
  readonly largestBytes: number;
}

describe('mutants of images', () => {
  it(`load or are refused: ${MUTANTS} of them`, { timeout: 900_000 }, async () => {
    const folder = scratchFolder();
    for (const [name, bytes] of Object.entries(await smallImages()))
      writeFileSync(join(folder, `${name.replaceAll(' ', '-')}.${name.split(' ').at(-1)}`), bytes);
    for (const path of FIXTURES) copyFileSync(fixturePath(path), join(folder, path.split('/').at(-1)!));
    const script = projectPath('test/support/fuzz-images.mjs');
    const { code, signal, stdout } = await runNode([script, folder, String(MUTANTS), String(SEED)]);
    expect([code, signal]).toEqual([0, null]);
    const summary = JSON.parse(stdout) as Summary;
    expect(summary.wrong).toEqual([]);
    const refused = Object.values(summary.refused).reduce((sum, count) => sum + count, 0);
    expect(summary.loaded + refused).toBe(MUTANTS);
    // Else the test would try nothing.
    expect(Math.min(summary.loaded, refused)).toBeGreaterThan(MUTANTS / 12);
    expect(Object.keys(summary.refused)).toEqual(
      expect.arrayContaining(['IMAGE_EMPTY', 'IMAGE_TOO_LARGE', 'IMAGE_TRUNCATED', 'IMAGE_UNREADABLE']),
    );
    for (const format of ['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif', 'bmp'])
      expect([format, summary.formats[format]! > MUTANTS / 30]).toEqual([format, true]);
    expect([summary.slowest, summary.slowestCpuMs < 5000]).toEqual([summary.slowest, true]);
    expect(summary.largestBytes).toBeLessThan(600e6);
  });
});
