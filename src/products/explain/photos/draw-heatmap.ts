/** Heat map over an image → PNG with a scale. */
import { checkRgbImage } from '../../../photos/images/pixels/rgb-image.js';
import { encodePng } from '../../../photos/images/encode.js';
import { boolean, number, readOptions, type Fields } from '../../../base/options.js';
import { readTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import type { Options } from '../../../base/checks.js';
import { blendHeatmap, type DrawnImage } from '../../maps/blend-heatmap.js';
import { colourOf, HEATMAP_OPACITY, INFERNO, type Colour } from '../../maps/colour-map.js';

/** Options of {@link drawHeatmap}. */
export interface DrawOptions {
  /**
   * Share of the heat map's colours, from 0 to 1; the image has the rest.
   * @default 0.55
   */
  readonly opacity: number;
  /**
   * Draw the scale from 0 to 1 below the image.
   * @default true
   */
  readonly scale: boolean;
}

export const DRAW_FIELDS: Fields<DrawOptions> = {
  opacity: number(0, 1, HEATMAP_OPACITY),
  scale: boolean(true),
};

/**
 * Draws a heat map over its image, as a PNG: dark is 0, bright yellow is 1.
 *
 * @param image - Pixels, as {@link loadImage} gives them.
 * @param heatmap - float32 `[H, W]` or `[1, H, W]` from 0 to 1, of the size of the image: one row of {@link AttributionResult.heatmap}.
 * @param given - See {@link DrawOptions}.
 * @returns The bytes of the file.
 * @throws {@link TapirError} `INPUT_MISMATCH` for a heat map of another size; `OPTION_INVALID`; `DEPENDENCY_MISSING` without sharp.
 *
 * @example
 * ```ts
 * import { loadImage } from 'onnx-tapir';
 * import { createAttribution, drawHeatmap } from 'onnx-tapir/explain';
 *
 * const cam = await createAttribution('resnet50.onnx', { layer: 'layer4' });
 * const photo = await loadImage('dog.jpg');
 * const { heatmap } = await cam.run(photo.toTensor());
 * const png = await drawHeatmap(photo, heatmap);
 * await cam.close();
 * ```
 */
export async function drawHeatmap(
  image: DrawnImage,
  heatmap: Tensor<'float32'>,
  given: Options<DrawOptions> = {},
): Promise<Uint8Array> {
  const { opacity, scale } = readOptions(DRAW_FIELDS, given, 'drawHeatmap');
  checkRgbImage(image);
  const drawn = blendHeatmap(image, readTensor('heatmap', heatmap) as Tensor<'float32'>, opacity);
  if (!scale) return await encodePng(drawn);
  const { width, height, data } = drawn;
  const bar = scaleBar(width);
  const pixels = Buffer.concat([data, bar]);
  return await encodePng({ width, height: height + bar.length / 3 / width, data: pixels });
}

/** Digits of 3 × 5 dots, row by row. */
const DIGITS = { 0: '111101101101111', 1: '010110010010111' } as const;
const WHITE: Colour = [255, 255, 255];
const BLACK: Colour = [0, 0, 0];

/** Rows of pixels: the colours from 0 to 1 between these two digits. */
function scaleBar(width: number): Uint8Array {
  const dot = Math.max(1, Math.round(width / 100));
  const [height, margin] = [7 * dot, 5 * dot];
  const bar = new Uint8Array(3 * width * height);
  const isInk = (digit: keyof typeof DIGITS, x: number, y: number): boolean =>
    x >= 0 && x < 3 && y >= 0 && y < 5 && DIGITS[digit][3 * y + x] === '1';
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const [left, top] = [Math.floor(x / dot) - 1, Math.floor(y / dot) - 1];
      const right = Math.floor((x - (width - margin)) / dot) - 1;
      const hasInk = isInk(0, left, top) || isInk(1, right, top);
      const isBar = x >= margin && x < width - margin && top >= 0 && top < 5;
      const value = (x - margin) / Math.max(1, width - 2 * margin - 1);
      bar.set(isBar ? colourOf(value, INFERNO).map(Math.round) : hasInk ? BLACK : WHITE, 3 * (y * width + x));
    }
  return bar;
}
