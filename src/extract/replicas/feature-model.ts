/** A pruned model as it runs: its inputs and outputs. */
import { TapirError } from '../../base/errors.js';
import type { TransformRequest } from '../../photos/feeds/choose-transform.js';
import type { ImageNormalization } from '../../onnx/graph/rewrite/image-input.js';
import { fetchesOf } from '../../onnx/graph/rewrite/rewrite.js';
import type { SessionFacts } from '../../run/runtime/lanes/protocol.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { copyTensor } from '../../onnx/tensor/tensor-part.js';
import { describeInputs } from '../../run/model/open/value-info.js';
import { describeFeature, type FeatureInfo } from '../../run/model/prune/feature-info.js';
import { rememberValue } from '../../run/model/prune/model-tokens.js';
import { prunedInternals, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import type { OutputDtype, PerOutput } from '../../run/model/prune/rewrite-options.js';
import type { Runnable } from '../../run/runtime/run-batch.js';
import type { SessionSetup } from '../../run/model/lanes/session-model.js';
import { asDescribed, givenOutputs } from './output-dtype.js';

/** A pruned model with its inputs and outputs, and how its sessions are opened. Immutable. */
export interface FeatureModel extends Runnable, SessionSetup {
  readonly pruned: PrunedModel;
  /** The outputs as runs give them. */
  readonly outputs: readonly FeatureInfo[];
  /** The outputs as the session gives them, and as datasets hold them. */
  readonly kept: readonly FeatureInfo[];
  readonly outputDtype: PerOutput<OutputDtype>;
  readonly imageNormalization: ImageNormalization | null;
  /** What `'auto'` is where photos are embedded. */
  readonly transform: TransformRequest;
  /** What was taken from the model's own file; null if the call stated all, or there is none. */
  readonly own: OwnSettings | null;
}

/** The values that were taken from a model's own file. */
export interface OwnSettings {
  readonly file: string;
  readonly keys: readonly ('dynamicBatch' | 'engine' | 'precision')[];
}

/** Puts together what is known of a pruned model once a session of it is open. Throws `OUTPUT_NOT_TENSOR`, and those of {@link givenOutputs}. */
export function createFeatureModel(
  pruned: PrunedModel,
  setup: SessionSetup,
  facts: SessionFacts,
  {
    outputDtype,
    transform,
    own = null,
  }: Pick<FeatureModel, 'outputDtype' | 'transform'> & Partial<Pick<FeatureModel, 'own'>>,
): FeatureModel {
  const { rewrite, request } = prunedInternals.of(pruned);
  const inputs = describeInputs(rewrite);
  const kept = describeOutputs(pruned, facts);
  const batches = new Set(inputs.map(({ dims }) => dims?.[0]));
  const [batch] = batches;
  return {
    pruned,
    ...setup,
    inputs,
    outputs: givenOutputs(kept, outputDtype),
    kept,
    outputDtype,
    fetches: fetchesOf(rewrite),
    canPad: batches.size === 1 && typeof batch === 'string' && kept.every(({ dims }) => dims?.[0] === batch),
    imageNormalization: request.image ?? null,
    transform,
    own,
  };
}

function describeOutputs(pruned: PrunedModel, facts: SessionFacts): FeatureInfo[] {
  const { model, rewrite } = prunedInternals.of(pruned);
  const byName = new Map(facts.outputs.map((output) => [output.name, output]));
  return rewrite.outputs.map((output) => {
    const session = byName.get(output.tensor);
    // onnxruntime says that an optional tensor is not a tensor, and returns it nevertheless.
    if (session && !session.isTensor && output.value.producer?.opType !== 'Optional') {
      throw new TapirError(
        'OUTPUT_NOT_TENSOR',
        `"${output.request}" is a sequence, map or optional, which onnxruntime-node cannot give out; ask for a tensor before or after it`,
        { details: { output: output.request, type: 'not a tensor' } },
      );
    }
    return describeFeature(model, output, session);
  });
}

/**
 * The outputs by key, in request order, as they are described: as runs give them, or as the session does if they are kept. A tensor that
 * several keys request is copied for each of them.
 */
export async function recordOf<Key extends string>(
  { pruned, outputs, kept }: FeatureModel,
  byTensor: ReadonlyMap<string, Tensor>,
  isKept: boolean,
): Promise<Record<Key, Tensor>> {
  const given = new Set<string>();
  const entries: [string, Tensor][] = [];
  const { model, rewrite } = prunedInternals.of(pruned);
  for (const [i, { key, tensor: name, value, computed }] of rewrite.outputs.entries()) {
    const tensor = byTensor.get(name)!;
    // oxlint-disable-next-line no-await-in-loop -- copies run one after the other anyway
    const own = given.has(name) ? await copyTensor(tensor) : tensor;
    const described = asDescribed((isKept ? kept : outputs)[i]!, own);
    if (computed.length === 0) rememberValue(described, model, value);
    entries.push([key, described]);
    given.add(name);
  }
  // Exactly the keys of the request.
  return Object.fromEntries(entries) as Record<Key, Tensor>;
}
