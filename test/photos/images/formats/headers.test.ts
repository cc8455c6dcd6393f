/**
 * Sizes in headers, and files that end too early, which differ from damaged ones in their content. Also covers png.ts and avif.ts.
 */
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { imageFormat } from '../../../../src/photos/images/formats/image-format.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { FORMATS, type SharpFormat } from '../../../../src/photos/images/formats/format-table.js';
import { fixturePath } from '../../../support/fixtures.js';

const FOLDERS = ['preprocess', 'gif', 'jpeg', 'bmp'].map((folder) => fixturePath(`${folder}/images`));
const FILES = FOLDERS.flatMap((folder) => readdirSync(folder).map((name) => [name, folder] as const));
const read = ([name, folder]: readonly [string, string]): Buffer => readFileSync(`${folder}/${name}`);
const fixture = (name: string): Buffer => read(FILES.find(([known]) => known === name)!);

/** `decodes`, or the error's code. Fails the test for anything but an error of a single image. */
async function outcome(bytes: Uint8Array): Promise<string> {
  try {
    const { data } = await loadImage(bytes);
    expect(data).toHaveLength(224 * 224 * 3);
    return 'decodes';
  } catch (error) {
    expect(error).toMatchObject({ code: expect.stringMatching(/^IMAGE_/) });
    return (error as { code: string }).code;
  }
}

/** Lengths to cut at: all in the headers and in the last bytes, and some between. */
function lengthsOf(bytes: Uint8Array): number[] {
  const whole = bytes.length;
  const head = Array.from({ length: 48 }, (_, i) => i);
  const spread = Array.from({ length: 24 }, (_, i) => Math.floor((whole * i) / 24));
  const tail = Array.from({ length: 14 }, (_, i) => whole - 1 - i);
  return [...new Set([...head, ...spread, ...tail])].filter((length) => length < whole).sort((a, b) => a - b);
}

describe('an image that is cut off anywhere', () => {
  it('comes in every format', () => {
    const formats = new Set(FILES.map((file) => imageFormat(read(file))));
    expect(formats).toEqual(new Set(['jpeg', 'png', 'webp', 'gif', 'tiff', 'bmp']));
  });

  it.each(FILES)('%s decodes, or is empty, truncated or too short to recognise', async (name, folder) => {
    const bytes = read([name, folder]);
    for (const length of lengthsOf(bytes)) {
      const code = await outcome(bytes.subarray(0, length));
      if (length === 0) expect(code).toBe('IMAGE_EMPTY');
      else if (code !== 'decodes')
        expect([length, code]).toEqual([length, length < 18 ? expect.any(String) : 'IMAGE_TRUNCATED']);
    }
    expect(await outcome(bytes.subarray(0, bytes.length >> 1))).toBe('IMAGE_TRUNCATED');
    expect(await outcome(bytes)).toBe('decodes');
  });

  it('says how long the file is, what is missing and what to do', async () => {
    const cut = fixture('own_444.jpg').subarray(0, 5000);
    await expect(loadImage(cut)).rejects.toMatchObject({
      code: 'IMAGE_TRUNCATED',
      message:
        'cannot read an image of 5000 bytes: the file ends too early, after 5000 bytes: the end of its image is missing; copy or download it again',
      details: { sizeBytes: 5000, reason: expect.stringMatching(/^the file ends/) },
      cause: expect.any(Error),
    });
    await expect(loadImage(fixture('rgb24.bmp').subarray(0, 200))).rejects.toThrow(
      /its last rows are cut off/,
    );
    await expect(loadImage(Buffer.alloc(0))).rejects.toThrow(/it is empty: the file has no bytes; copy/);
  });

  it('is truncated if it is a JPEG whose second half is zeros', async () => {
    for (const name of ['own_444.jpg', 'own_progressive.jpg', 'own_cmyk.jpg']) {
      const bytes = fixture(name);
      expect(await outcome(Buffer.from(bytes).fill(0, bytes.length >> 1))).toBe('IMAGE_TRUNCATED');
    }
  });
});

