/** What turns photos into tensors, as far as the rest of the house needs to know it. */
import type { TensorInfo } from '../tensor/tensor-info.js';
import { countCrops, type CropRows } from '../images/pixels/crops.js';
import type { Size } from '../images/pixels/geometry.js';
import { checkTiled } from '../images/transform/load-tiles.js';
import type { TilePlan } from '../images/transform/tile-options.js';
import type { Transform } from '../images/transform/transform.js';

/** Turns a photo into tensors. A decoding thread runs it; the options of its transform are all that it needs there. */
export interface Processor {
  readonly transform: Transform;
  /** What a photo gives, with a name for a size that the photo decides. */
  readonly tensors: readonly TensorInfo[];
  /** Bytes that a decoding thread leaves of a photo, pixels or normalised planes; null if the photo decides their number. */
  readonly bytes: number | null;
  /** Height and width of what is left; null if the photo decides them. */
  readonly size: Size | null;
  /** Rows of a photo, or of a tile of a picture. */
  readonly rows: number;
  /** Whether they become one after a run: their mean. */
  readonly joins: boolean;
  /** How pictures are cut into tiles, as many as each has; undefined for whole photos. */
  readonly tiles: TilePlan | undefined;
}

/** What decides on the rows of a photo. */
export interface RowChoice {
  /** What becomes of several crops of a photo after the run. */
  readonly cropRows?: CropRows;
  readonly tiles?: TilePlan | undefined;
}

const RGB = 3;

/** The processor of a transform. Throws `OPTION_INVALID` for tiles that are not transformed to one row each. */
export function processorOf(transform: Transform, { cropRows = 'mean', tiles }: RowChoice = {}): Processor {
  const { channels, isFloat, tensors } = transform;
  if (tiles) checkTiled(transform);
  const rows = countCrops(transform.options.crops);
  const size = transform.outputSize ?? (tiles ? transform.sizeOf(tiles.size) : null);
  const pixelBytes = isFloat ? channels * Float32Array.BYTES_PER_ELEMENT : RGB;
  const bytes = size && rows * pixelBytes * size.height * size.width;
  return { transform, tensors, size, bytes, rows, joins: cropRows === 'mean' && rows > 1, tiles };
}
