/** Tiles of pictures: Pillow's crops of Pillow's resized picture, and the same from tiled and pyramid TIFFs. */
import { createHash } from 'node:crypto';
import { closeSync, ftruncateSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import sharp, { type TiffOptions } from 'sharp';
import { describe, expect, it } from 'vitest';
import { loadImage } from '../../../src/photos/feeds/load-image.js';
import { loadTiles } from '../../../src/photos/feeds/load-tiles.js';
import type { LoadedTile } from '../../../src/photos/images/transform/read-tiles.js';
import type { TileOptions, TilesGiven } from '../../../src/photos/images/transform/tile-options.js';
import { scratchFolder, sharedFixtures, sharedNote } from '../../support/fixtures.js';

const scratch = scratchFolder();
/** No transform: tiles as they are cut. */
const PLAIN = { resize: null, crop: null } as const;

const digest = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');

async function collect(
  source: Parameters<typeof loadTiles>[0],
  tiles: TilesGiven,
  transform: Parameters<typeof loadTiles>[1] = PLAIN,
): Promise<LoadedTile[]> {
  const found: LoadedTile[] = [];
  for await (const tile of loadTiles(source, transform, tiles)) found.push(tile);
  return found;
}

/** Hash and place of each tile. */
const facts = (tiles: readonly LoadedTile[]) =>
  tiles.map(({ tile: { level, x, y, width, height }, data }) => [level, x, y, width, height, digest(data)]);

/** Smooth colours with details, different everywhere. */
function pixelsOf(width: number, height: number): Uint8Array {
  return Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [pixel, channel] = [Math.floor(i / 3), i % 3];
    const [x, y] = [pixel % width, Math.floor(pixel / width)];
    return (x * (channel + 1) + y * 2 + ((x * y) % 31)) & 255;
  });
}

async function savePicture(name: string, options: TiffOptions, [width, height] = [700, 500]) {
  const path = join(scratch, name);
  const raw = { width, height, channels: 3 } as const;
  await sharp(pixelsOf(width, height), { raw })
    .tiff({ compression: 'none', ...options })
    .toFile(path);
  return path;
}

interface Golden {
  readonly sets: readonly {
    readonly name: string;
    readonly tile_size: readonly [number, number];
    readonly overlap: readonly [number, number];
    readonly scales: readonly number[];
    readonly edge: TileOptions['edge'];
    readonly pad_color: readonly [number, number, number];
    readonly interpolation: TileOptions['interpolation'];
  }[];
  readonly images: Readonly<Record<string, string>>;
  readonly expected: Readonly<
    Record<string, Readonly<Record<string, readonly (readonly (number | string)[])[]>>>
  >;
}

describe.skipIf(sharedFixtures === undefined)(`tiles as Pillow's${sharedNote}`, () => {
  const root = sharedFixtures ?? '';
  const golden = sharedFixtures
    ? (JSON.parse(readFileSync(join(root, 'patches/tiling.json'), 'utf8')) as Golden)
    : undefined;
  for (const set of golden?.sets ?? [])
    it(set.name, async () => {
      const { tile_size, overlap, scales, edge, pad_color: fill, interpolation } = set;
      const sides = ([width, height]: readonly [number, number]) => ({ width, height });
      const tiles = {
        size: sides(tile_size),
        overlap: sides(overlap),
        scales,
        edge,
        fill,
        interpolation,
      };
      for (const [image, path] of Object.entries(golden!.images)) {
        const expected = golden!.expected[set.name]![image]!;
        const found = facts(await collect(join(root, path), tiles));
        expect(found.map((row) => row.slice(0, 5))).toEqual(expected.map((row) => row.slice(0, 5)));
        for (const [i, row] of found.entries()) expect(expected[i]!.slice(5), image).toContain(row[5]);
      }
    });
});

