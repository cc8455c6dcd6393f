/** How a transform's photos feed a model. */
import { constants } from 'node:buffer';
import { totalmem } from 'node:os';
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import type { Transform } from '../images/transform/transform.js';
import { elementCount } from '../../onnx/tensor/tensor.js';
import { dimsText, type TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { FeedPlan } from './feed-plan.js';
import { planImages, type ImageTaker } from './plan-images.js';
import { planPatches } from './plan-patches.js';
import { processorOf, type RowChoice } from './processor.js';

/** What the caller needs of the feeds. */
export interface FeedNeeds extends RowChoice {
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
