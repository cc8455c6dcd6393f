/** Decoded pixels as a file: PAM of Netpbm, a few lines of text before rows of bytes. What is done to files is done to pixels, too. */
import { textOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';

/** Pixels of 8 bits, row by row, without padding. */
export interface Pixels extends Size {
  /** `height × width × channels` bytes. */
  readonly data: Uint8Array | Uint8ClampedArray;
  /** 1 is grey, 3 RGB, 4 RGBA. */
  readonly channels: 1 | 3 | 4;
}

const START = 'P7\n';
const TYPES = { 1: 'GRAYSCALE', 3: 'RGB', 4: 'RGB_ALPHA' } as const;
/** Headers of all encoders are shorter. */
const MOST_HEADER = 1024;
const END = '\nENDHDR\n';

export function isPam(bytes: Uint8Array): boolean {
  return textOf(bytes, START.length) === START;
}

/** Writes pixels as a file: their only copy, in shared memory, which goes to other threads as it is. */
export function encodePam({ data, height, width, channels }: Pixels): Uint8Array {
  const header = `${START}WIDTH ${width}\nHEIGHT ${height}\nDEPTH ${channels}\nMAXVAL 255\nTUPLTYPE ${TYPES[channels]}${END}`;
  const file = new Uint8Array(new SharedArrayBuffer(header.length + data.length));
  file.set(Buffer.from(header, 'latin1'));
  file.set(data, header.length);
  return file;
}

/**
 * Reads the pixels of a file: a view, nothing is copied.
 *
 * @throws Error with the reason for other samples than 8 bits, other depths, and a file without all of its pixels.
 */
export function readPam(bytes: Uint8Array): Pixels {
  const text = textOf(bytes, MOST_HEADER);
  const end = text.indexOf(END);
  const numberOf = (name: string): number =>
    Number(new RegExp(`^${name} +(\\d+)\\s*$`, 'm').exec(text.slice(0, end))?.[1] ?? NaN);
  const [width, height, depth] = [numberOf('WIDTH'), numberOf('HEIGHT'), numberOf('DEPTH')];
  const channels = ([1, 3, 4] as const).find((known) => known === depth);
  if (end < 0 || !(width > 0) || !(height > 0)) throw new Error('its PAM header is damaged');
  if (channels === undefined || numberOf('MAXVAL') !== 255)
    throw new Error('its PAM pixels are not 1, 3 or 4 channels of 8 bits');
  const from = end + END.length;
  const data = bytes.subarray(from, from + height * width * channels);
  return { data, height, width, channels };
}

/** Whether pixels are missing at the end. */
export function isPamCutOff(bytes: Uint8Array): boolean {
  const { data, height, width, channels } = readPam(bytes);
  return data.length < height * width * channels;
}
