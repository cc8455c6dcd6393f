/** The tiles of a picture of any source, as a model is fed. */
import type { ImageSource } from '../images/formats/image-source.js';
import { readTiles, type LoadedTile } from '../images/transform/read-tiles.js';
import { planTiles, type TilesGiven } from '../images/transform/tile-options.js';
import { openPhoto } from './load-image.js';
import { createTransform, type TransformLike } from './create-transform.js';

/**
 * Cuts a picture of any size into tiles, and transforms each one like a photo; row by row, level by level.
 *
 * @remarks Memory does not grow with the picture. Regions of a tiled TIFF and of its pyramid are read from its file as they are needed.
 * Other pictures are decoded once, large ones into a temporary file of 3 bytes per pixel. `limitPixels` holds only for GIF, BMP and HEIC,
 * which are decoded in memory.
 *
 * @param source - As for {@link loadImage}.
 * @param transform - As {@link createTransform} takes it.
 * @param tiles - See {@link TileOptions}; `size` is required.
 * @returns An iterator over the tiles. Leaving the loop closes the picture.
 * @throws {@link TapirError} `OPTION_INVALID`; those of {@link loadImage}.
 *
 * @example
 * ```ts
 * import { loadTiles } from 'onnx-tapir';
 *
 * for await (const { tile, toTensor } of loadTiles('slide.tif', 'ImageNet1K_V1', { size: 512, minStd: 8 })) {
 *   console.log(tile, toTensor().dims); // { level: 0, x: 512, y: 0, width: 512, height: 512 } [1, 3, 224, 224]
 * }
 * ```
 */
export async function* loadTiles(
  source: ImageSource,
  transform: TransformLike,
  tiles: TilesGiven,
): AsyncGenerator<LoadedTile> {
  const file = await openPhoto(source);
  yield* readTiles(file, createTransform(transform), planTiles(tiles));
}
