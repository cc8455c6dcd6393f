/** Files of 30 MB that consist of millions of tiny parts: refused before a decoder spends seconds and a gigabyte on them. */
import { crc32, deflateSync } from 'node:zlib';
import { isTapirError, loadImage } from 'onnx-tapir';
import { createService } from 'onnx-tapir/serve';
import { beforeAll, describe, expect, it } from 'vitest';
import { cleanUpServices, openSmall, photo, postImage, SMALL } from '../../../support/service.js';

const BYTES = 30_000_000;
/** The most CPU time of a refusal. */
const LIMIT_MS = 200;

const big = (value: number): Buffer =>
  Buffer.of(value >>> 24, (value >> 16) & 255, (value >> 8) & 255, value & 255);
const little = (value: number): Buffer => big(value).reverse();
/** As many copies of a part as make {@link BYTES}. */
const many = (part: Buffer): Buffer => Buffer.alloc(BYTES - (BYTES % part.length), part);

const chunk = (type: string, data: Buffer = Buffer.alloc(0)): Buffer => {
  const body = Buffer.concat([Buffer.from(type), data]);
  return Buffer.concat([big(data.length), body, big(crc32(body))]);
};
const pngHead = [
  Buffer.from('\u0089PNG\r\n\u001a\n', 'latin1'),
  chunk('IHDR', Buffer.concat([big(8), big(8), Buffer.of(8, 2, 0, 0, 0)])),
];
const pngEnd = [chunk('IDAT', deflateSync(Buffer.alloc(8 * 25))), chunk('IEND')];

const jpegHead = Buffer.of(0xff, 0xd8);
const jpeg = photo('city/city-0.jpg');

const gifHead = [Buffer.from('GIF89a'), Buffer.of(8, 0, 8, 0, 0x80, 0, 0), Buffer.alloc(6)];
const gifFrame = Buffer.of(
  0x2c,
  0,
  0,
  0,
  0,
  8,
  0,
  8,
  0,
  0,
  2,
  7,
  0x84,
  0x8f,
  0xa9,
  0xcb,
  0xed,
  0x0f,
  0x63,
  0,
);

const webp = (...parts: Buffer[]): Buffer => {
  const body = Buffer.concat([
    Buffer.from('WEBPVP8X'),
    little(10),
    Buffer.of(8, 0, 0, 0, 7, 0, 0, 7, 0, 0),
    ...parts,
  ]);
  return Buffer.concat([Buffer.from('RIFF'), little(body.length), body]);
};

const box = (type: string, data: Buffer = Buffer.alloc(0)): Buffer =>
  Buffer.concat([big(8 + data.length), Buffer.from(type), data]);
const heif = (brand: string): Buffer => box('ftyp', Buffer.from(`${brand}\0\0\0\0${brand}`));
/** An empty box whose length has 64 bits. */
const longBox = Buffer.concat([big(1), Buffer.from('free'), big(0), big(16)]);
const sizes = box('ispe', Buffer.concat([big(0), big(8), big(8)]));

/** A TIFF of many images of 8 × 8 pixels, whose pixels are the same bytes. */
function tiffOf(images: number, isEndless: boolean): Buffer {
  const directory = 2 + 8 * 12 + 4;
  const pixels = 8 + images * directory;
  const file = Buffer.alloc(pixels + 64, 200);
  file.write('II*\0', 'latin1');
  file.writeUInt32LE(8, 4);
  const values = [
    [256, 8],
    [257, 8],
    [258, 8],
    [259, 1],
    [262, 1],
    [273, pixels],
    [278, 8],
    [279, 64],
  ] as const;
  for (let at = 8; at < pixels; at += directory) {
    file.writeUInt16LE(values.length, at);
    for (const [i, [tag, value]] of values.entries()) {
      const entry = at + 2 + i * 12;
      file.writeUInt16LE(tag, entry);
      file.writeUInt16LE(4, entry + 2);
      file.writeUInt32LE(1, entry + 4);
      file.writeUInt32LE(value, entry + 8);
    }
    const next = at + directory;
    file.writeUInt32LE(next < pixels ? next : isEndless ? 8 : 0, next - 4);
  }
  return file;
}

