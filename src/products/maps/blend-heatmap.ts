/** Heat map and image → the colours of both. */
import type { RgbImage } from '../../photos/images/pixels/rgb-image.js';
import type { LoadedImage } from '../../photos/images/transform/load-pixels.js';
import { mismatch, type Tensor } from '../../onnx/tensor/tensor.js';
import { colourOf, INFERNO } from './colour-map.js';

/** An image as {@link loadImage} gives it. */
export type DrawnImage = RgbImage & Partial<Pick<LoadedImage, 'channelOrder'>>;

/** The pixels with red first. */
export function rgbOf({ data, channelOrder }: DrawnImage): Uint8Array {
  return channelOrder === 'bgr' ? data.map((_, i) => data[i + 2 - 2 * (i % 3)]!) : data;
}

/** Mixes an image with the colours of its heat map, to RGB. Throws `INPUT_MISMATCH` for a heat map of another size. */
export function blendHeatmap(image: DrawnImage, heatmap: Tensor<'float32'>, opacity: number): RgbImage {
  const { height, width } = image;
  const data = rgbOf(image);
  const [rows, columns] = heatmap.dims.slice(-2);
  if (rows !== height || columns !== width || heatmap.data.length !== height * width)
    throw mismatch('heatmap', `one map of the image's ${height}×${width}`, `[${heatmap.dims.join(', ')}]`);
  const pixels = new Uint8Array(data.length);
  for (const [i, heat] of heatmap.data.entries())
    for (const [channel, colour] of colourOf(heat, INFERNO).entries()) {
      const at = 3 * i + channel;
      pixels[at] = Math.round(data[at]! * (1 - opacity) + colour * opacity);
    }
  return { width, height, data: pixels };
}
