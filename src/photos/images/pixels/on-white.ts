/** Transparent pixels over white. */

/**
 * Lays decoded pixels over white, by Pillow's `alpha_composite` (src/libImaging/AlphaComposite.c) over an opaque background.
 *
 * @param data - Grey with alpha, or RGBA.
 */
export function layOnWhite(data: Uint8Array, channels: number): Uint8Array {
  const count = data.length / channels;
  const rgb = new Uint8Array(count * 3);
  const [green, blue] = channels < 3 ? [0, 0] : [1, 2];
  for (let i = 0, from = 0, to = 0; i < count; i++, from += channels) {
    const alpha = data[from + channels - 1]!;
    rgb[to++] = onWhite(data[from]!, alpha);
    rgb[to++] = onWhite(data[from + green]!, alpha);
    rgb[to++] = onWhite(data[from + blue]!, alpha);
  }
  return rgb;
}

/** A channel of a pixel over white. */
export function onWhite(value: number, alpha: number): number {
  if (alpha === 0) return 255;
  // In fixed point with 7 bits of fraction.
  const sum = (value * alpha + 255 * (255 - alpha)) * 128 + (128 << 7);
  return (((sum >>> 8) + sum) >>> 8) >>> 7;
}
