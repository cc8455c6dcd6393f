/** Model + names → an extractor on one device or several. */
import { givenFields, type Options } from '../base/checks.js';
import { describeLanes } from '../run/model/lanes/describe-lanes.js';
import type { KeysOf, ReturnNodes } from '../run/model/open/return-nodes.js';
import type { PrunedModel } from '../run/model/prune/pruned-model.js';
import type { Device, Devices, ResolvedDevice } from '../run/runtime/lanes/device.js';
import { namedDevices } from '../run/runtime/devices/device-list.js';
import { warmLane } from '../run/runtime/lanes/lane-start.js';
import { openReplica, type Runner } from '../run/runtime/replica.js';
import type { DType } from '../onnx/tensor/tensor.js';
import { newDataParallel, type DataParallel } from './data-parallel.js';
import type { Extractor } from './extractor.js';
import {
  readExtractorOptions,
  type CheckedOptions,
  type FeatureExtractorOptions,
} from './extractor-options.js';
import { newFeatureExtractor, type FeatureExtractor } from './feature-extractor.js';
import { withOwnSettings } from './own-settings.js';
import { pruneSource, type ExtractorSource } from './prune-source.js';
import { createFeatureModel, type OwnSettings } from './replicas/feature-model.js';
import { openReplicas } from './replicas/open-replicas.js';
import type { DTypeOf, OutputDtypeOption } from './replicas/output-dtype.js';
import type { ParallelOptions } from './replicas/parallel-options.js';
import { holdReplica, releaseReplica, ReplicaSet } from './replicas/replica-set.js';

type OutputDtypes = FeatureExtractorOptions['outputDtype'];

/** Stands for an option that a call leaves out. Without strictNullChecks, `undefined` extends every type, so it cannot. */
interface Unstated {
  readonly unstated: never;
}

/** The options that the type of the result does not depend on. */
type Others = Options<Omit<FeatureExtractorOptions, 'devices' | 'device' | 'outputDtype'>>;

/** Options of a call. The compiler keeps what the type of the result depends on. */
type Given<Several, Single, Asked> = Others & {
  readonly devices?: Several;
  readonly device?: Single;
  readonly outputDtype?: Asked;
};

/** Options with devices. */
type GivenDevices<Asked> = Others & {
  readonly devices: Devices;
  readonly device?: undefined;
  readonly outputDtype?: Asked;
};

/**
 * What {@link createFeatureExtractor} gives without `devices`: on a `device` a {@link FeatureExtractor}, else what the source is. Either one
 * if there may be `devices`.
 */
export type ExtractorOf<
  From,
  Key extends string,
  Type extends DType,
  Several,
  Single,
> = Several extends Devices
  ? FeatureExtractor<Key, Type> | DataParallel<Key, Type>
  : Single extends Device
    ? FeatureExtractor<Key, Type>
    : From extends DataParallel<string, DType>
      ? DataParallel<Key, Type>
      : DataParallel<string, DType> extends From
        ? FeatureExtractor<Key, Type> | DataParallel<Key, Type>
        : FeatureExtractor<Key, Type>;

/** The keys of a source that runs as it is, and the element type of its outputs. */
type KeyOf<From> = From extends Extractor<infer Key> ? Key : string;
type TypeBefore<From> = From extends Extractor<string, infer Type> ? Type : 'float32';

/** The element type of outputs: what a call asks for. Without a word it is that of the same outputs before, else float32. */
type TypeOf<Asked, Before extends DType> = Asked extends Unstated | undefined ? Before : DTypeOf<Asked>;

/** Puts a model with its own outputs, or a pruned model as it is, on several devices: the form without names. */
export async function createFeatureExtractor<
  From extends ExtractorSource,
  Asked extends OutputDtypes | undefined | Unstated = Unstated,
>(
  model: From,
  returnNodes: undefined,
  given: GivenDevices<Asked>,
): Promise<DataParallel<KeyOf<From>, TypeOf<Asked, TypeBefore<From>>>>;
/** Creates a feature extractor of a model with its own outputs, or of a pruned model as it is: the form without names. */
export async function createFeatureExtractor<
  From extends ExtractorSource,
  Several extends Devices | undefined | Unstated = Unstated,
  Single extends Device | undefined | Unstated = Unstated,
  Asked extends OutputDtypes | undefined | Unstated = Unstated,
>(
  model: From,
  returnNodes?: undefined,
  given?: Given<Several, Single, Asked>,
): Promise<ExtractorOf<From, KeyOf<From>, TypeOf<Asked, TypeBefore<From>>, Several, Single>>;
/** Creates a feature extractor on several devices: a {@link DataParallel}, which splits each batch over them. */
export async function createFeatureExtractor<
  const Nodes extends ReturnNodes,
  Asked extends OutputDtypes | undefined | Unstated = Unstated,
