/** Score-CAM (Wang et al. 2020): a channel weighs as much as the score of the image that it masks. No backward pass. */
import { softmax } from '../../onnx/tensor/vectors/softmax.js';
import { rowOf, type Maps } from '../maps/maps.js';
import { weightedSum } from './class-activation.js';
import { extremes, resizeMaps } from './heatmap.js';

/** The scores of images that are made from one row, one after another in memory. */
export type ScoreMasked = (row: number, pixels: Float32Array, count: number) => Promise<readonly number[]>;

/** The maps, `[N, H, W]`: the channels weighted by the softmax of their scores. A run takes `batch` masked images. */
export async function scoreMaps(
  image: Maps,
  activations: Maps,
  batch: number,
  score: ScoreMasked,
): Promise<Float32Array> {
  const { rows, channels, size } = activations;
  const places = size[0] * size[1];
  const maps = new Float32Array(rows * places);
  for (let row = 0; row < rows; row++) {
    const layer = rowOf(activations, row);
    const scores: number[] = [];
    for (let start = 0; start < channels; start += batch) {
      const count = Math.min(batch, channels - start);
      const masks = masksOf(layer.subarray(start * places, (start + count) * places), activations, image);
      // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
      scores.push(...(await score(row, maskedImages(rowOf(image, row), masks, image), count)));
    }
    maps.set(weightedSum(layer, softmax(scores)), row * places);
  }
  return maps;
}

/** Channels enlarged to the image and scaled to 0…1. */
function masksOf(channels: Float32Array, { size }: Maps, image: Maps): Float32Array {
  const masks = resizeMaps(channels, size, image.size, 'corners');
  const places = image.size[0] * image.size[1];
  for (let start = 0; start < masks.length; start += places) {
    const mask = masks.subarray(start, start + places);
    const [least, most] = extremes(mask);
    for (let i = 0; i < places; i++) mask[i] = (mask[i]! - least) / (most - least + 1e-8);
  }
  return masks;
}

/** The image under each mask, `[masks, C, H, W]`. */
function maskedImages(pixels: Float32Array, masks: Float32Array, { size }: Maps): Float32Array {
  const places = size[0] * size[1];
  const masked = new Float32Array((masks.length / places) * pixels.length);
  for (let at = 0; at < masked.length; at++) {
    const mask = Math.floor(at / pixels.length) * places;
    masked[at] = pixels[at % pixels.length]! * masks[mask + (at % places)]!;
  }
  return masked;
}
