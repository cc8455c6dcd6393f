/** A pruned model with a session: tensors in, named features out. */
import type { Options } from '../base/checks.js';
import type { DType, Tensor } from '../onnx/tensor/tensor.js';
import { Extractor, feedsOf } from './extractor.js';
import type { ReplicaSet } from './replicas/replica-set.js';
import { readRunOptions, type RunInput, type RunOptions } from './replicas/run-options.js';

let newFeatureExtractor: <Key extends string, Type extends DType>(
  set: ReplicaSet,
) => FeatureExtractor<Key, Type>;

/**
 * Computes named intermediate features of a model on one device. Made by {@link createFeatureExtractor}.
 *
 * @remarks The session has its own thread, so a run never blocks the caller. Calls may overlap; they run in the order of the
 * calls. If the thread or process dies, its runs fail with `LANE_DIED`, and the next run opens the session again.
 */
export class FeatureExtractor<Key extends string = string, Type extends DType = 'float32'> extends Extractor<
  Key,
  Type
> {
  /** Kept here too: without a private member, TypeScript would take a {@link DataParallel} for a FeatureExtractor. */
  readonly #set: ReplicaSet;

  static {
    newFeatureExtractor = (set) => new FeatureExtractor(set);
  }

  private constructor(set: ReplicaSet) {
    super(set);
    this.#set = set;
  }

  /**
   * Runs the model.
   *
   * @param input - A tensor for the only input, or tensors by input name; an `ort.Tensor` works, too. Do not change its data until
   * the call settles. If the graph has a fixed batch, several batches run one after the other, and so do photos `[N, height, width, 3]` of a graph
   * with input `photo`; one with `photo-batch` takes `[height, width, 3]`, too.
   * @param given - See {@link RunOptions}.
   * @returns A tensor per output key, with the dims of the model, in buffers that are yours: float32, unless the option `outputDtype` says
   * otherwise.
   * @throws {@link TapirError} `INPUT_MISMATCH` for a missing input, or one whose dtype or dims do not fit; `BATCH_FIXED` if the
   * rows are not a multiple of a fixed batch; `RUN_FAILED`; `LANE_DIED`; `CLOSED`; the signal's reason if it fires.
   */
  async run(input: RunInput, given: Options<RunOptions> = {}): Promise<Record<Key, Tensor<Type>>> {
    const options = readRunOptions(given);
    const record = await this.#set.run(feedsOf(this, input), { ...options, split: 'none' });
    // Its keys are those of the request, and Type is that of its outputs.
    return record as Record<Key, Tensor<Type>>;
  }
}

export { newFeatureExtractor };
