/** The options of an extractor: as given, inherited from the extractor that it is made of, or by default. */
import { givenFields, invalidOption, pickFields, withDefaults, type Options } from '../base/checks.js';
import { checkFields, defaultsOf, unchecked, type Fields } from '../base/options.js';
import { checkRequest, type TransformRequest } from '../photos/feeds/choose-transform.js';
import type { SessionSetup } from '../run/model/lanes/session-model.js';
import { REWRITE_FIELDS, type RewriteOptions } from '../run/model/prune/rewrite-options.js';
import { CAPABILITIES } from '../run/runtime/capabilities/capabilities.js';
import {
  readDevice,
  readDevices,
  type Device,
  type Devices,
  type ResolvedDevice,
} from '../run/runtime/lanes/device.js';
import { LANE_FIELDS, readLaneOptions, type LaneOptions } from '../run/runtime/lanes/lane-options.js';
import type { SessionOptions } from '../run/runtime/lanes/session-options.js';
import { inheritFrom, readSession } from './inherit-options.js';
import { OUTPUT_DTYPE, type OutputDtypeOption } from './replicas/output-dtype.js';
import { readParallelOptions, type ParallelOptions } from './replicas/parallel-options.js';

/** Options of {@link createFeatureExtractor}. */
export interface FeatureExtractorOptions
  extends Omit<RewriteOptions, keyof OutputDtypeOption>, OutputDtypeOption, LaneOptions {
  /**
   * Where to run: `'cpu'`, `'cuda'`, `'cuda:1'`, `'webgpu'`, `'auto'`, or `{ type, id, threads }`. The named device is used, or it
   * is an error. Only `'auto'` falls back to the CPU, with a warning.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * Several devices instead, each at most once: the result is a {@link DataParallel}. `'all'` is every CUDA GPU that is visible.
   * `'cpu:0'`, `'cpu:1'`, … are lanes that share the cores.
   * @default undefined
   */
  readonly devices: Devices | undefined;
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
  /**
   * The preprocessing of photos, for {@link Extractor.embed} and wherever a call leaves its `transform` at `'auto'`; see
   * {@link TransformChoice.transform}.
   * @default 'auto'
   */
  readonly transform: TransformRequest;
}

export const FEATURE_EXTRACTOR_FIELDS: Fields<FeatureExtractorOptions> = {
  ...REWRITE_FIELDS,
  outputDtype: OUTPUT_DTYPE,
  ...LANE_FIELDS,
  device: unchecked('cpu'),
  devices: unchecked(undefined),
  parallel: unchecked({}),
  session: unchecked({}),
  transform: unchecked<TransformRequest>('auto'),
};

/** Checked options. */
export interface CheckedOptions {
  readonly setup: SessionSetup;
  readonly rewriting: RewriteOptions;
  readonly transform: TransformRequest;
  /** One device, or several and how to split over them. */
  readonly place:
    | { readonly device: ResolvedDevice }
    | { readonly devices: readonly ResolvedDevice[]; readonly parallel: ParallelOptions };
}

/**
 * Reads options. What is left out comes from the extractor that the new one is made of, else it is the default; the element types of outputs
 * do if the new one has the same outputs. Throws `OPTION_INVALID`.
 */
export function readExtractorOptions(
  model: unknown,
  asked: Options<FeatureExtractorOptions>,
  hasSameOutputs: boolean,
): CheckedOptions {
  const inherited = inheritFrom(model);
  const hasPlace = asked.device !== undefined || asked.devices !== undefined;
  const place = hasPlace ? { devices: asked.devices } : inherited?.place;
  const { parallel = {} } = asked;
  const split = givenFields(parallel, 'parallel');
  if (asked.device !== undefined && asked.devices !== undefined)
    throw invalidOption('device', 'left out where option "devices" is given', asked.device);
  if (place?.devices === undefined && Object.keys(split).length > 0)
    throw invalidOption('parallel', 'left out without option "devices"', parallel);
  const defaults = {
    ...defaultsOf(FEATURE_EXTRACTOR_FIELDS),
    ...inherited?.lane,
    ...(inherited && { transform: inherited.transform }),
    ...(inherited && hasSameOutputs && { outputDtype: inherited.outputDtype }),
    ...place,
  };
  const options = checkFields(
    FEATURE_EXTRACTOR_FIELDS,
    withDefaults(defaults, asked, 'createFeatureExtractor'),
  );
  const { device, devices, session, transform } = options;
  // Refused here, and not by the first photo. What lies beside the model is read then.
  if (transform !== 'auto') checkRequest(transform);
  const lane = readLaneOptions(options);
  const { takesSessionOptions } = CAPABILITIES[lane.engine];
  if (!takesSessionOptions && Object.keys(givenFields(session, 'session')).length > 0)
    throw invalidOption(
      'session',
      `left out with engine "${lane.engine}": these are options of onnxruntime`,
      session,
    );
  const checked = {
    setup: { session: readSession(session, inherited?.session), lane },
    rewriting: pickFields(options, REWRITE_FIELDS),
    transform,
  };
  if (devices === undefined) return { ...checked, place: { device: readDevice('device', device) } };
  const list = readDevices('devices', devices);
  const how = readParallelOptions({ ...inherited?.parallelFor(list.length), ...split }, list.length);
  return { ...checked, place: { devices: list, parallel: how } };
}
