/** Small files that claim to be large images, or are, in every format. */
import { crc32, deflateSync } from 'node:zlib';
import sharp, { type Sharp } from 'sharp';

/** A small, sound image in each format. */
export async function smallImages(): Promise<Readonly<Record<string, Buffer>>> {
  return encodeAll(40, 30);
}

/** Flat images of a size: few bytes that expand to many. */
export async function flatImages(width: number, height: number): Promise<Readonly<Record<string, Buffer>>> {
  return encodeAll(width, height);
}

async function encodeAll(width: number, height: number): Promise<Readonly<Record<string, Buffer>>> {
  const flat = (): Sharp => sharp({ create: { width, height, channels: 3, background: '#246' } });
  return {
    jpeg: await flat().jpeg().toBuffer(),
    'progressive jpeg': await flat().jpeg({ progressive: true }).toBuffer(),
    png: await flat().png().toBuffer(),
    'interlaced png': await flat().png({ progressive: true }).toBuffer(),
    gif: await flat().gif({ effort: 1 }).toBuffer(),
    webp: await flat().webp({ effort: 0 }).toBuffer(),
    'lossless webp': await flat().webp({ lossless: true, effort: 0 }).toBuffer(),
    'transparent webp': await flat().ensureAlpha(0.5).webp({ effort: 0 }).toBuffer(),
    tiff: await flat().tiff({ compression: 'deflate' }).toBuffer(),
    'tiled tiff': await flat().tiff({ compression: 'deflate', tile: true }).toBuffer(),
    avif: await flat().avif({ effort: 0 }).toBuffer(),
    bmp: flatBmp(width, height),
  };
}

/** A BMP of run lengths: two bytes for 255 pixels. */
export function flatBmp(width: number, height: number): Buffer {
  const head = Buffer.alloc(54 + 4);
  head.write('BM');
  head.writeUInt32LE(58, 10);
  head.writeUInt32LE(40, 14);
  head.writeInt32LE(width, 18);
  head.writeInt32LE(height, 22);
  head.writeUInt16LE(1, 26);
  head.writeUInt16LE(8, 28);
  head.writeUInt32LE(1, 30);
  head.writeUInt32LE(1, 46);
  const runs: number[] = [];
  for (let left = width; left > 0; left -= 255) runs.push(Math.min(255, left), 0);
  const row = Buffer.from([...runs, 0, 0]);
  return Buffer.concat([head, ...Array.from({ length: height }, () => row)]);
}

/** Claims a size in the header of a small image; each side at most the largest that the format can store. */
export function claimSize(name: string, file: Buffer, width: number, height: number): Buffer {
  const bytes = Buffer.from(file);
  const format = name.split(' ').at(-1)!;
  if (format === 'jpeg') {
    const frame = bytes.indexOf(Buffer.of(0xff, name.startsWith('progressive') ? 0xc2 : 0xc0));
    bytes.writeUInt16BE(Math.min(height, 65_535), frame + 5);
    bytes.writeUInt16BE(Math.min(width, 65_535), frame + 7);
  } else if (format === 'png') {
    bytes.writeUInt32BE(Math.min(width, 2 ** 31 - 1), 16);
    bytes.writeUInt32BE(Math.min(height, 2 ** 31 - 1), 20);
    bytes.writeUInt32BE(crc32(bytes.subarray(12, 29)), 29);
  } else if (format === 'gif') {
    bytes.writeUInt16LE(Math.min(width, 65_535), 6);
    bytes.writeUInt16LE(Math.min(height, 65_535), 8);
  } else if (format === 'tiff') {
    setTiffTag(bytes, 256, width);
    setTiffTag(bytes, 257, height);
  } else if (format === 'avif') {
    const size = bytes.indexOf('ispe') + 8;
    bytes.writeUInt32BE(width, size);
    bytes.writeUInt32BE(height, size + 4);
  } else if (format === 'bmp') {
    bytes.writeInt32LE(Math.min(width, 2 ** 31 - 1), 18);
    bytes.writeInt32LE(Math.min(height, 2 ** 31 - 1), 22);
  } else claimWebpSize(name, bytes, width, height);
  return bytes;
}

function claimWebpSize(name: string, bytes: Buffer, width: number, height: number): void {
  if (name === 'lossless webp') {
    const sides = (Math.min(width, 16_384) - 1) | ((Math.min(height, 16_384) - 1) << 14);
    bytes.writeUInt32LE(sides, 21);
  } else if (name === 'transparent webp') {
    bytes.writeUIntLE(Math.min(width, 2 ** 24) - 1, 24, 3);
    bytes.writeUIntLE(Math.min(height, 2 ** 24) - 1, 27, 3);
  } else {
    bytes.writeUInt16LE(Math.min(width, 16_383), 26);
    bytes.writeUInt16LE(Math.min(height, 16_383), 28);
  }
}

function setTiffTag(bytes: Buffer, tag: number, value: number): void {
  const directory = bytes.readUInt32LE(4);
  for (let at = directory + 2; ; at += 12) {
    if (bytes.readUInt16LE(at) !== tag) continue;
    bytes.writeUInt16LE(4, at + 2);
    bytes.writeUInt32LE(value, at + 8);
    return;
  }
}

/** A GIF whose first frame claims a size, in a picture of 1 × 1. */
export function claimGifFrame(file: Buffer, width: number, height: number): Buffer {
  const bytes = claimSize('gif', file, 1, 1);
  const frame = bytes.indexOf(0x2c, 13 + 3 * 2 ** ((bytes[10]! & 7) + 1));
  bytes.writeUInt16LE(width, frame + 5);
  bytes.writeUInt16LE(height, frame + 7);
  return bytes;
}

/** A PNG with compressed texts and a compressed colour profile, each of `sizeBytes` bytes. */
export function withText(png: Buffer, sizeBytes: number): Buffer {
  const text = deflateSync(Buffer.alloc(sizeBytes));
  const chunk = (name: string, head: string): Buffer => {
    const body = Buffer.concat([Buffer.from(name), Buffer.from(head, 'latin1'), text]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(body.length - 4);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const chunks = [
    chunk('zTXt', 'Comment\0\0'),
    chunk('iTXt', 'XML:com.adobe.xmp\0\u0001\0\0\0'),
    chunk('iCCP', 'profile\0\0'),
  ];
  return Buffer.concat([png.subarray(0, 33), ...chunks, png.subarray(33)]);
}
