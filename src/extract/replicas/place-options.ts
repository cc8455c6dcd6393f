/** Where graphs run: the options of what splits batches over devices, checked. */
import { invalidOption, type Options } from '../../base/checks.js';
import { signal, unchecked, type Fields } from '../../base/options.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { namedDevices } from '../../run/runtime/devices/device-list.js';
import { readDevices, type Devices } from '../../run/runtime/lanes/device.js';
import { LANE_FIELDS, readLaneOptions, type LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import { readSessionOptions, type SessionOptions } from '../../run/runtime/lanes/session-options.js';
import { readSplit, type BatchSplit } from './split.js';
import type { Place } from './rewrite-sessions.js';

/** Where a model runs, and what stops it. */
export interface PlaceOptions {
  /**
   * The devices, each at most once; `'all'` is every CUDA GPU that is visible. `'cpu:0'`, `'cpu:1'`, … are lanes that share the cores. In mode `momentum`, each batch goes whole to
   * one of them.
   * @default ['cpu']
   */
  readonly devices: Devices;
  /**
   * How the rows of a batch are split over `devices`: `'chunk'` as torch.chunk, `'balanced'` as torch.tensor_split, or a weight per
   * device.
   * @default 'chunk'
   */
  readonly split: BatchSplit;
  /**
   * Session options of onnxruntime.
   * @default {}
   */
  readonly session: Options<SessionOptions>;
  /**
   * Where each session runs: in a worker thread, or in a child process.
   * @default 'thread'
   */
  readonly isolation: LaneOptions['isolation'];
  /**
   * Folder with the CUDA and cuDNN libraries.
   * @default undefined
   */
  readonly cudaLibraries: string | undefined;
  /**
   * Stops the work when it fires. The call then rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const PLACE_FIELDS: Fields<PlaceOptions> = {
  devices: unchecked(['cpu']),
  split: unchecked('chunk'),
  session: unchecked({}),
  isolation: LANE_FIELDS.isolation,
  cudaLibraries: LANE_FIELDS.cudaLibraries,
  signal,
};

/** Reads where graphs run. Throws `OPTION_INVALID`, and `DEVICE_UNAVAILABLE` for `devices: 'all'` without a GPU. */
export async function readPlace(
  model: OnnxModel,
  { devices: given, split, session, isolation, cudaLibraries, signal: stop }: PlaceOptions,
): Promise<Place> {
  const devices = readDevices('devices', await namedDevices(given));
  const checked = readSplit(split, devices.length);
  if (checked === 'dynamic' || checked === 'none')
    throw invalidOption('split', '"chunk", "balanced" or a list of weights: results depend on it', split);
  let isTold = false;
  return {
    model,
    devices,
    split: checked,
    session: readSessionOptions(session),
    lane: readLaneOptions({ isolation, cudaLibraries, cache: 'off' }),
    signal: stop,
    onFallback: (reason) => {
      if (!isTold) process.emitWarning(`device "auto" fell back to the CPU: ${reason}`);
      isTold = true;
    },
  };
}
