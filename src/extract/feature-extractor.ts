/** The pruned model with a session: tensors in, named features out. */
import { checkBoolean, checkSignal, withDefaults, type Given } from '../checks.js';
import { TapirError } from '../errors.js';
import type { ImageNormalization } from '../rewrite/image-input.js';
import { deviceName, readDevice, type Device } from '../runtime/device.js';
import { openLane, type Lane } from '../runtime/lane.js';
import { readSessionOptions, type SessionOptions } from '../runtime/session-options.js';
import type { Tensor, TensorLike } from '../runtime/tensor.js';
import { readFeeds } from './feeds.js';
import { describeFeature, type FeatureInfo } from './feature-info.js';
import type { OnnxModel, ModelSource } from './open-model.js';
import { preparedOf, pruneModel, rewriteOf, type PrunedModel } from './prune-model.js';
import type { KeysOf, ReturnNodes } from './return-nodes.js';
import { REWRITE_DEFAULTS, type RewriteOptions } from './rewrite-options.js';
import { runRows } from './run-rows.js';
import { describeModel } from './session-model.js';
import { describeInputs, type TensorInfo } from './value-info.js';

/** Options of {@link createFeatureExtractor}. */
export interface FeatureExtractorOptions extends RewriteOptions {
  /**
   * Where to run: `'cpu'`, `'cuda'`, `'cuda:1'`, `'webgpu'`, `'auto'`, or `{ type, id, threads }`. A device that was asked for
   * is used, or it is an error; only `'auto'` falls back to the CPU, with a warning.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * Session options of onnxruntime.
   * @default {}
   */
  readonly session: Given<SessionOptions>;
}

export const FEATURE_EXTRACTOR_DEFAULTS: FeatureExtractorOptions = {
  ...REWRITE_DEFAULTS,
  device: 'cpu',
  session: {},
};

/** Options of {@link FeatureExtractor.run}. */
export interface RunOptions {
  /**
   * Rejects the call at once when it fires. The session stays busy until the run in flight returns: onnxruntime-node cannot
   * cancel it.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Move the feeds' buffers to the session's thread instead of copying them; the caller's arrays are empty afterwards.
   * @default false
   */
  readonly transfer: boolean;
}

export const RUN_DEFAULTS: RunOptions = { signal: undefined, transfer: false };

/** What `run` accepts: a tensor for the only input, or tensors by input name. */
export type RunInput = TensorLike | Readonly<Record<string, TensorLike>>;

