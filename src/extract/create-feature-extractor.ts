/** Model + names → an extractor on one device or several. */
import { givenFields, type Options } from '../base/checks.js';
import { describeLanes } from '../model/lanes/describe-lanes.js';
import type { SessionSetup } from '../model/lanes/session-model.js';
import type { KeysOf, ReturnNodes } from '../model/open/return-nodes.js';
import type { PrunedModel } from '../model/prune/pruned-model.js';
import type { Device, ResolvedDevice } from '../runtime/lanes/device.js';
import { warmLane } from '../runtime/lanes/lane-start.js';
import { openReplica, type Runner } from '../runtime/replica.js';
import type { DType } from '../tensor/tensor.js';
import { newDataParallel, type DataParallel } from './data-parallel.js';
import type { Extractor } from './extractor.js';
import { readExtractorOptions, type FeatureExtractorOptions } from './extractor-options.js';
import { newFeatureExtractor, type FeatureExtractor } from './feature-extractor.js';
import { pruneSource, type ExtractorSource } from './prune-source.js';
import { createFeatureModel } from './replicas/feature-model.js';
import { openReplicas } from './replicas/open-replicas.js';
import type { ParallelOptions } from './replicas/parallel-options.js';
import { holdReplica, releaseReplica, ReplicaSet } from './replicas/replica-set.js';

/** The options of a call, and no others. */
type ExtractorOptions<Given> = Options<FeatureExtractorOptions> &
  ([Exclude<keyof Given, keyof FeatureExtractorOptions>] extends [never]
    ? unknown
    : { readonly 'known options only': never });

/** What a call gives for an option. `false` stands for nothing: without strictNullChecks, `undefined` extends every type. */
type Stated<Given, Name> = Given extends object ? (Name extends keyof Given ? Given[Name] : false) : never;

/**
 * What {@link createFeatureExtractor} gives: on `devices` a {@link DataParallel}, on a `device` a {@link FeatureExtractor}, else what the
 * source is. Keys are those of the request; without one, those of the source.
 */
export type ExtractorOf<From, Nodes, Given> = Nodes extends ReturnNodes
  ? KindOf<From, Given, KeysOf<Nodes>, Given extends { outputDtype: infer Type extends DType } ? Type : DType>
  : From extends Extractor<infer Key, infer Type>
    ? KindOf<From, Given, Key, Type>
    : KindOf<From, Given, string, DType>;

type KindOf<
  From,
  Given,
  Key extends string,
  Type extends DType,
  Several = Stated<Given, 'devices'>,
  Single = Stated<Given, 'device'>,
> = Several extends readonly Device[]
  ? DataParallel<Key, Type>
  : Single extends Device
    ? FeatureExtractor<Key, Type>
    : From extends DataParallel
      ? DataParallel<Key, Type>
      : DataParallel extends From
        ? FeatureExtractor<Key, Type> | DataParallel<Key, Type>
        : FeatureExtractor<Key, Type>;

/** Creates a feature extractor of a pruned model, or of the model of an extractor, as it is: the form without names. */
export async function createFeatureExtractor<
  From extends PrunedModel | Extractor,
  const Given extends ExtractorOptions<Given> = object,
>(model: From, returnNodes?: undefined, given?: Given): Promise<ExtractorOf<From, unknown, Given>>;
/**
 * Creates a feature extractor: cuts the model down to what the named values need, and opens a session for it.
 *
 * It is to ONNX files what torchvision's function of this name is to PyTorch. A name is a tensor name, a node name or a module path
 * (`layer4` is the last node under it); see {@link getGraphNodeNames}. Unlike in torchvision, each name is resolved independently,
 * results come in the order of the request, and a name whose value the exporter folded away is refused.
 *
 * @param model - A model, or where to open one. From an extractor, the new one takes the source model, and every option that you
 * leave out of its devices, sessions and lanes. From a pruned model, it takes the source model; from what {@link differentiate} gives, that
 * model itself, whose outputs are named `gradient/NAME`. What {@link lowerPrecision} gives runs as it is.
 * @param returnNodes - Names to return, or names mapped to output keys. Leave them out to run a pruned model, or the model of an
 * extractor, as it is; options that change what is computed are refused then.
 * @param given - See {@link FeatureExtractorOptions}.
 * @returns The extractor; with `devices`, or from one on several devices, a {@link DataParallel}. Close it after use.
 * @throws {@link TapirError} those of {@link pruneModel}; `SESSION_FAILED` if the engine refuses the model; `ENGINE_UNSUPPORTED`;
 * `PRECISION_UNSUPPORTED`; `DEVICE_UNAVAILABLE`; `DEPENDENCY_MISSING`; `OPTION_INVALID`.
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
export async function createFeatureExtractor<
  From extends ExtractorSource,
  const Nodes extends ReturnNodes,
  const Given extends ExtractorOptions<Given> = object,
>(model: From, returnNodes: Nodes, given?: Given): Promise<ExtractorOf<From, Nodes, Given>>;
export async function createFeatureExtractor(
  model: ExtractorSource,
  returnNodes?: ReturnNodes,
  given: Options<FeatureExtractorOptions> = {},
): Promise<Extractor> {
  const asked = givenFields(given, 'createFeatureExtractor');
  const { setup, rewriting, place } = readExtractorOptions(model, asked);
  // The thread of the session starts while the model is being pruned: both take about as long.
  const prune = (onto: ResolvedDevice): Promise<PrunedModel> => {
    warmLane(setup.lane, onto);
    return pruneSource(model, returnNodes, rewriting, asked);
  };
  if ('device' in place) return createSingle(prune(place.device), place.device, setup);
  return createParallel(prune(place.devices[0]!), place.devices, place.parallel, setup);
}

async function createSingle(
  pruning: Promise<PrunedModel>,
  device: ResolvedDevice,
  setup: SessionSetup,
): Promise<FeatureExtractor> {
  const place = { device, lane: setup.lane, sessions: 1, onLaneDeath: 'restart' } as const;
  const replica = await openReplica(place, describeLanes(pruning, setup, 1)(device));
  return newFeatureExtractor(await createSet(pruning, [replica], setup));
}

async function createParallel(
  pruning: Promise<PrunedModel>,
  devices: readonly ResolvedDevice[],
  options: ParallelOptions,
  setup: SessionSetup,
): Promise<DataParallel> {
  const replicas = await openReplicas(pruning, devices, setup, options);
  const set = await createSet(pruning, replicas, setup, options);
  // As in torch, replica 0 is the module itself.
  const module = newFeatureExtractor(new ReplicaSet(set.model, [holdReplica(replicas[0]!)]));
  return newDataParallel(module, set, true);
}

/** The set of the given replicas. Closes them if the model is not what it must be. */
async function createSet(
  pruning: Promise<PrunedModel>,
  replicas: readonly Runner[],
  setup: SessionSetup,
  options?: ParallelOptions,
): Promise<ReplicaSet> {
  try {
    for (const { facts } of replicas)
      if (facts.fallback !== undefined)
        process.emitWarning(`device "auto" fell back to the CPU: ${facts.fallback}`);
    const model = createFeatureModel(await pruning, setup, replicas[0]!.facts);
    return new ReplicaSet(model, replicas, options);
  } catch (error) {
    await Promise.all(replicas.map(releaseReplica));
    throw error;
  }
}