>(
  model: ExtractorSource,
  returnNodes: Nodes,
  given: GivenDevices<Asked>,
): Promise<DataParallel<KeysOf<Nodes>, TypeOf<Asked, 'float32'>>>;
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
 * @param returnNodes - Names to return, or names mapped to output keys. Leave them out for the outputs of the file, such as one that
 * {@link pruneModel} has saved. A pruned model, or that of an extractor, then runs as it is; options that change what it computes are refused.
 * @param given - See {@link FeatureExtractorOptions}.
 * @returns The extractor; with `devices`, or from one on several devices, a {@link DataParallel}. Close it after use.
 * @throws {@link TapirError} those of {@link pruneModel}; `SESSION_FAILED` if the engine refuses the model; `ENGINE_UNSUPPORTED`;
 * `PRECISION_UNSUPPORTED`; `DEVICE_UNAVAILABLE`, also for `devices: 'all'` without a GPU; `DEPENDENCY_MISSING`; `OPTION_INVALID`;
 * `SETTINGS_INVALID` for a damaged `MODEL.onnx.tapir.json`.
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
  Several extends Devices | undefined | Unstated = Unstated,
  Single extends Device | undefined | Unstated = Unstated,
  Asked extends OutputDtypes | undefined | Unstated = Unstated,
>(
  model: From,
  returnNodes: Nodes,
  given?: Given<Several, Single, Asked>,
): Promise<ExtractorOf<From, KeysOf<Nodes>, TypeOf<Asked, 'float32'>, Several, Single>>;
export async function createFeatureExtractor(
  model: ExtractorSource,
  returnNodes?: ReturnNodes,
  given: Options<FeatureExtractorOptions> = {},
): Promise<Extractor> {
  const fields = givenFields(given, 'createFeatureExtractor');
  // Else everything is read at once: what the caller does to the options later changes nothing.
  const named =
    fields.devices === 'all' ? { ...fields, devices: await namedDevices(fields.devices) } : fields;
  const hasNodes = returnNodes !== undefined;
  const { options: asked, own } = withOwnSettings(model, named, hasNodes, placesOf(named));
  const { setup, rewriting, transform, place } = readExtractorOptions(model, asked, !hasNodes);
  // The thread of the session starts while the model is being pruned: both take about as long.
  const prune = (onto: ResolvedDevice): Promise<PrunedModel> => {
    warmLane(setup.lane, onto);
    return pruneSource(model, returnNodes, rewriting, asked, transform);
  };
  const how = { setup, transform, outputDtype: rewriting.outputDtype, own };
  if ('device' in place) return createSingle(prune(place.device), place.device, how);
  return createParallel(prune(place.devices[0]!), place.devices, place.parallel, how);
}

/** How sessions are opened, how photos become their feeds, and what runs give. */
type Settings = Pick<CheckedOptions, 'setup' | 'transform'> &
  OutputDtypeOption & { readonly own: OwnSettings | null };

/** The devices of a call, as it names them. */
function placesOf({ device = 'cpu', devices }: Options<FeatureExtractorOptions>): readonly unknown[] {
  return Array.isArray(devices) ? devices : [device];
}

async function createSingle(
  pruning: Promise<PrunedModel>,
  device: ResolvedDevice,
  how: Settings,
): Promise<FeatureExtractor<string, DType>> {
  const { setup } = how;
  const place = { device, lane: setup.lane, sessions: 1, onLaneDeath: 'restart' } as const;
  const replica = await openReplica(place, describeLanes(pruning, setup, 1)(device));
  return newFeatureExtractor(await createSet(pruning, [replica], how));
}

async function createParallel(
  pruning: Promise<PrunedModel>,
  devices: readonly ResolvedDevice[],
  options: ParallelOptions,
  how: Settings,
): Promise<DataParallel<string, DType>> {
  const replicas = await openReplicas(pruning, devices, how.setup, options);
  const set = await createSet(pruning, replicas, how, options);
  // As in torch, replica 0 is the module itself.
  const module = newFeatureExtractor(new ReplicaSet(set.model, [holdReplica(replicas[0]!)]));
  return newDataParallel(module, set, true);
}

/** The set of the given replicas. Closes them if the model is not what it must be. */
async function createSet(
  pruning: Promise<PrunedModel>,
  replicas: readonly Runner[],
  { setup, ...how }: Settings,
  options?: ParallelOptions,
): Promise<ReplicaSet> {
  try {
    for (const { facts } of replicas)
      if (facts.fallback !== undefined)
        process.emitWarning(`device "auto" fell back to the CPU: ${facts.fallback}`);
    const model = createFeatureModel(await pruning, setup, replicas[0]!.facts, how);
    return new ReplicaSet(model, replicas, options);
  } catch (error) {
    await Promise.all(replicas.map(releaseReplica));
    throw error;
  }
}
