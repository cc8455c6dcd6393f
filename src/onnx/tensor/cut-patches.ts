/** Pixels → patches: a row of numbers for each square of an image. */

/** How an image is cut. */
export interface PatchLayout {
  /** Pixels of a patch's side. */
  readonly size: number;
  /** Patches of the side of a block, whose patches follow each other; 1 goes row by row. */
  readonly merge: number;
  /** How often each channel of a patch is repeated, as frames of a video. */
  readonly frames: number;
  /** Whether the channels come last in a patch. They come before the frames otherwise. */
  readonly isLast: boolean;
}

/** Pixels of an image whose sides are whole numbers of blocks. */
export interface PatchedPixels {
  readonly height: number;
  readonly width: number;
  /** `height × width × 3` bytes. */
  readonly data: Uint8Array;
}

/** Rows and columns of patches. */
export function gridOf(
  { height, width }: Pick<PatchedPixels, 'height' | 'width'>,
  { size }: Pick<PatchLayout, 'size'>,
): readonly [rows: number, columns: number] {
  return [height / size, width / size];
}

/** The numbers of one patch. */
export function patchLength({ size, frames }: PatchLayout): number {
  return 3 * frames * size * size;
}

/**
 * Writes the patches of an image, one after the other.
 *
 * @param values - The value of each channel and byte, `3 × 256` of them.
 */
export function cutPatches<Elements extends Float32Array | Uint16Array>(
  pixels: PatchedPixels,
  layout: PatchLayout,
  values: Elements,
  into: Elements,
): void {
  const [rows, columns] = gridOf(pixels, layout);
  const { merge } = layout;
  const length = patchLength(layout);
  const cut = layout.isLast ? cutInterleaved : cutPlanes;
  let at = 0;
  for (let top = 0; top < rows; top += merge)
    for (let left = 0; left < columns; left += merge)
      for (let row = top; row < top + merge; row++)
        for (let column = left; column < left + merge; column++, at += length)
          cut(pixels, (row * pixels.width + column) * layout.size * 3, layout, values, into, at);
}

/** A patch with the channels last: row, column, channel. */
function cutInterleaved(
  { data, width }: PatchedPixels,
  start: number,
  { size }: PatchLayout,
  values: Float32Array | Uint16Array,
  into: Float32Array | Uint16Array,
  at: number,
): void {
  for (let y = 0; y < size; y++)
    for (let from = start + y * width * 3, end = from + size * 3; from < end; from += 3, at += 3) {
      into[at] = values[data[from]!]!;
      into[at + 1] = values[256 + data[from + 1]!]!;
      into[at + 2] = values[512 + data[from + 2]!]!;
    }
}

/** A patch with the channels first: channel, frame, row, column. */
function cutPlanes(
  { data, width }: PatchedPixels,
  start: number,
  { size, frames }: PatchLayout,
  values: Float32Array | Uint16Array,
  into: Float32Array | Uint16Array,
  at: number,
): void {
  const plane = size * size;
  for (let channel = 0; channel < 3; channel++) {
    const first = at + channel * frames * plane;
    for (let y = 0, to = first; y < size; y++)
      for (let x = 0, from = start + y * width * 3 + channel; x < size; x++, from += 3)
        into[to++] = values[channel * 256 + data[from]!]!;
    for (let frame = 1; frame < frames; frame++) into.copyWithin(first + frame * plane, first, first + plane);
  }
}