describe('readSize', () => {
  const sharpFiles = FILES.map((file) => read(file)).filter((bytes) => imageFormat(bytes) !== 'bmp');

  it('gives the size that decoding gives, in every format', async () => {
    const pixels = { create: { width: 41, height: 30, channels: 3 as const, background: '#246' } };
    const avif = await sharp(pixels).avif({ effort: 0 }).toBuffer();
    const lossless = await sharp(pixels).webp({ lossless: true }).toBuffer();
    const options = createTransform({ resize: null, crop: null });
    for (const bytes of [...sharpFiles, avif, lossless]) {
      const { width, height } = await loadImage(bytes, options);
      const size = FORMATS[imageFormat(bytes) as SharpFormat].readSize(bytes);
      expect(size).toMatchObject({ width, height });
    }
  });

  it('ends on any bytes', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...sharpFiles.filter((bytes) => bytes.length < 6000)),
        fc.nat(200),
        fc.uint8Array({ maxLength: 200 }),
        (whole, length, noise) => {
          const bytes = Buffer.concat([whole.subarray(0, length), noise]);
          // Their headers say what is wrong with them.
          const { bmp: _, pam: _pam, ...others } = FORMATS;
          for (const { readSize } of Object.values(others)) {
            const size = readSize(bytes);
            expect(size === undefined || size.width * size.height >= 0).toBe(true);
          }
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe('an AVIF', () => {
  let avif: Buffer;
  beforeAll(async () => {
    const pixels = { create: { width: 40, height: 30, channels: 3 as const, background: '#246' } };
    avif = await sharp(pixels).avif({ effort: 0 }).toBuffer();
  });

  it('is truncated at most places', async () => {
    expect(await outcome(avif)).toBe('decodes');
    const data = avif.indexOf('mdat');
    for (const length of [20, data - 5, data - 4, data + 2, data + 10, avif.length - 1])
      expect([length, await outcome(avif.subarray(0, length))]).toEqual([length, 'IMAGE_TRUNCATED']);
  });

  it('is whole if its last box extends to the end', () => {
    const open = Buffer.from(avif);
    open.writeUInt32BE(0, open.indexOf('mdat') - 4);
    expect(FORMATS.avif.isCutOff(open)).toBe(false);
  });
});

describe('an image that is damaged, but not cut off', () => {
  const damage = (name: string, at: number, ...values: number[]): Buffer => {
    const bytes = Buffer.from(fixture(name));
    Buffer.from(values).copy(bytes, at);
    return bytes;
  };
  const GIF_BLOCK = 13 + 3 * 2 ** ((fixture('small_frame.gif')[10]! & 7) + 1);
  const stripsAt = (bytes: Buffer, tag: number): number => {
    const directory = bytes.readUInt32LE(4);
    for (let at = directory + 2; ; at += 12) if (bytes.readUInt16LE(at) === tag) return at + 8;
  };

  it.each<[string, () => Buffer]>([
    ['PNG with a wrong checksum', () => readFileSync(fixturePath('preprocess/bad/crc.png'))],
    ['PNG with a chunk that is too long', () => damage('own_strip.png', 33, 0x7f, 0xff, 0xff, 0xff)],
    ['PNG with a chunk of no name', () => damage('own_strip.png', 37, 0, 0, 0, 0)],
    ['JPEG with a segment that is too long', () => damage('own_444.jpg', 4, 0xff, 0xff)],
    [
      'JPEG of zeros',
      () => damage('own_444.jpg', 4, ...Array.from({ length: 400 }, () => 0)).subarray(0, 404),
    ],
    ['JPEG without its tables', () => damage('own_444.jpg', 3, 0xd9)],
    ['GIF with a block of no kind', () => damage('small_frame.gif', GIF_BLOCK, 0x55)],
    ['WebP with wrong pixels', () => Buffer.from(fixture('own.webp')).fill(0xff, 20, 60)],
    ['text', () => readFileSync(fixturePath('preprocess/bad/text.jpg'))],
  ])('is not truncated: %s', async (_what, make) => {
    expect(await outcome(make())).toBe('IMAGE_UNREADABLE');
  });

  it('is reported as truncated if it is a TIFF whose pixels are beyond its end', async () => {
    const bytes = Buffer.from(fixture('own_lzw.tiff'));
    expect(FORMATS.tiff.isCutOff(bytes)).toBe(false);
    expect(bytes.toString('latin1', 0, 2)).toBe('II');
    const at = stripsAt(bytes, 273);
    const isAlone = bytes.readUInt32LE(at - 4) === 1;
    bytes.writeUInt32LE(bytes.length - 1, isAlone ? at : bytes.readUInt32LE(at));
    expect(await outcome(bytes)).toBe('IMAGE_TRUNCATED');
  });
});

describe('isCutOff', () => {
  it('ends on any bytes', () => {
    const formats: SharpFormat[] = ['jpeg', 'png', 'gif', 'webp', 'tiff', 'avif'];
    const heads = FILES.map((file) => read(file)).filter((bytes) => bytes.length < 6000);
    fc.assert(
      fc.property(
        fc.constantFrom(...heads),
        fc.nat(200),
        fc.uint8Array({ minLength: 8, maxLength: 200 }),
        (whole, length, noise) => {
          const bytes = Buffer.concat([whole.subarray(0, Math.max(12, length)), noise]);
          for (const format of formats) expect(typeof FORMATS[format].isCutOff(bytes)).toBe('boolean');
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('reads only one list of strips of a directory that has thousands', () => {
    // 60 000 entries with a million strips each.
    const bytes = Buffer.alloc(5_000_000);
    bytes.write('II*\0', 'latin1');
    bytes.writeUInt32LE(8, 4);
    bytes.writeUInt16LE(60_000, 8);
    for (let at = 10; at < 10 + 60_000 * 12; at += 12) {
      bytes.writeUInt16LE(273, at);
      bytes.writeUInt16LE(4, at + 2);
      bytes.writeUInt32LE(1_000_000, at + 4);
      bytes.writeUInt32LE(1_000_000, at + 8);
    }
    expect(FORMATS.tiff.isCutOff(bytes)).toBe(false);
  });
});
