/**
 * The first frame of a GIF, and where it goes. Pillow drops alpha, so transparent pixels show their colour in the palette. It also fills
 * what the frame leaves free. libvips makes both black. It replaces sizes that it distrusts (640×480, sides above 2048) by those of the
 * frames. So the decoder gets the first frame only, opaque, and this file does the rest.
 */
import { viewOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';
import { copyRows, type RgbImage } from '../pixels/rgb-image.js';
import { PartCount, resultOf } from '../pixels/part-count.js';

/** The first frame. */
export interface GifFrame extends Size {
  readonly left: number;
  readonly top: number;
  /** The size of the image, which the frame may not fill. */
  readonly canvas: Size;
  /** The colour of the palette that stands for nothing. */
  readonly transparent: number | undefined;
  /** Red, green and blue of pixels outside the frame. */
  readonly outside: readonly [number, number, number];
  /** Where the frame begins in the file. */
  readonly start: number;
  /** Where it ends; undefined if the file ends before. */
  readonly end: number | undefined;
}

const SCREEN = 6;
const GLOBAL_PALETTE = 13;
const EXTENSION = 0x21;
const GRAPHIC_CONTROL = 0xf9;
const FRAME = 0x2c;
const TRAILER = 0x3b;
/** Encoders fill their sub-blocks, which hold up to 255 bytes, except the last one of a block. */
const SHORT_BYTES = 16;

/** A block: an extension, or a frame with its palette and pixels. */
interface GifBlock {
  readonly label: number;
  readonly start: number;
  /** Where its data begins, and where the next block does; the latter may be beyond the end of the file. */
  readonly data: number;
  readonly end: number;
}

/** Yields the blocks; returns whether the file ends before its last block does. Throws `TooManyParts`, counting blocks and short sub-blocks. */
function* gifBlocks(bytes: Uint8Array): Generator<GifBlock, boolean> {
  const parts = new PartCount();
  let start = GLOBAL_PALETTE + paletteBytes(bytes[SCREEN + 4]);
  while (start < bytes.length) {
    const label = bytes[start]!;
    // The trailer, or damage.
    if (label !== EXTENSION && label !== FRAME) return false;
    const data = label === EXTENSION ? start + 2 : start + 11 + paletteBytes(bytes[start + 9]);
    let end = data;
    parts.add();
    while (end < bytes.length && bytes[end] !== 0) {
      if (bytes[end]! < SHORT_BYTES) parts.add();
      end += 1 + bytes[end]!;
    }
    end += 1;
    yield { label, start, data, end };
    start = end;
  }
  return true;
}

/** Length of a palette, by the flags before it; 0 without a palette. */
function paletteBytes(flags = 0): number {
  return flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0;
}

/** The number of frames. Throws `TooManyParts`. */
export function countGifFrames(bytes: Uint8Array): number {
  let frames = 0;
  for (const { label } of gifBlocks(bytes)) if (label === FRAME) frames++;
  return frames;
}

/** Reads everything about the first frame except its pixels; undefined if the file is damaged or ends before. */
export function readGifFrame(bytes: Uint8Array): GifFrame | undefined {
  let transparent: number | undefined;
  for (const { label, start, data, end } of gifBlocks(bytes)) {
    if (label === FRAME && start + 10 < bytes.length) return readFrame(bytes, start, end, transparent);
    if (label === EXTENSION && bytes[start + 1] === GRAPHIC_CONTROL) {
      const isTransparent = (bytes[data + 1]! & 1) === 1;
      transparent = isTransparent ? bytes[data + 4] : undefined;
    }
  }
  return undefined;
}

function readFrame(bytes: Uint8Array, start: number, end: number, transparent: number | undefined): GifFrame {
  const view = viewOf(bytes);
  const word = (at: number): number => view.getUint16(at, true);
  const [left, top, width, height] = [word(start + 1), word(start + 3), word(start + 5), word(start + 7)];
  const ownBytes = paletteBytes(bytes[start + 9]);
  const palette = ownBytes > 0 ? start + 10 : GLOBAL_PALETTE;
  const sizeBytes = ownBytes > 0 ? ownBytes : paletteBytes(bytes[SCREEN + 4]);
  const from = (transparent ?? 0) * 3;
  // Pillow uses black for colours beyond the palette, and if there is no palette.
  const channel = (i: number): number => (from < sizeBytes ? (bytes[palette + from + i] ?? 0) : 0);
  return {
    left,
    top,
    width,
    height,
    // Pillow enlarges the image for a frame that reaches beyond it.
    canvas: { width: Math.max(word(SCREEN), left + width), height: Math.max(word(SCREEN + 2), top + height) },
    transparent,
    outside: [channel(0), channel(1), channel(2)],
    start,
    end: end <= bytes.length ? end : undefined,
  };
}

/**
 * A GIF that is just the first frame, opaque unless its transparency is kept. It is as damaged as the original is up to the end of the
 * frame.
 */
export function cutOutFrame(
  bytes: Uint8Array,
  { start, end, width, height, transparent }: GifFrame,
  keepsAlpha: boolean,
): Uint8Array {
  const head = Buffer.from(bytes.subarray(0, GLOBAL_PALETTE + paletteBytes(bytes[SCREEN + 4])));
  head.writeUInt16LE(width, SCREEN);
  head.writeUInt16LE(height, SCREEN + 2);
  const frame = Buffer.from(bytes.subarray(start, end));
  // No offset.
  frame.fill(0, 1, 5);
  const isKept = keepsAlpha && transparent !== undefined;
  const control = isKept ? [EXTENSION, GRAPHIC_CONTROL, 4, 1, 0, 0, transparent, 0] : [];
  const trailer = end === undefined ? [] : [TRAILER];
  return Buffer.concat([head, Buffer.from(control), frame, Buffer.from(trailer)]);
}

/** Puts the frame's pixels where they belong in the image. */
export function placeFrame(frame: RgbImage, { left, top, canvas, outside }: GifFrame): RgbImage {
  if (canvas.width === frame.width && canvas.height === frame.height) return frame;
  const data = Buffer.alloc(canvas.width * canvas.height * 3, Uint8Array.from(outside));
  const pitch = canvas.width * 3;
  const from = { data: frame.data, offset: 0, pitch: frame.width * 3 };
  copyRows(from, { data, offset: top * pitch + left * 3, pitch }, frame.height, frame.width * 3);
  return { ...canvas, data };
}

export function isGifCutOff(bytes: Uint8Array): boolean {
  const frame = readGifFrame(bytes);
  if (frame) return frame.end === undefined;
  return resultOf(gifBlocks(bytes));
}