/**
 * Computes named intermediate features of a model. Made by {@link createFeatureExtractor}.
 *
 * @remarks The session lives in a thread of its own, so running never blocks the caller. Calls may overlap; they run in the
 * order they were made.
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
  readonly #lane: Lane;

  /** Use {@link createFeatureExtractor}. */
  constructor(model: PrunedModel, lane: Lane, outputs: readonly FeatureInfo[]) {
    this.model = model;
    this.#lane = lane;
    this.outputs = outputs;
    this.device = deviceName(lane.facts.device);
    this.runtime = lane.facts.runtime;
    this.inputs = describeInputs(rewriteOf(model));
    this.imageNormalization = preparedOf(model).request.image ?? null;
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
  async run(input: RunInput, given: Given<RunOptions> = {}): Promise<Record<Key, Tensor>> {
    const { signal, transfer } = withDefaults(RUN_DEFAULTS, given, 'run');
    checkSignal(signal);
    checkBoolean('transfer', transfer);
    const feeds = readFeeds(this.inputs, input);
    const fetches = [...new Set(rewriteOf(this.model).outputs.map((output) => output.tensor))];
    const results = await runRows(this.#lane, this.inputs, feeds, fetches, { signal, transfer });
    return this.#record(new Map(fetches.map((tensor, i) => [tensor, results[i]!])));
  }

  /** Keys in request order; a tensor asked for under several keys gives each a copy of its own. */
  #record(byTensor: ReadonlyMap<string, Tensor>): Record<Key, Tensor> {
    const given = new Set<string>();
    const entries = rewriteOf(this.model).outputs.map(({ key, tensor }): [string, Tensor] => {
      const result = byTensor.get(tensor)!;
      const isFirst = !given.has(tensor);
      given.add(tensor);
      return [key, isFirst ? result : { ...result, data: result.data.slice() }];
    });
    // Exactly the keys of the request.
    return Object.fromEntries(entries) as Record<Key, Tensor>;
  }

  /** Waits for runs in flight and ends the session and its thread. Idempotent. */
  close(): Promise<void> {
    return this.#lane.close();
  }

  /** Same as {@link FeatureExtractor.close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Creates a feature extractor: cuts the model down to what the named values need and opens a session for it.
 *
 * What torchvision's function of this name is to PyTorch, for ONNX files: names are tensor names, node names or module paths
 * (`layer4` is the last node under it); see {@link getGraphNodeNames}. Unlike there, each name is resolved by itself, results
 * come in the order of the request, and a name whose value the exporter folded away is refused.
 *
 * @param model - A model, a pruned model's source, or where to open one.
 * @param returnNodes - Names to return, or names mapped to output keys.
 * @param given - See {@link FeatureExtractorOptions}.
 * @returns The extractor; close it after use.
 * @throws {@link TapirError} what {@link pruneModel} throws; `SESSION_FAILED` if ONNX Runtime refuses the model;
 * `DEVICE_UNAVAILABLE`; `DEPENDENCY_MISSING`; `OPTION_INVALID`.
 *
 * @example Feature map and pooled vector of a ResNet-50, `[N, 2048, 7, 7]` and `[N, 2048, 1, 1]` float32.
 * ```ts
 * import { createFeatureExtractor } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { layer4: 'features', avgpool: 'pooled' });
 * const batch = { dtype: 'float32', dims: [2, 3, 224, 224], data: new Float32Array(2 * 3 * 224 * 224) };
 * const { features, pooled } = await extractor.run(batch);
 * console.log(features.dims, pooled.dims); // [2, 2048, 7, 7] [2, 2048, 1, 1]
 * await extractor.close();
 * ```
 */
export async function createFeatureExtractor<const Nodes extends ReturnNodes>(
  model: OnnxModel | ModelSource,
  returnNodes: Nodes,
  given: Given<FeatureExtractorOptions> = {},
): Promise<FeatureExtractor<KeysOf<Nodes>>> {
  const {
    device: wanted,
    session: entries,
    ...rewriting
  } = withDefaults(FEATURE_EXTRACTOR_DEFAULTS, given, 'createFeatureExtractor');
  const device = readDevice('device', wanted);
  const session = readSessionOptions(entries);
  // Pruning and the start of the session's thread take about as long; they run beside each other.
  const pruning = pruneModel(model, returnNodes, rewriting);
  const lane = await openLane(device, async () => {
    const pruned = await pruning;
    return { ...(await describeModel(pruned.source, rewriteOf(pruned))), device, session };
  });
  try {
    if (lane.facts.fallback !== undefined)
      process.emitWarning(`device "auto" fell back to the CPU: ${lane.facts.fallback}`);
    const pruned = await pruning;
    return new FeatureExtractor(pruned, lane, describeFeatures(pruned, lane));
  } catch (error) {
    await lane.close();
    throw error;
  }
}

function describeFeatures(pruned: PrunedModel, lane: Lane): FeatureInfo[] {
  const { cut, outputs } = rewriteOf(pruned);
  const byName = new Map(lane.facts.outputs.map((output) => [output.name, output]));
  return outputs.map((output) => {
    const session = byName.get(output.tensor);
    // onnxruntime reports an optional tensor as no tensor, and yet gives it out.
    if (session && !session.isTensor && output.value.producer?.opType !== 'Optional') {
      throw new TapirError(
        'OUTPUT_NOT_TENSOR',
        `"${output.request}" is a sequence, map or optional, which onnxruntime-node cannot give out; ask for a tensor before or behind it`,
        { details: { output: output.request, type: 'not a tensor' } },
      );
    }
    return describeFeature(cut.graph, output, session);
  });
}
