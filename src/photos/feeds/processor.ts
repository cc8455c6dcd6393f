/** What turns photos into tensors, as far as the rest of the house needs to know it. */
import { invalidOption } from '../../base/checks.js';
import { isTapirError } from '../../base/errors.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { countCrops, type CropRows } from '../images/pixels/crops.js';
import type { Size } from '../images/pixels/geometry.js';
import type { ClipPlan } from '../images/transform/clip-options.js';
import { checkOneRow } from '../images/transform/check-transform.js';
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
  /** How frames make clips; undefined for photos. A clip is held as one picture, its frames below each other. */
  readonly clips: ClipPlan | undefined;
}

/** What decides on the rows of a photo. */
export interface RowChoice {
  /** What becomes of several crops of a photo after the run. */
  readonly cropRows?: CropRows;
  readonly tiles?: TilePlan | undefined;
  readonly clips?: ClipPlan | undefined;
}

const RGB = 3;

/** The processor of a transform. Throws `OPTION_INVALID` for tiles and frames that do not become one row each. */
export function processorOf(
  transform: Transform,
  { cropRows = 'mean', tiles, clips }: RowChoice = {},
): Processor {
  const { channels, isFloat, tensors } = transform;
  if (tiles) checkOneRow(transform.options, 'with tiles');
  if (clips) checkFrames(transform, tiles);
  const rows = countCrops(transform.options.crops);
  const photo = transform.outputSize ?? (tiles ? sizeOfTiles(transform, tiles) : null);
  const size = photo && { height: photo.height * (clips?.frames ?? 1), width: photo.width };
  const pixelBytes = isFloat ? channels * Float32Array.BYTES_PER_ELEMENT : RGB;
  const bytes = size && rows * pixelBytes * size.height * size.width;
  return { transform, tensors, size, bytes, rows, joins: cropRows === 'mean' && rows > 1, tiles, clips };
}

/** Refuses transforms that a frame of a clip cannot have. Throws `OPTION_INVALID`. */
function checkFrames({ options, outputSize, isFloat }: Transform, tiles: TilePlan | undefined): void {
  const { patches, resampler } = options;
  if (tiles) throw invalidOption('tiles', 'left out with clips', tiles.size);
  checkOneRow(options, 'with clips');
  if (patches) throw invalidOption('transform', 'one with a single tensor, with clips', patches.processor);
  if (isFloat) throw invalidOption('resampler', 'one that resizes bytes, with clips', resampler);
  if (!outputSize)
    throw invalidOption(
      'transform',
      'one whose results all have the same size (set crop), with clips',
      'no fixed size',
    );
}

/** The size of all tiles after a transform. Throws `OPTION_INVALID` for tiles that it does not fit. */
function sizeOfTiles(transform: Transform, { size }: TilePlan): Size {
  try {
    return transform.sizeOf(size);
  } catch (error) {
    if (!isTapirError(error, 'IMAGE_MISFIT')) throw error;
    throw invalidOption('tiles.size', `one that fits the transform (${error.details.reason})`, size);
  }
}
