/** Pixels → the channels of a tensor, first or last. */

/** The axes of one image in a tensor. */
export interface ImageAxes {
  readonly channels: number;
  /** Whether the channels come after height and width (NHWC). */
  readonly isLast: boolean;
}

/** Replaces each byte by its value (`channels × 256` of them). Pixels have three bytes; of grey ones the first counts. */
export function spreadPixels<Elements extends Float32Array | Uint16Array | Uint8Array>(
  pixels: Uint8Array,
  values: Elements,
  into: Elements,
  { channels, isLast }: ImageAxes,
): void {
  const plane = into.length / channels;
  if (channels === 1) for (let i = 0; i < plane; i++) into[i] = values[pixels[3 * i]!]!;
  else if (isLast)
    for (let i = 0; i < into.length; i += 3) {
      into[i] = values[pixels[i]!]!;
      into[i + 1] = values[256 + pixels[i + 1]!]!;
      into[i + 2] = values[512 + pixels[i + 2]!]!;
    }
  else
    for (let i = 0, from = 0; i < plane; i++, from += 3) {
      into[i] = values[pixels[from]!]!;
      into[i + plane] = values[256 + pixels[from + 1]!]!;
      into[i + 2 * plane] = values[512 + pixels[from + 2]!]!;
    }
}

/** Copies channels, one plane after the other. */
export function copyPlanes(
  planes: Float32Array | Uint16Array,
  into: Float32Array | Uint16Array | Uint8Array,
  { channels, isLast }: ImageAxes,
): void {
  if (!isLast || channels === 1) return into.set(planes);
  const plane = planes.length / channels;
  for (let i = 0; i < plane; i++)
    for (let channel = 0; channel < channels; channel++)
      into[i * channels + channel] = planes[channel * plane + i]!;
}
