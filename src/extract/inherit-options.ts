/** What a new extractor takes over from the one that it is made of. */
import { givenFields, type Options } from '../base/checks.js';
import type { TransformRequest } from '../photos/feeds/choose-transform.js';
import { readModel, type ModelSource, type OnnxModel } from '../run/model/open/open-model.js';
import type { OutputDtype, PerOutput } from '../run/model/prune/rewrite-options.js';
import { specOf, type DeviceSpec } from '../run/runtime/lanes/device.js';
import type { LaneOptions } from '../run/runtime/lanes/lane-options.js';
import { readSessionOptions, type SessionOptions } from '../run/runtime/lanes/session-options.js';
import { DataParallel } from './data-parallel.js';
import { extractorInternals, type Extractor } from './extractor.js';
import { PARALLEL_DEFAULTS, type ParallelOptions } from './replicas/parallel-options.js';

/** Options of an extractor. */
interface Inherited {
  readonly lane: LaneOptions;
  readonly transform: TransformRequest;
  readonly outputDtype: PerOutput<OutputDtype>;
  readonly session: SessionOptions;
  /** The device, or the devices of a data-parallel one. */
  readonly place: { readonly device?: DeviceSpec; readonly devices?: readonly DeviceSpec[] };
  /** How to split over a number of devices: weights only if there are as many. */
  parallelFor(devices: number): Partial<ParallelOptions>;
}

/** The options of an extractor; `undefined` for any other model. */
export function inheritFrom(model: unknown): Inherited | undefined {
  if (!extractorInternals.has(model)) return undefined;
  const { model: setup, replicas, options } = extractorInternals.of(model);
  const isParallel = model instanceof DataParallel;
  const devices = replicas.map(({ facts }) => specOf(facts.device));
  return {
    lane: setup.lane,
    transform: setup.transform,
    outputDtype: setup.outputDtype,
    session: setup.session,
    place: isParallel ? { devices } : { device: devices[0]! },
    parallelFor: (count) => {
      if (!isParallel) return {};
      const isSame = count === devices.length || typeof options.split === 'string';
      return { ...options, split: isSame ? options.split : PARALLEL_DEFAULTS.split };
    },
  };
}

/** Reads session options; fields that are left out are inherited. Throws `OPTION_INVALID`. */
export function readSession(given: Options<SessionOptions>, inherited?: SessionOptions): SessionOptions {
  const own = readSessionOptions(given);
  if (!inherited) return own;
  const names = Object.keys(givenFields(given, 'session')) as (keyof SessionOptions)[];
  return { ...inherited, ...Object.fromEntries(names.map((name) => [name, own[name]])) };
}

/** Where the sessions of a call run. */
interface PlaceGiven {
  readonly device?: unknown;
  readonly devices?: unknown;
  readonly session?: Options<SessionOptions> | undefined;
}

/** A call that takes a model or an extractor. */
interface ModelCall<Given> {
  /** The caller's options, behind those of the extractor for its devices, sessions and lanes. They are not checked yet. */
  readonly options: Given;
  /** Opens the model; that of an extractor is its source, in float32. */
  readonly open: () => OnnxModel;
}

/** Reads the model and the options of a call. Devices are inherited only if the caller gives none. Throws `OPTION_INVALID`. */
export function readModelCall<Given extends PlaceGiven>(
  model: OnnxModel | ModelSource | Extractor,
  given: Given,
  what: string,
): ModelCall<Given> {
  const { device, devices, session = {} } = givenFields(given, what);
  const inherited = inheritFrom(model);
  if (!inherited) return { options: given, open: () => readModel(model as OnnxModel | ModelSource) };
  const hasPlace = device !== undefined || devices !== undefined;
  return {
    options: {
      ...inherited.lane,
      ...(hasPlace ? {} : inherited.place),
      ...given,
      session: readSession(session, inherited.session),
    },
    open: () => (model as Extractor).model.source,
  };
}
