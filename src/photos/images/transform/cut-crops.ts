/** Cuts several crops out of a resized image. */
import { misfitImage } from '../file/image-errors.js';
import { placeCrops, type Cut } from '../pixels/crops.js';
import type { Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import type { FloatImage } from './float-image.js';
import { flipRows } from './random-crop.js';
import type { TransformOptions } from './transform-options.js';

/**
 * The crops of an image that was resized and not cropped. Its height and width are those of a crop; the crops follow each other.
 *
 * @param label - Names the image in the error.
 * @param into - Receives the pixels, or the planes of floats; a new array by default.
 * @throws {@link TapirError} `IMAGE_MISFIT` for an image that is smaller than a crop.
 */
export function cutCrops(
  image: RgbImage | FloatImage,
  { crop: given, crops, cropOffset }: TransformOptions,
  label: string,
  into?: Uint8Array,
): RgbImage | FloatImage {
  const side = given as number | Size;
  const crop = typeof side === 'number' ? { height: side, width: side } : side;
  const { height, width } = image;
  if (height < crop.height || width < crop.width)
    throw misfitImage(
      `resized to ${height} × ${width}, it is smaller than its crops of ${crop.height} × ${crop.width}`,
      label,
      'resize it to more, or choose smaller crops',
    );
  const cuts = placeCrops(image, crop, crops, cropOffset);
  const size = cuts.length * crop.height * crop.width;
  if (!('planes' in image)) {
    const data = into ?? new Uint8Array(size * 3);
    cutPlane(image, image.data, 3, cuts, data, crop.height * crop.width * 3);
    return { ...crop, data };
  }
  const plane = height * width;
  const channels = image.planes.length / plane;
  const planes = into
    ? new Float32Array(into.buffer, into.byteOffset, into.length / 4)
    : new Float32Array(size * channels);
  const pixels = crop.height * crop.width;
  for (let channel = 0; channel < channels; channel++)
    cutPlane(
      image,
      image.planes.subarray(channel * plane, (channel + 1) * plane),
      1,
      cuts,
      planes.subarray(channel * pixels),
      channels * pixels,
    );
  const bytes = (): Uint8Array => {
    const data = new Uint8Array(size * 3);
    cutPlane(image, image.bytes(), 3, cuts, data, pixels * 3);
    return data;
  };
  return { ...crop, planes, bytes };
}

/** Cuts regions of rows whose pixels have `step` elements. The crops begin `pitch` elements after each other. */
function cutPlane<Elements extends Uint8Array | Float32Array>(
  { width }: Size,
  data: Elements,
  step: number,
  cuts: readonly Cut[],
  into: Elements,
  pitch: number,
): void {
  for (const [i, { region, flip }] of cuts.entries()) {
    const rowElements = region.width * step;
    const to = into.subarray(i * pitch, i * pitch + region.height * rowElements) as Elements;
    for (let row = 0; row < region.height; row++) {
      const from = ((region.top + row) * width + region.left) * step;
      const at = (flip === 'down' ? region.height - 1 - row : row) * rowElements;
      to.set(data.subarray(from, from + rowElements), at);
    }
    if (flip === 'across') flipRows(to, region.width, step);
  }
}