describe('tiles', () => {
  const RULES: readonly TilesGiven[] = [
    { size: 128 },
    { size: { height: 96, width: 200 }, overlap: 32, edge: 'pad', fill: [1, 2, 3] },
    { size: 128, scales: [1, 0.6, 0.2], interpolation: 'bicubic' },
  ];

  it('of tiled, stripped and turned TIFFs, of bytes and of PNGs are the same', async () => {
    const tiled = await savePicture('tiled.tif', { tile: true, tileWidth: 64, tileHeight: 80 });
    const stripped = await savePicture('stripped.tif', {});
    const png = await sharp(stripped).png().toBuffer();
    const lzw = await savePicture('lzw].tif', { tile: true, compression: 'lzw', bigtiff: true });
    for (const rule of RULES) {
      const expected = facts(await collect(png, rule));
      expect(expected.length).toBeGreaterThan(10);
      for (const source of [tiled, stripped, lzw, new Uint8Array(readFileSync(tiled))])
        expect(facts(await collect(source, rule)), JSON.stringify(rule)).toEqual(expected);
    }
  });

  it('of a turned TIFF are those of the upright picture', async () => {
    const upright = await savePicture('upright.tif', {}, [300, 200]);
    const turned = join(scratch, 'turned.tif');
    // Stored as the picture turned by 90°, and marked so.
    await sharp(upright)
      .rotate(270)
      .withMetadata({ orientation: 6 })
      .tiff({ compression: 'none' })
      .toFile(turned);
    expect(facts(await collect(turned, { size: 90 }))).toEqual(facts(await collect(upright, { size: 90 })));
  });

  it('of a pyramid are read from the page that has the scale, others resampled', async () => {
    const path = await savePicture('pyramid.tif', {
      tile: true,
      pyramid: true,
      tileWidth: 64,
      tileHeight: 64,
    });
    const page = await sharp(path, { page: 1 }).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    expect([page.info.width, page.info.height]).toEqual([350, 250]);
    const [half] = await collect(path, { size: { height: 250, width: 350 }, scales: [0.5] });
    expect(digest(half!.data)).toBe(digest(page.data));
    expect(half!.tile).toEqual({ level: 0, x: 0, y: 0, width: 700, height: 500 });
    const [third] = await collect(path, { size: { height: 167, width: 233 }, scales: [1 / 3] });
    const whole = await loadImage(path, { resize: { height: 167, width: 233 }, crop: null });
    expect(digest(third!.data)).toBe(digest(whole.data));
  });

  it('are transformed like photos', async () => {
    const path = await savePicture('photo.tif', { tile: true });
    const options = { resize: 64, crop: 48 } as const;
    const [first] = await collect(path, { size: 256 }, options);
    const raw = { width: 256, height: 256, channels: 3 } as const;
    const [cut] = await collect(path, { size: 256 });
    const photo = await loadImage(await sharp(cut!.data, { raw }).png().toBuffer(), options);
    expect(first!.toTensors()).toEqual(photo.toTensors());
    expect([first!.sourceWidth, first!.sourceHeight]).toEqual([700, 500]);
    const floats = await collect(path, { size: 256 }, { ...options, resampler: 'torch-float' });
    expect(floats[0]!.toTensor().dims).toEqual([1, 3, 48, 48]);
  });

  it('leave out background, of which padding is no part', async () => {
    const raw = { width: 300, height: 100, channels: 3 } as const;
    const pixels = new Uint8Array(300 * 100 * 3).fill(240);
    // The second tile has a black half; of the third one, only white pixels are inside.
    for (let row = 0; row < 100; row++) pixels.fill(0, (row * 300 + 150) * 3, (row * 300 + 200) * 3);
    const png = await sharp(pixels, { raw }).png().toBuffer();
    const wide = await sharp(png).resize(260, 100, { fit: 'cover', position: 'left' }).png().toBuffer();
    const rule = { size: 100, edge: 'pad' } as const;
    expect(await collect(wide, rule)).toHaveLength(3);
    const kept = await collect(wide, { ...rule, minStd: 8 });
    expect(kept.map(({ tile }) => tile.x)).toEqual([100]);
    expect(await collect(wide, { ...rule, minStd: 120 })).toHaveLength(1);
    expect(await collect(wide, { ...rule, minStd: 120.1 })).toHaveLength(0);
  });

  it('are of pictures above limitPixels too', async () => {
    const path = await savePicture('limit.tif', {});
    expect(await collect(path, { size: 500 }, { ...PLAIN, limitPixels: 10 })).toHaveLength(2);
    const large = await sharp({ create: { width: 6000, height: 4000, channels: 3, background: '#123456' } })
      .png()
      .toBuffer();
    const [corner] = await collect(large, { size: 2000, scales: [0.25] }, { ...PLAIN, limitPixels: 10 });
    expect([...corner!.data.subarray(0, 3)]).toEqual([0x12, 0x34, 0x56]);
  });

  it.each<[string, Partial<TileOptions>]>([
    ['no size', {}],
    ['a size of 0', { size: 0 }],
    ['an overlap as wide as a tile', { size: { height: 9, width: 8 }, overlap: 8 }],
    ['a scale of 0', { size: 8, scales: [1, 0] }],
    ['no scales', { size: 8, scales: [] }],
    ['a colour of two numbers', { size: 8, fill: [1, 2] as never }],
    ['an unknown edge', { size: 8, edge: 'wrap' as never }],
    ['an unknown option', { size: 8, stride: 4 } as never],
    ['minStd beyond bytes', { size: 8, minStd: 256 }],
  ])('refuse %s', async (_what, tiles) => {
    await expect(collect('nowhere.png', tiles as TilesGiven)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });

  it('refuse crops', async () => {
    await expect(collect('nowhere.png', { size: 8 }, { crops: 'five' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});

describe('hostile TIFFs', () => {
  /** A TIFF with one directory and nothing else. */
  function headerOnly(
    entries: readonly (readonly [tag: number, type: 3 | 4, value: number, count?: number])[],
  ) {
    const bytes = Buffer.alloc(8 + 2 + entries.length * 12 + 4);
    bytes.write('II*\0', 'latin1');
    bytes.writeUInt32LE(8, 4);
    bytes.writeUInt16LE(entries.length, 8);
    for (const [i, [tag, type, value, count = 1]] of entries.entries()) {
      const at = 10 + i * 12;
      bytes.writeUInt16LE(tag, at);
      bytes.writeUInt16LE(type, at + 2);
      bytes.writeUInt32LE(count, at + 4);
      bytes.writeUInt32LE(value, at + 8);
    }
    return bytes;
  }
  const sides = (side: number) => [[256, 4, side] as const, [257, 4, side] as const];
  const tile = [[322, 3, 256] as const, [323, 3, 256] as const];

  it.each([
    ['10⁶ × 10⁶ pixels in tiles', headerOnly([...sides(1e6), ...tile, [324, 4, 8], [325, 4, 8]])],
    ['10⁶ × 10⁶ pixels in strips', headerOnly([...sides(1e6), [273, 4, 8], [279, 4, 8]])],
    ['3·10⁵ × 3·10⁵ pixels in one tile', headerOnly([...sides(3e5), ...tile, [324, 4, 8], [325, 4, 8]])],
    ['tiles of 4 · 10⁹ pixels', headerOnly([...sides(6e4), [322, 3, 65_520], [323, 3, 65_520]])],
    ['no pixels', headerOnly([...sides(0), ...tile])],
  ])('that promise %s are refused at once', async (name, bytes) => {
    const path = join(scratch, 'hostile.tif');
    writeFileSync(path, bytes);
    for (const source of [path, new Uint8Array(bytes)]) {
      const started = performance.now();
      const error: unknown = await collect(source, { size: 512 }).catch((reason: unknown) => reason);
      expect(error, name).toMatchObject({
        code: expect.stringMatching(/^IMAGE_(TOO_LARGE|TRUNCATED|UNREADABLE)$/) as string,
      });
      expect(performance.now() - started).toBeLessThan(10_000);
    }
  });

  it('are refused if they are cut off, or go round in circles', async () => {
    const path = await savePicture('whole.tif', { tile: true });
    const bytes = readFileSync(path);
    const cut = join(scratch, 'cut.tif');
    writeFileSync(cut, bytes.subarray(0, bytes.length - 500));
    await expect(collect(cut, { size: 512 })).rejects.toMatchObject({ code: 'IMAGE_TRUNCATED' });
    const loop = Buffer.from(bytes);
    const directory = loop.readUInt32LE(4);
    loop.writeUInt32LE(directory, directory + 2 + loop.readUInt16LE(directory) * 12);
    const found: unknown = await collect(new Uint8Array(loop), { size: 512 }).catch(
      (reason: unknown) => reason,
    );
    if (!Array.isArray(found)) expect(found).toMatchObject({ code: 'IMAGE_UNREADABLE' });
  });

  it('may be longer than memory: only what is needed is read', async () => {
    const path = join(scratch, 'sparse.tif');
    writeFileSync(path, headerOnly([...sides(1000), [273, 4, 8], [279, 4, 8]]));
    const file = openSync(path, 'r+');
    ftruncateSync(file, 3 * 1024 ** 3);
    writeSync(file, Buffer.from('II'), 0, 2, 0);
    closeSync(file);
    await expect(collect(path, { size: 512 })).rejects.toMatchObject({ code: /^IMAGE_/ });
  });
});
