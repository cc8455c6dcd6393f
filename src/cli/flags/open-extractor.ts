/** The flags for model, device and transform that the embedding commands share. */
import type { PhotoFlags } from './photo-flags.js';
import { availableParallelism } from 'node:os';
import { invalidOption, type Options } from '../../base/checks.js';
import { canHoldImages } from '../../onnx/graph/rewrite/image-input.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import type { Extractor } from '../../extract/extractor.js';
import type { FeatureExtractorOptions } from '../../extract/extractor-options.js';
import { Pipeline } from '../../extract/stages/pipeline.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { pruneModel, pruneToRun } from '../../run/model/oracle/prune-model.js';
import { inPrecision } from '../../products/precision/lowering/lower-precision.js';
import { chooseModelTransform } from '../../photos/feeds/model-transform.js';
import { unusedTensors } from '../../photos/feeds/match-tensors.js';
import { valuesOf, type Transform } from '../../photos/images/transform/transform.js';
import { tensorsText } from '../../photos/images/transform/tensors-text.js';
import { TORCHVISION_PREFIX } from '../../photos/images/configs/torchvision.js';
import { isNormalizedBy } from '../../photos/images/transform/value-table.js';
import type { RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import type { DecodeMode } from '../../photos/images/decode/decode-options.js';
import {
  readDevice,
  readDevices,
  type Device,
  type DeviceSpec,
  specOf,
  type ResolvedDevice,
} from '../../run/runtime/lanes/device.js';
import { enginePrecision, isLowered, type BindingName } from '../../run/runtime/capabilities/capabilities.js';
import type { LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { Terminal } from '../terminal/terminal.js';
import type { FormFlags, SettledForm } from './form-flags.js';
import { readPartFlags, type PartFlags } from './part-flags.js';
import { withReturnNodes } from './return-flags.js';

/** The model, and where it runs. */
export interface ExtractorFlags extends PartFlags, PhotoFlags, FormFlags {
  readonly model: string;
  readonly yes: boolean;
  readonly return: readonly string[];
  readonly device?: string;
  readonly devices?: string;
  readonly pipeline: boolean;
  readonly sessions: number;
  readonly threads: number;
  readonly binding: BindingName;
  readonly isolation: 'thread' | 'process';
  readonly cudaLibraries?: string;
  readonly cache: LaneOptions['cache'];
  readonly decode?: DecodeMode;
  readonly normalize: Normalize;
}

/** Flags whose engine and precision are known. */
export type SettledFlags = ExtractorFlags & SettledForm;

/** Where pixels are normalised: in the graph, on the CPU beside the session, or wherever it is faster for the device. */
export const NORMALIZE = ['auto', 'graph', 'cpu'] as const;
export type Normalize = (typeof NORMALIZE)[number];

/** Default number of sessions per GPU on CUDA: one copies its batch while the other computes. On WebGPU they would take turns. */
const SESSIONS_ON_CUDA = 2;
/** Default limit of sessions that share a CPU; each of them holds its own activations. */
const MOST_SESSIONS_ON_CPU = 4;

function isOnGpu(devices: readonly DeviceSpec[]): boolean {
  return devices.every(({ type }) => type !== 'cpu' && type !== 'auto');
}

/** Reads the number of sessions per device. The default is one if there are few images. */
export function readSessionsFlag(
  { sessions }: ExtractorFlags,
  devices: readonly DeviceSpec[],
  hasFewImages = false,
): number {
  return sessions || (hasFewImages ? 1 : chooseSessions(devices));
}

function chooseSessions(devices: readonly DeviceSpec[]): number {
  const [device, ...others] = devices;
  if (devices.every(({ type }) => type === 'cuda')) return SESSIONS_ON_CUDA;
  // Sessions with fewer threads waste less time on synchronisation: on two cores, two sessions are a sixth faster than one.
  const isPlain = others.length === 0 && device?.type === 'cpu' && device.threads === 0;
  return isPlain ? Math.min(availableParallelism(), MOST_SESSIONS_ON_CPU) : 1;
}

/** Commands take outputs of any element type. */
const AS_THE_FILE = { outputDtype: 'keep' } as const;

export function openExtractor(
  model: OnnxModel,
  flags: SettledFlags,
  transform: Transform,
  hasFewImages = false,
): Promise<Extractor> {
  const devices = readDeviceFlags(flags);
  const sessions = readSessionsFlag(flags, devices, hasFewImages);
  const { engine, binding, precision, isolation, cudaLibraries, cache, isOwnForm } = flags;
  const rewriting = readRewriting(model, flags, transform);
  const lane: Options<LaneOptions> = {
    // The extractor takes them from the model's own file itself, and records it.
    ...(isOwnForm ? {} : { engine, precision: enginePrecision(precision) }),
    binding,
    isolation,
    cudaLibraries,
    cache,
  };
  const place: Options<Omit<FeatureExtractorOptions, Exclude<keyof RewriteOptions, 'outputDtype'>>> = {
    ...lane,
    ...AS_THE_FILE,
    ...(devices.length > 1 || sessions > 1
      ? { devices, parallel: { split: 'none', sessionsPerDevice: sessions } }
      : { device: devices[0]! }),
  };
  return withReturnNodes<Extractor>(flags.return, model, async (nodes) => {
    if (!isLowered(precision))
      return flags.pipeline
        ? Pipeline.create(model, nodes, { ...rewriting, ...lane, ...AS_THE_FILE, devices })
        : createFeatureExtractor(model, nodes, { ...rewriting, ...place });
    const lowered = await inPrecision(await pruneToRun(model, nodes, rewriting), precision, engine);
    return flags.pipeline
      ? Pipeline.create(lowered, undefined, { ...lane, ...AS_THE_FILE, devices })
      : createFeatureExtractor(lowered, undefined, place);
  });
}

/** How the flags rewrite the graph: the parts that they add, and what is fed. */
export function readRewriting(
  model: OnnxModel,
  flags: ExtractorFlags,
  transform: Transform,
): Options<RewriteOptions> {
  return {
    ...readPartFlags(flags),
    input: chooseInput(model, flags, transform, isOnGpu(readDeviceFlags(flags))),
  };
}

/** Says on standard error which tensors of photos a model leaves out. */
export function sayFeedNotes(terminal: Terminal, { inputs }: Extractor, { tensors }: Transform): void {
  for (const name of unusedTensors(inputs, tensors))
    terminal.err(`note: no input of the model takes the transform's tensor "${name}"\n`);
}

/** The inputs of a model as the flags cut it. */
export async function readCutInputs(flags: ExtractorFlags, model: OnnxModel): Promise<readonly TensorInfo[]> {
  if (model.inputs.length === 1) return model.inputs;
  const cut = await withReturnNodes(flags.return, model, (nodes) => pruneModel(model, nodes));
  return model.inputs.filter(({ name }) => cut.plan.kept.inputs.includes(name));
}

/** The transform that the flags mean for a model; standard error says where `auto` came from or what `DEFAULT` is. */
export function readTransformFlag(
  terminal: Terminal,
  flags: PhotoFlags & Pick<ExtractorFlags, 'decode'>,
  model: OnnxModel,
  inputs?: readonly TensorInfo[],
): Transform {
  const transform = chooseModelTransform(flags.transform, model, 'auto', inputs).with({
    decode: flags.decode,
  });
  if (flags.transform === 'auto' || flags.transform.endsWith('.DEFAULT'))
    terminal.err(describeTransform(transform));
  return transform;
}

/** A line that says which transform it is and where it came from; empty if it is assumed, of which a warning tells. */
function describeTransform(transform: Transform): string {
  const { source, options } = transform;
  if (!source) return '';
  const text = (size: unknown): string =>
    JSON.stringify(size)
      .replaceAll(/["{}]/g, '')
      .replace(/height:(\d+),width:(\d+)/, '$1×$2');
  const kind = source.backend === null ? source.kind : `${source.kind}, ${source.backend} arithmetic`;
  const others = (source.others ?? []).map(
    ({ file, differs }) => `warning: ${file} says otherwise, and is not followed: ${differs.join(', ')}\n`,
  );
  const name = source.file ?? `${TORCHVISION_PREFIX}${source.weights}`;
  const steps =
    tensorsText(transform) ??
    `resize ${text(options.resize)}, ${options.interpolation}, ${options.crop === null ? 'no crop' : `crop ${text(options.crop)}`}`;
  return `transform: ${name} (${kind}): ${steps}\n${others.join('')}`;
}

/** Reads `--devices` where batches are split over all of them: `cuda:0,cuda:1`. Throws `OPTION_INVALID`. */
export function readDeviceList(devices: string): Device[] {
  const names = devices.split(',').map((device) => device.trim());
  readDevices('--devices', names);
  return names as Device[];
}

/** The devices that the flags name. `threads` applies to each CPU device. */
export function readDeviceFlags({ device, devices, threads }: ExtractorFlags): DeviceSpec[] {
  const withThreads = (chosen: ResolvedDevice): DeviceSpec => ({ ...specOf(chosen), threads });
  if (devices === undefined) return [withThreads(readDevice('--device', device ?? 'cpu'))];
  if (device !== undefined) throw invalidOption('--device', 'left out where --devices is given', device);
  return devices.split(',').map((one) => withThreads(readDevice('--devices', one.trim())));
}

/**
 * Chooses what to feed. A GPU gets 8-bit pixels, a quarter of the bytes. On the CPU, looking values up in the graph takes as long as
 * one pass over the pixels (docs/decisions/052-bytes-as-feeds.md).
 */
function chooseInput(
  model: OnnxModel,
  { normalize }: ExtractorFlags,
  transform: Transform,
  isGpu: boolean,
): FeatureExtractorOptions['input'] {
  const [input, ...others] = model.inputs;
  const isFloat = others.length === 0 && (input?.dtype === 'float32' || input?.dtype === 'float16');
  const { mean, std, layout } = transform.options;
  const { channels, isFloat: resizesFloats } = transform;
  const hasPlace = layout === 'nhwc' ? input?.dims?.[3] === channels : canHoldImages(input?.dims, channels);
  const canGraph = isFloat && !resizesFloats && hasPlace;
  if (normalize === 'cpu' || (normalize === 'auto' && !(isGpu && canGraph))) return 'tensor';
  if (resizesFloats)
    throw invalidOption('--set normalize', '"cpu" or "auto" for a transform that resizes floats', normalize);
  const values = valuesOf(transform);
  if (mean && std && isNormalizedBy(values, mean, std)) return { type: 'image-uint8', mean, std };
  const all = (value: number): number[] => Array.from({ length: channels }, () => value);
  return { type: 'image-uint8', mean: mean ?? all(0), std: std ?? all(1), values };
}