const REFUSED: Readonly<Record<string, () => Buffer>> = {
  'PNG, empty texts, cut off': () => Buffer.concat([...pngHead, many(chunk('tEXt'))]),
  'PNG, empty texts, whole': () => Buffer.concat([...pngHead, many(chunk('tEXt')), ...pngEnd]),
  'JPEG, empty APP1, cut off': () => Buffer.concat([jpegHead, many(Buffer.of(0xff, 0xe1, 0, 2))]),
  'JPEG, empty APP2, whole': () =>
    Buffer.concat([jpegHead, many(Buffer.of(0xff, 0xe2, 0, 2)), jpeg.subarray(2)]),
  'JPEG, fill bytes': () => Buffer.concat([jpegHead, many(Buffer.of(0xff))]),
  'JPEG, fill bytes, whole': () => Buffer.concat([jpegHead, many(Buffer.of(0xff)), jpeg.subarray(2)]),
  'JPEG, stuffed zeros': () => Buffer.concat([jpegHead, many(Buffer.of(0xff, 0)), jpeg.subarray(2)]),
  'GIF, empty comments': () => Buffer.concat([...gifHead, many(Buffer.of(0x21, 0xfe, 0)), gifFrame]),
  'GIF, a comment of single bytes': () =>
    Buffer.concat([...gifHead, Buffer.of(0x21, 0xfe), many(Buffer.of(1, 65)), Buffer.of(0), gifFrame]),
  'GIF, pixels of single bytes': () =>
    Buffer.concat([...gifHead, gifFrame.subarray(0, 11), many(Buffer.of(1, 65))]),
  'WebP, empty chunks': () => webp(many(Buffer.concat([Buffer.from('abcd'), little(0)]))),
  'WebP, empty frames': () => webp(many(Buffer.concat([Buffer.from('ANMF'), little(16), Buffer.alloc(16)]))),
  'AVIF, empty boxes': () => Buffer.concat([heif('avif'), many(box('free'))]),
  'AVIF, empty boxes with long lengths': () => Buffer.concat([heif('avif'), many(longBox)]),
  'AVIF, sizes': () => Buffer.concat([heif('avif'), box('meta', many(sizes)), box('mdat')]),
  'HEIC, empty boxes': () => Buffer.concat([heif('heic'), many(box('free'))]),
};

async function spentMs(step: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await step();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe('a file of millions of parts', () => {
  const small = Buffer.concat([...pngHead, ...pngEnd]);
  // The libraries are loaded before times are taken.
  beforeAll(() => loadImage(small));

  it.each(Object.entries(REFUSED))('is refused: %s', async (_name, make) => {
    const bytes = make();
    let error: unknown;
    const ms = await spentMs(async () => {
      error = await loadImage(bytes).catch((reason: unknown) => reason);
    });
    expect(isTapirError(error, 'IMAGE_UNREADABLE') && error.details.reason).toMatch(/more than 10000 chunks/);
    expect(ms).toBeLessThan(LIMIT_MS);
  });

  it.each([false, true])(
    'may be a TIFF, of which only the first image is read (endless: %s)',
    async (isEndless) => {
      const bytes = tiffOf(BYTES / 102, isEndless);
      let size: unknown;
      const ms = await spentMs(async () => (size = (await loadImage(bytes)).sourceWidth));
      expect(size).toBe(8);
      expect(ms).toBeLessThan(LIMIT_MS);
      // The caller's bytes are as before.
      expect(bytes.readUInt32LE(8 + 98)).toBe(8 + 102);
    },
  );

  it('may have any number of chunks of pixels', async () => {
    const chunks = Buffer.alloc(12 * 20_000, chunk('IDAT'));
    const image = await loadImage(Buffer.concat([...pngHead, chunks, ...pngEnd]));
    expect([image.sourceWidth, image.sourceHeight]).toEqual([8, 8]);
  });
});

describe('a service', () => {
  cleanUpServices();

  it('answers 422, and its decoders live on', async () => {
    const faults: unknown[] = [];
    const service = createService(await openSmall(), {
      transform: SMALL,
      onError: (error) => faults.push(error),
    });
    const url = await service.listen({ port: 0 });
    for (const name of ['PNG, empty texts, cut off', 'JPEG, empty APP1, cut off', 'JPEG, fill bytes']) {
      const bytes = Uint8Array.from(REFUSED[name]!());
      const answer = await postImage(url, bytes);
      expect([answer.status, await answer.json()]).toEqual([
        422,
        { error: { code: 'IMAGE_UNREADABLE', message: expect.stringContaining('chunks') as string } },
      ]);
      expect((await postImage(url, jpeg)).status).toBe(200);
    }
    await service.close();
    expect(faults).toEqual([]);
  });
});
