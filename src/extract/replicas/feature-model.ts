/** A pruned model as it runs: its inputs and outputs. */
import { TapirError } from '../../base/errors.js';
import type { ImageNormalization } from '../../graph/rewrite/image-input.js';
import { fetchesOf } from '../../graph/rewrite/rewrite.js';
import type { SessionFacts } from '../../runtime/lanes/protocol.js';
import type { Tensor } from '../../tensor/tensor.js';
import { copyTensor } from '../../tensor/tensor-part.js';
import { describeInputs } from '../../model/open/value-info.js';
import { describeFeature, type FeatureInfo } from '../../model/prune/feature-info.js';
import { prunedInternals, type PrunedModel } from '../../model/prune/pruned-model.js';
import type { Runnable } from '../../runtime/run-batch.js';
import type { SessionSetup } from '../../model/lanes/session-model.js';

/** A pruned model with its inputs and outputs, and how its sessions are opened. Immutable. */
export interface FeatureModel extends Runnable, SessionSetup {
  readonly pruned: PrunedModel;
  readonly outputs: readonly FeatureInfo[];
  readonly imageNormalization: ImageNormalization | null;
}

/** Puts together what is known of a pruned model once a session of it is open. Throws `OUTPUT_NOT_TENSOR`. */
export function createFeatureModel(
  pruned: PrunedModel,
  setup: SessionSetup,
  facts: SessionFacts,
): FeatureModel {
  const { rewrite, request } = prunedInternals.of(pruned);
  const inputs = describeInputs(rewrite);
  const outputs = describeOutputs(pruned, facts);
  const batches = new Set(inputs.map(({ dims }) => dims?.[0]));
  const [batch] = batches;
  return {
    pruned,
    ...setup,
    inputs,
    outputs,
    fetches: fetchesOf(rewrite),
    canPad:
      batches.size === 1 && typeof batch === 'string' && outputs.every(({ dims }) => dims?.[0] === batch),
    imageNormalization: request.image ?? null,
  };
}

function describeOutputs(pruned: PrunedModel, facts: SessionFacts): FeatureInfo[] {
  const { cut, outputs } = prunedInternals.of(pruned).rewrite;
  const byName = new Map(facts.outputs.map((output) => [output.name, output]));
  return outputs.map((output) => {
    const session = byName.get(output.tensor);
    // onnxruntime says that an optional tensor is not a tensor, and returns it nevertheless.
    if (session && !session.isTensor && output.value.producer?.opType !== 'Optional') {
      throw new TapirError(
        'OUTPUT_NOT_TENSOR',
        `"${output.request}" is a sequence, map or optional, which onnxruntime-node cannot give out; ask for a tensor before or after it`,
        { details: { output: output.request, type: 'not a tensor' } },
      );
    }
    return describeFeature(cut.graph, output, session);
  });
}

/** The outputs by key, in request order. A tensor that several keys request is copied for each of them. */
export async function recordOf<Key extends string>(
  { pruned }: FeatureModel,
  byTensor: ReadonlyMap<string, Tensor>,
): Promise<Record<Key, Tensor>> {
  const given = new Set<string>();
  const entries: [string, Tensor][] = [];
  for (const { key, tensor: name } of prunedInternals.of(pruned).rewrite.outputs) {
    const tensor = byTensor.get(name)!;
    // oxlint-disable-next-line no-await-in-loop -- copies run one after the other anyway
    entries.push([key, given.has(name) ? await copyTensor(tensor) : tensor]);
    given.add(name);
  }
  // Exactly the keys of the request.
  return Object.fromEntries(entries) as Record<Key, Tensor>;
}
