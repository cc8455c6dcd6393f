/** Model + names → an extractor on one device or several. */
import { invalidOption, withDefaults, type Options } from '../base/checks.js';
import { readDevice, readDevices, type Device, type ResolvedDevice } from '../runtime/device.js';
import { LANE_DEFAULTS, readLaneOptions, type LaneOptions } from '../runtime/lane-options.js';
import { warmLane } from '../runtime/lane-start.js';
import { openReplica, type Replica } from '../runtime/replica.js';
import { readSessionOptions, type SessionOptions } from '../runtime/session-options.js';
import { DataParallel, internalsOf as parallelInternalsOf } from './data-parallel.js';
import type { Extractor } from './extractor.js';
import { FeatureExtractor, internalsOf } from './feature-extractor.js';
import { createFeatureModel, type SessionSetup } from './feature-model.js';
import { describeLanes } from './describe-lanes.js';
import type { OnnxModel, ModelSource } from '../model/open-model.js';
import { openReplicas } from './open-replicas.js';
import { PARALLEL_DEFAULTS, readParallelOptions, type ParallelOptions } from './parallel-options.js';
import { pruneModel } from '../model/oracle/prune-model.js';
import type { PrunedModel } from '../model/pruned-model.js';
import type { KeysOf, ReturnNodes } from '../model/return-nodes.js';
import { REWRITE_DEFAULTS, type RewriteOptions } from '../model/rewrite-options.js';

/** Options of {@link createFeatureExtractor}. */
export interface FeatureExtractorOptions extends RewriteOptions, LaneOptions {
  /**
   * Where to run: `'cpu'`, `'cuda'`, `'cuda:1'`, `'webgpu'`, `'auto'`, or `{ type, id, threads }`. A device that was asked for
   * is used, or it is an error; only `'auto'` falls back to the CPU, with a warning.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * Several devices instead, each at most once: the result is a {@link DataParallel}. `'cpu:0'`, `'cpu:1'`, … are lanes that
   * share the cores.
   * @default undefined
   */
  readonly devices: readonly Device[] | undefined;
  /**
   * How batches are split over `devices`.
   * @default {}
   */
  readonly parallel: Options<ParallelOptions>;
  /**
   * Session options of onnxruntime.
   * @default {}
   */
  readonly session: Options<SessionOptions>;
}

export const FEATURE_EXTRACTOR_DEFAULTS: FeatureExtractorOptions = {
  ...REWRITE_DEFAULTS,
  ...LANE_DEFAULTS,
  device: 'cpu',
  devices: undefined,
  parallel: {},
  session: {},
};

