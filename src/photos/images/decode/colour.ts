/** Grey, alpha and CMYK → 8-bit RGB, as Pillow's `convert("RGB")` does it. */

/**
 * Converts decoded pixels.
 *
 * @param data - Grey, grey with alpha, RGB, RGBA, or CMYK (with or without alpha).
 * @returns Three bytes per pixel; `data` itself if it is RGB already.
 */
export function toRgb(data: Uint8Array, channels: number, isCmyk: boolean): Uint8Array {
  if (channels === 3) return data;
  const count = data.length / channels;
  const rgb = new Uint8Array(count * 3);
  if (isCmyk) return cmykToRgb(data, channels, rgb);
  // One or two channels are grey, without or with alpha; four are RGBA.
  const [green, blue] = channels < 3 ? [0, 0] : [1, 2];
  for (let i = 0, from = 0, to = 0; i < count; i++, from += channels) {
    rgb[to++] = data[from]!;
    rgb[to++] = data[from + green]!;
    rgb[to++] = data[from + blue]!;
  }
  return rgb;
}

/** Pillow's conversion (src/libImaging/Convert.c): ink reduces the light that black leaves; `x·y/255`, rounded in integers. */
function cmykToRgb(data: Uint8Array, channels: number, rgb: Uint8Array): Uint8Array {
  for (let from = 0, to = 0; to < rgb.length; from += channels) {
    const left = 255 - data[from + 3]!;
    for (let ink = 0; ink < 3; ink++) {
      const product = data[from + ink]! * left + 128;
      rgb[to++] = Math.max(0, left - (((product >> 8) + product) >> 8));
    }
  }
  return rgb;
}
