/** Devices of plugins: a plugin's library is registered with ONNX Runtime, which then lists what it can run on. */
import { reasonOf } from '../../../base/errors.js';
import { deviceName, type ResolvedDevice } from '../lanes/device.js';
import { unavailable } from '../devices/device-failure.js';
import { findPlugin } from '../capabilities/plugins.js';
import { loadLibrary } from '../devices/shared-library.js';
import type { Address } from './native/koffi.js';
import type { OrtApi } from './native/onnxruntime-api.js';
import { texts } from './native/texts.js';

/** What an option of a session on a plugin's device is set by. */
export interface PluginTarget {
  readonly env: Address;
  readonly device: ResolvedDevice;
  /** Options of the provider, by its names. */
  readonly options: Readonly<Record<string, string>>;
}

/**
 * Lets a session run on a plugin's device.
 *
 * @throws {@link TapirError} `DEVICE_UNAVAILABLE` if the plugin is not installed, cannot be loaded, or offers no such device.
 */
export function appendPlugin(api: OrtApi, sessionOptions: Address, target: PluginTarget): void {
  const { env, device } = target;
  const name = device.plugin!;
  const found = findPlugin(name);
  if ('reason' in found) throw unavailable(device, found.reason);
  for (const path of found.first) loadLibrary(path);
  const offered = register(api, target, name, found.path);
  if (offered.length === 0)
    throw unavailable(
      device,
      `the plugin "${name}" offers no device: ONNX Runtime sees none that it can run on`,
    );
  const chosen = offered[device.id];
  if (chosen === undefined)
    throw unavailable(
      device,
      `the plugin "${name}" offers ${offered.map((_, i) => deviceName({ ...device, id: i, isNumbered: true })).join(', ')}`,
    );
  const entries = Object.entries(target.options);
  const keys = texts(
    api,
    entries.map(([key]) => key),
  );
  const values = texts(
    api,
    entries.map(([, value]) => value),
  );
  api.SessionOptionsAppendExecutionProvider_V2(
    sessionOptions,
    env,
    BigUint64Array.of(chosen),
    1,
    keys.addresses,
    values.addresses,
    entries.length,
  );
}

/** Registers a library, unless another session has, and lists its devices. */
function register(api: OrtApi, { env, device }: PluginTarget, name: string, path: string): readonly bigint[] {
  const known = devicesOf(api, env, path);
  if (known.length > 0) return known;
  try {
    api.RegisterExecutionProviderLibrary(env, name, path);
  } catch (error) {
    // A library without devices stays registered, and threads can be here at the same time.
    if (!/already registered/i.test(reasonOf(error)))
      throw unavailable(device, `ONNX Runtime cannot load the plugin: ${reasonOf(error)}`, { cause: error });
  }
  return devicesOf(api, env, path);
}

/** The devices that a library offers, in its order. */
function devicesOf(api: OrtApi, env: Address, path: string): bigint[] {
  const list = new BigUint64Array(1);
  const count = api.GetEpDevices(env, list);
  if (count === 0) return [];
  const all = new BigUint64Array(api.view(list[0]!, count * BigUint64Array.BYTES_PER_ELEMENT));
  return [...all].filter(
    (device) => api.GetKeyValue(api.EpDevice_EpMetadata(device), 'library_path') === path,
  );
}