/**
 * Creates a feature extractor: cuts the model down to what the named values need and opens a session for it.
 *
 * What torchvision's function of this name is to PyTorch, for ONNX files: names are tensor names, node names or module paths
 * (`layer4` is the last node under it); see {@link getGraphNodeNames}. Unlike there, each name is resolved by itself, results
 * come in the order of the request, and a name whose value the exporter folded away is refused.
 *
 * @param model - A model, or where to open one; or a data-parallel one: its extractor's source model on the same devices.
 * @param returnNodes - Names to return, or names mapped to output keys.
 * @param given - See {@link FeatureExtractorOptions}.
 * @returns The extractor, with `devices` a {@link DataParallel}; close it after use.
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
  given: Options<FeatureExtractorOptions> & { readonly devices: readonly Device[] },
): Promise<DataParallel<KeysOf<Nodes>>>;
export async function createFeatureExtractor<const Nodes extends ReturnNodes>(
  model: OnnxModel | ModelSource,
  returnNodes: Nodes,
  given?: Options<FeatureExtractorOptions> & { readonly devices?: undefined },
): Promise<FeatureExtractor<KeysOf<Nodes>>>;
export async function createFeatureExtractor<const Nodes extends ReturnNodes>(
  model: DataParallel,
  returnNodes: Nodes,
  given?: Options<FeatureExtractorOptions> & { readonly device?: undefined },
): Promise<DataParallel<KeysOf<Nodes>>>;
export async function createFeatureExtractor<const Nodes extends ReturnNodes>(
  model: OnnxModel | ModelSource | DataParallel,
  returnNodes: Nodes,
  given?: Options<FeatureExtractorOptions>,
): Promise<Extractor<KeysOf<Nodes>>>;
export async function createFeatureExtractor<const Nodes extends ReturnNodes>(
  model: OnnxModel | ModelSource | DataParallel,
  returnNodes: Nodes,
  given: Options<FeatureExtractorOptions> = {},
): Promise<Extractor<KeysOf<Nodes>>> {
  const options = withDefaults(FEATURE_EXTRACTOR_DEFAULTS, given, 'createFeatureExtractor');
  if (model instanceof DataParallel) return unwrap(model, returnNodes, given);
  const { device, devices, parallel, session, isolation, exitTimeoutMs, cudaLibraries, ...rest } = options;
  const { cache, cacheFolder, cacheBytes, ...rewriting } = rest;
  const setup: SessionSetup = {
    session: readSessionOptions(session),
    lane: readLaneOptions({ isolation, exitTimeoutMs, cudaLibraries, cache, cacheFolder, cacheBytes }),
  };
  // Its thread takes as long to start as pruning does, which begins at once; they run beside each other.
  const prune = (onto: ResolvedDevice): Promise<PrunedModel> => {
    warmLane(setup.lane, onto);
    return pruneModel(model, returnNodes, rewriting);
  };
  if (devices === undefined) {
    if (Object.keys(parallel).length > 0)
      throw invalidOption('parallel', 'left out without "devices"', parallel);
    const single = readDevice('device', device);
    return createSingle(prune(single), single, setup);
  }
  if (given.device !== undefined) throw invalidOption('device', 'left out where "devices" is given', device);
  const list = readDevices('devices', devices);
  const how = readParallelOptions(parallel, list.length);
  return createParallel(prune(list[0]!), list, how, setup);
}

async function createSingle<Key extends string>(
  pruning: Promise<PrunedModel>,
  device: ResolvedDevice,
  setup: SessionSetup,
): Promise<FeatureExtractor<Key>> {
  const place = { device, lane: setup.lane, sessions: 1, onLaneDeath: 'restart' } as const;
  const replica = await openReplica(place, describeLanes(pruning, setup, 1)(device));
  return ready(pruning, [replica], setup);
}

async function createParallel<Key extends string>(
  pruning: Promise<PrunedModel>,
  devices: readonly ResolvedDevice[],
  options: ParallelOptions,
  setup: SessionSetup,
): Promise<DataParallel<Key>> {
  const replicas = await openReplicas(pruning, devices, setup, options);
  // As in torch, replica 0 is the module itself.
  const module = await ready<Key>(pruning, replicas, setup);
  return new DataParallel(module, replicas, { devices, options }, true);
}

/** The extractor on the first replica. Closes all of them if the model is not what it must be. */
async function ready<Key extends string>(
  pruning: Promise<PrunedModel>,
  replicas: readonly Replica[],
  setup: SessionSetup,
): Promise<FeatureExtractor<Key>> {
  const [first] = replicas;
  try {
    for (const { facts } of replicas)
      if (facts.fallback !== undefined)
        process.emitWarning(`device "auto" fell back to the CPU: ${facts.fallback}`);
    const model = createFeatureModel(await pruning, setup, first!.facts);
    return new FeatureExtractor<Key>(model, first!);
  } catch (error) {
    await Promise.all(replicas.map((replica) => replica.close()));
    throw error;
  }
}

/** The source model of a data-parallel one, on its devices unless others are given. */
async function unwrap<const Nodes extends ReturnNodes>(
  parallel: DataParallel,
  returnNodes: Nodes,
  given: Options<FeatureExtractorOptions>,
): Promise<Extractor<KeysOf<Nodes>>> {
  const { devices, options } = parallelInternalsOf(parallel);
  const { session, lane } = internalsOf(parallel.module).model;
  const inherited = { ...lane, session, ...given };
  const { source } = parallel.model;
  if (given.device !== undefined)
    return createFeatureExtractor(source, returnNodes, { ...inherited, devices: undefined });
  const list =
    given.devices ?? devices.map(({ type, id, uuid, threads }) => ({ type, id: uuid ?? id, threads }));
  const isSame = given.devices === undefined || given.devices.length === devices.length;
  const split = isSame || typeof options.split === 'string' ? options.split : PARALLEL_DEFAULTS.split;
  return createFeatureExtractor(source, returnNodes, {
    ...inherited,
    device: undefined,
    devices: list,
    parallel: { ...options, split, ...given.parallel },
  });
}
