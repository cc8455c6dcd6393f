/** Gives the inputs of a graph the sizes that it is to be measured at. */
import { TapirError } from '../../base/errors.js';
import type { Value } from '../../graph/graph.js';
import { keptInputs, type Rewrite } from '../../graph/rewrite/rewrite.js';
import type { TensorType } from '../../onnx/wire/write-model.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import { wholePart } from '../../tensor/tensor-part.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { describeInputs } from '../open/value-info.js';
import { runMadeUp } from './run-made-up.js';
import type { SessionHolder } from './session-holder.js';

/** The rows and sizes to measure at. */
export interface MeasuredAt {
  /** Undefined for the batch that the file fixes, or 1. */
  readonly batch: number | undefined;
  /** Sizes of other open axes. */
  readonly inputSizes: CheckedSizes;
}

/** A rewrite whose inputs have no open sizes. */
export interface FixedInputs {
  readonly rewrite: Rewrite;
  readonly inputs: readonly TensorInfo[];
  readonly batch: number;
}

/**
 * Fixes the inputs of a rewrite that only cuts. Sizes that nobody gives are found by running the graph, once.
 *
 * @throws {@link TapirError} `BATCH_FIXED` if the graph takes another batch only; `RUN_FAILED` if it takes none of the sizes that were
 * tried; `SESSION_FAILED`, `INPUT_MISMATCH`.
 */
export async function fixInputs(
  rewrite: Rewrite,
  { batch, inputSizes }: MeasuredAt,
  sessions: SessionHolder,
): Promise<FixedInputs> {
  const inputs = describeInputs(rewrite);
  const isOpen = inputs.some(({ dims }) => dims?.every((size) => typeof size === 'number') !== true);
  if (!isOpen) return checked(rewrite, inputs, inputs, batch);
  const replica = await sessions.open({ rewrite });
  const names = replica.facts.outputs.flatMap(({ name, isTensor }) => (isTensor ? [name] : []));
  const { fed } = await runMadeUp({ rewrite, given: inputSizes, rows: batch ?? 1 }, (feeds) =>
    replica.run(feeds.map(wholePart), names),
  );
  const dims = new Map(inputs.map(({ name }, i) => [name, fed[i]!.dims]));
  const restated = new Map<Value, TensorType>();
  for (const value of keptInputs(rewrite))
    if (value.type?.kind === 'tensor')
      restated.set(value, { elemType: value.type.elemType, dims: dims.get(value.name)! });
  const fixed = inputs.map((input) => ({ ...input, dims: dims.get(input.name)! }));
  return checked({ ...rewrite, restated }, inputs, fixed, batch);
}

/** Checks that the inputs have the batch that was asked for. */
function checked(
  rewrite: Rewrite,
  declared: readonly TensorInfo[],
  inputs: readonly TensorInfo[],
  asked: number | undefined,
): FixedInputs {
  const isOpen = ({ dims }: TensorInfo): boolean => typeof dims?.[0] !== 'number';
  const isBatched = ({ dims }: TensorInfo): boolean => dims !== null && dims.length > 1;
  const open = declared.findIndex((input, i) => isOpen(input) && isBatched(inputs[i]!));
  const leading = open < 0 ? inputs.find(isBatched) : inputs[open];
  const batch = Number(leading?.dims?.[0] ?? 1);
  if (asked === undefined || asked === batch) return { rewrite, inputs, batch };
  throw new TapirError(
    'BATCH_FIXED',
    `the graph takes a batch of ${batch} here, not ${asked}; leave out the batch, or export the model with a dynamic one`,
    { details: { batch, rows: asked } },
  );
}
