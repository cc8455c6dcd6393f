/**
 * The first frame of a GIF as Pillow shows it. libvips makes transparent pixels black, and so it does what a frame leaves free;
 * Pillow drops alpha, so the palette's own colour shows.
 */
import type { Size } from '../pixels/geometry.js';

/** What decides over the pixels that are not simply drawn. */
export interface GifFrame extends Size {
  readonly left: number;
  readonly top: number;
  /** Where the transparency of the frame is switched on; null if it is off. */
  readonly flagOffset: number | null;
  /** Red, green, blue of the pixels outside the frame. */
  readonly outside: readonly [number, number, number];
}

const EXTENSION = 0x21;
const GRAPHIC_CONTROL = 0xf9;
const IMAGE = 0x2c;

/** Reads what stands before the pixels of the first frame; undefined if the file is damaged. */
export function readGifFrame(bytes: Uint8Array): GifFrame | undefined {
  const screen = 6;
  const global = paletteAt(bytes, screen + 4, screen + 7);
  let at = screen + 7 + global.sizeBytes;
  let flagOffset: number | null = null;
  let transparent: number | null = null;
  while (at + 10 < bytes.byteLength) {
    if (bytes[at] === IMAGE) {
      const word = (offset: number): number => bytes[at + offset]! + bytes[at + offset + 1]! * 256;
      const local = paletteAt(bytes, at + 9, at + 10);
      const palette = local.sizeBytes > 0 ? local : global;
      const from = (transparent ?? 0) * 3;
      // Beyond the palette, and without one, Pillow has black.
      const channel = (i: number): number =>
        from < palette.sizeBytes ? (bytes[palette.offset + from + i] ?? 0) : 0;
      return {
        left: word(1),
        top: word(3),
        width: word(5),
        height: word(7),
        flagOffset,
        outside: [channel(0), channel(1), channel(2)],
      };
    }
    if (bytes[at] !== EXTENSION) return undefined;
    if (bytes[at + 1] === GRAPHIC_CONTROL) {
      const isOn = (bytes[at + 3]! & 1) === 1;
      flagOffset = isOn ? at + 3 : null;
      transparent = isOn ? bytes[at + 6]! : null;
    }
    at += 2;
    while (at < bytes.byteLength && bytes[at] !== 0) at += 1 + bytes[at]!;
    at += 1;
  }
  return undefined;
}

/** A palette, if the flags before it say that there is one. */
function paletteAt(
  bytes: Uint8Array,
  flagsAt: number,
  offset: number,
): { readonly offset: number; readonly sizeBytes: number } {
  return { offset, sizeBytes: paletteBytes(bytes[flagsAt]) };
}

/** How long a palette is, by the flags before it; 0 if there is none. */
export function paletteBytes(flags = 0): number {
  return flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0;
}

/** The file with its first frame opaque; a copy if anything had to be changed. */
export function withoutTransparency(bytes: Uint8Array, { flagOffset }: GifFrame): Uint8Array {
  if (flagOffset === null) return bytes;
  const opaque = Buffer.from(bytes);
  opaque[flagOffset]! &= 0xfe;
  return opaque;
}

/** Colours what lies outside the frame, in place. */
export function fillOutside(rgb: Uint8Array, size: Size, frame: GifFrame): void {
  const right = frame.left + frame.width;
  const bottom = frame.top + frame.height;
  const isWhole = frame.left === 0 && frame.top === 0 && right >= size.width && bottom >= size.height;
  if (isWhole) return;
  for (let y = 0, to = 0; y < size.height; y++) {
    const isInside = y >= frame.top && y < bottom;
    for (let x = 0; x < size.width; x++, to += 3) {
      if (!isInside || x < frame.left || x >= right) rgb.set(frame.outside, to);
    }
  }
}
