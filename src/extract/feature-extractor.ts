/** The pruned model with a session: tensors in, named features out. */
import type { Options } from '../base/checks.js';
import type { ImageNormalization } from '../graph/rewrite/image-input.js';
import type { Feed } from '../tensor/image-feed.js';
import type { Replica } from '../runtime/replica.js';
import type { Tensor } from '../tensor/tensor.js';
import type { FeatureInfo } from '../model/feature-info.js';
import { recordOf, type FeatureModel } from './feature-model.js';
import { readFeeds } from '../tensor/read-feeds.js';
import type { ExtractorInternals } from './internals.js';
import type { PrunedModel } from '../model/pruned-model.js';
import { runBatch } from '../runtime/run-batch.js';
import { readRunOptions, RUN_DEFAULTS, type RunInput, type RunOptions } from './run-options.js';
import type { TensorInfo } from '../tensor/tensor-info.js';

let internalsOf: <Key extends string>(extractor: FeatureExtractor<Key>) => ExtractorInternals<Key>;

/**
 * Computes named intermediate features of a model. Made by {@link createFeatureExtractor}.
 *
 * @remarks The session lives in a thread of its own, so running never blocks the caller. Calls may overlap; they run in the
 * order they were made. If the thread or process dies, its runs fail with `LANE_DIED` and the next one opens it again.
 */
export class FeatureExtractor<Key extends string = string> {
  /** The model it runs, to save or to inspect. */
  readonly model: PrunedModel;
  /** The inputs that must be fed. */
  readonly inputs: readonly TensorInfo[];
  /** The outputs, in the order of the request. */
  readonly outputs: readonly FeatureInfo[];
  /** How the graph normalises the pixels it is fed, with `input: 'image-uint8'`; else null. */
  readonly imageNormalization: ImageNormalization | null;
  /** The device in use; `'auto'` is resolved. */
  readonly device: string;
  /** Version of onnxruntime in use. */
  readonly runtime: string;
  readonly #model: FeatureModel;
  readonly #replica: Replica;

  static {
    internalsOf = (extractor) => ({
      model: extractor.#model,
      sessions: [extractor.#replica.facts.device],
      spent: [extractor.#replica.spent],
      runWhole: (feed, signal) => extractor.#run([feed], { ...RUN_DEFAULTS, signal }),
    });
  }

  /** Use {@link createFeatureExtractor}. */
  constructor(model: FeatureModel, replica: Replica) {
    this.#model = model;
    this.#replica = replica;
    this.model = model.pruned;
    this.inputs = model.inputs;
    this.outputs = model.outputs;
    this.imageNormalization = model.imageNormalization;
    this.device = replica.device;
    this.runtime = replica.facts.runtime;
  }

  /**
   * Runs the model.
   *
   * @param input - A tensor for the only input, or tensors by input name; an `ort.Tensor` is fine. Leave its data unchanged
   * until the call settles. Rows beyond a batch that is fixed in the graph run one after the other.
   * @param given - See {@link RunOptions}.
   * @returns A tensor per output key, with the model's dims, in buffers of the caller's own.
   * @throws {@link TapirError} `INPUT_MISMATCH` for a missing input or one whose dtype or dims do not fit; `BATCH_FIXED` if the
   * graph has a fixed batch that does not divide the rows; `RUN_FAILED`; `LANE_DIED`; `CLOSED`; the signal's reason if it fires.
   */
  async run(input: RunInput, given: Options<RunOptions> = {}): Promise<Record<Key, Tensor>> {
    const options = readRunOptions(given);
    return this.#run(readFeeds(this.inputs, input), options);
  }

  async #run(feeds: readonly Feed[], options: RunOptions): Promise<Record<Key, Tensor>> {
    const { inputs, fetches, canPad } = this.#model;
    const results = await runBatch(this.#replica, inputs, feeds, fetches, { ...options, canPad });
    return recordOf(this.#model, new Map(fetches.map((tensor, i) => [tensor, results[i]!])));
  }

  /** Waits for runs in flight and ends the session and its thread. Idempotent. */
  close(): Promise<void> {
    return this.#replica.close();
  }

  /** Same as {@link FeatureExtractor.close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export { internalsOf };
