/** How a transform's photos feed a model. */
import { constants } from 'node:buffer';
import { totalmem } from 'node:os';
import { invalidOption } from '../../base/checks.js';
import { isTapirError, TapirError } from '../../base/errors.js';
import { countCrops } from '../images/pixels/crops.js';
import type { Size } from '../images/pixels/geometry.js';
import { checkOneRow } from '../images/transform/check-transform.js';
import type { TilePlan } from '../images/transform/tile-options.js';
import type { Transform } from '../images/transform/transform.js';
import { elementCount } from '../../onnx/tensor/tensor.js';
import { dimsText, isPhotoInput, type TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { FeedPlan, Processor, RowChoice } from './feed-plan.js';
import { planPhotos } from './photo-files.js';
import { planImages, type ImageTaker } from './plan-images.js';
import { planPatches } from './plan-patches.js';

/** What the caller needs of the feeds. */
interface FeedNeeds extends RowChoice {
  /** `picture`: a photo has one tensor; `one size`: in addition, all photos have one size. Left out, any feeds will do. */
  readonly takes?: 'picture' | 'one size';
}

/**
 * Plans how the photos of a transform feed a model. Throws `OPTION_INVALID` that says what would fit, `INPUT_MISMATCH` for an input
 * that the transform has no tensor for, and `SESSION_FAILED` for a fixed batch that does not fit into memory.
 */
export function planFeeds(
  model: ImageTaker,
  transform: Transform,
  { takes, ...rows }: FeedNeeds = {},
): FeedPlan {
  const { patches } = transform.options;
  if (takes && patches) {
    const names = transform.tensors.map(({ name }) => name).join(', ');
    throw invalidOption('transform', 'one with a single tensor here, a picture', names);
  }
  const processor = processorOf(transform, rows);
  const photo = model.inputs.find(isPhotoInput);
  if (photo) return planPhotos(photo, processor);
  const plan = patches ? planPatches(model, processor, patches) : planImages(model, processor);
  if (takes === 'one size' && plan.unlike)
    throw invalidOption('transform', 'one whose results all have the same size (set crop)', 'no fixed size');
  for (const input of model.inputs) if (plan.inputs.includes(input.name)) checkHeld(input);
  return plan;
}

const BYTES: Readonly<Record<string, number>> = { uint8: 1, float16: 2 };

/** Refuses an input whose fixed sizes no feed on this machine can have. */
function checkHeld(input: TensorInfo): void {
  const numbers = elementCount((input.dims ?? []).map((size) => (typeof size === 'number' ? size : 1)));
  const [needed, there] = [numbers * (BYTES[String(input.dtype)] ?? 4), totalmem()];
  if (needed <= there && numbers <= constants.MAX_LENGTH) return;
  const sizes = `its input "${input.name}" ${dimsText(input)} takes ${needed.toLocaleString('en-US')} bytes`;
  const reason = `${sizes}, and this machine has ${there.toLocaleString('en-US')}`;
  const advice = 'make the batch dynamic (tapir: --dynamic-batch), or export the model with a smaller one';
  const details = { device: 'cpu', reason };
  throw new TapirError('SESSION_FAILED', `the model cannot be run: ${reason}; ${advice}`, { details });
}

const RGB = 3;

/** The processor of a transform. Throws `OPTION_INVALID` for tiles and frames that do not become one row each. */
function processorOf(transform: Transform, { cropRows = 'mean', tiles, clips }: RowChoice): Processor {
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
