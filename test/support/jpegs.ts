/** Creates JPEGs with sharp, decodes them with sharp, and damages them. */
import fc from 'fast-check';
import sharp from 'sharp';

/** What to draw, and how to encode it. */
export interface Drawn {
  readonly width: number;
  readonly height: number;
  readonly pattern: 'noise' | 'extremes' | 'gradient';
  readonly seed: number;
  readonly isGrey: boolean;
  readonly quality: number;
  readonly isSubsampled: boolean;
  readonly optimiseCoding: boolean;
  /** With MozJPEG's quantisation and trellis. */
  readonly isMoz: boolean;
}

export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

/** RGB pixels. */
export function paint({ width, height, pattern, seed }: Drawn): Buffer {
  const data = Buffer.alloc(width * height * 3);
  let state = seed | 1;
  for (let at = 0; at < data.length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    const x = Math.floor(at / 3) % width;
    const y = Math.floor(at / 3 / width);
    const random = state >>> 24;
    if (pattern === 'noise') data[at] = random;
    else if (pattern === 'extremes') data[at] = random < 128 ? 0 : 255;
    else data[at] = 128 + 70 * Math.sin(x / 7 + (at % 3)) + 50 * Math.cos(y / (5 + (seed % 9))) + random / 32;
  }
  return data;
}

export function encode(drawn: Drawn): Promise<Buffer> {
  const { width, height, isGrey, quality, isSubsampled, optimiseCoding, isMoz } = drawn;
  const image = sharp(paint(drawn), { raw: { width, height, channels: 3 } });
  return (isGrey ? image.toColourspace('b-w') : image)
    .jpeg({
      quality,
      chromaSubsampling: isSubsampled ? '4:2:0' : '4:4:4',
      optimiseCoding,
      ...(isMoz && { trellisQuantisation: true, overshootDeringing: true, quantisationTable: 3 }),
    })
    .toBuffer();
}

/** A file decoded by sharp, with the package's options; undefined if sharp refuses it. */
export async function sharpPixels(bytes: Uint8Array): Promise<Pixels | undefined> {
  try {
    const { data, info } = await sharp(bytes, { ignoreIcc: true, limitInputPixels: 1e6, failOn: 'warning' })
      .removeAlpha()
      .raw()
      .toBuffer({ resolveWithObject: true });
    const { width, height, channels } = info;
    return {
      width,
      height,
      data: Uint8Array.from(
        { length: width * height * 3 },
        (_, at) => data[channels === 1 ? Math.floor(at / 3) : at]!,
      ),
    };
  } catch {
    return undefined;
  }
}

export function bytesAreSame(one: Pixels, other: Pixels): boolean {
  return (
    one.width === other.width && one.height === other.height && Buffer.compare(one.data, other.data) === 0
  );
}

const place = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const byte = fc.integer({ min: 0, max: 255 });

/** Cuts off, changes, inserts or removes bytes after the first two. */
export const damage: fc.Arbitrary<(file: Buffer) => Buffer> = fc
  .record({
    kind: fc.constantFrom('none', 'cut', 'set', 'flip', 'insert', 'remove', 'header'),
    places: fc.array(fc.tuple(place, byte), { minLength: 1, maxLength: 3 }),
  })
  .map(({ kind, places }) => (file) => {
    const [[where, value]] = places as [[number, number]];
    const at = 2 + Math.floor(where * (file.length - 2));
    if (kind === 'none') return file;
    if (kind === 'cut') return file.subarray(0, at);
    if (kind === 'insert') return Buffer.concat([file.subarray(0, at), Buffer.of(value), file.subarray(at)]);
    if (kind === 'remove') return Buffer.concat([file.subarray(0, at), file.subarray(at + 1 + (value & 1))]);
    const changed = Buffer.from(file);
    if (kind === 'flip') changed[at]! ^= 1 << (value & 7);
    else if (kind === 'header') changed[2 + Math.floor(where * Math.min(700, file.length - 2))] = value;
    else for (const [other, set] of places) changed[2 + Math.floor(other * (file.length - 2))] = set;
    return changed;
  });
