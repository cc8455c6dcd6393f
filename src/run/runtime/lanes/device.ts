/** Devices as users write them, and as sessions need them. */
import { availableParallelism } from 'node:os';
import { checkInteger, invalidOption, show } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { checkedBy, type Field } from '../../../base/options.js';
import type { DeviceType } from '../capabilities/capabilities.js';
import { isPlugin, PLUGIN_NAMES } from '../capabilities/plugins.js';
import { CUDA_TAKES } from './session-options.js';

/** A device in full. */
export interface DeviceSpec {
  readonly type: DeviceType;
  /**
   * Number of the device, from 0. For CUDA it is the index among the visible GPUs, in the order of nvidia-smi, or the UUID of a GPU
   * or MIG slice (`'GPU-…'`, `'MIG-…'`), whose session runs in a child process. For the CPU it numbers sessions. For a plugin it is its name
   * (`'webgpu'`), or its name and the number of its device (`'webgpu:1'`).
   * @default 0
   */
  readonly id?: number | string | undefined;
  /**
   * CPU threads of one run. 0 uses all cores, divided evenly among the CPU sessions, and among the processes that torchrun or
   * `onnx_tapir.ray.train` has started on this machine.
   * @default 0
   */
  readonly threads?: number | undefined;
}

/** `'cpu'`, `'cuda'`, `'cuda:1'`, `'cuda:GPU-…'`, `'cpu:1'`, `'webgpu'`, `'coreml'`, `'dml'`, … or a {@link DeviceSpec}. */
export type Device =
  | Exclude<DeviceType, 'plugin'>
  | `${DeviceType}:${number}`
  | `plugin:${string}`
  | `cuda:GPU-${string}`
  | `cuda:MIG-${string}`
  | DeviceSpec;

/** Several devices: each at most once, or `'all'` for every CUDA GPU that is visible. */
export type Devices = readonly Device[] | 'all';

/** A checked device. */
export interface ResolvedDevice {
  readonly type: DeviceType;
  readonly id: number;
  /** UUID of a GPU or MIG slice. The process of its session sees no other GPU. */
  readonly uuid?: string;
  /** Name of the plugin that has the device, or the path of its library. */
  readonly plugin?: string;
  /** Whether the user gave the number, so that messages repeat it. */
  readonly isNumbered?: boolean;
  readonly threads: number;
}

const TYPES: readonly DeviceType[] = ['cpu', 'cuda', 'webgpu', 'coreml', 'dml', 'plugin', 'auto'];
const EXPECTED =
  '"cpu", "cuda", "cuda:1", "webgpu", "coreml" (macOS), "dml" (Windows), "plugin:webgpu", "auto" or { type, id, threads }';
/** Names of other libraries for devices, and of onnxruntime for providers. */
const NO_DEVICES: Readonly<Record<string, string>> = {
  gpu: 'write "cuda" or "webgpu"',
  wasm: 'onnxruntime-node does not have it; write "cpu"',
  tensorrt: 'it is not supported; write "cuda"',
  openvino: 'it is an engine; write "cpu", with option "engine" as "openvino"',
  directml: 'write "dml"',
  mps: 'on a Mac, write "coreml" or "webgpu"',
  metal: 'on a Mac, write "webgpu", which runs on Metal, or "coreml"',
  rocm: 'AMD cards run as "webgpu", on Windows as "dml" as well',
  migraphx: 'AMD cards run as "webgpu", on Windows as "dml" as well',
  qnn: 'it is not in onnxruntime-node; write "cpu", "webgpu", or on Windows "dml"',
};
/** Fields of onnxruntime's providers, and what replaces them here. */
const FIELDS_ELSEWHERE: Readonly<Record<string, string>> = {
  name: 'use type for the kind of device',
  deviceId: 'use id for the number of the device',
  device_id: 'use id for the number of the device',
};
/** Kinds of which there can be several. */
const COUNTED: ReadonlySet<DeviceType> = new Set(['cpu', 'cuda', 'dml', 'plugin']);
const UUID = /^(?:GPU|MIG)-[\w/-]+$/;

/** One device. Only `'auto'` falls back to the CPU. */
export const DEVICE: Field<Device> = checkedBy(
  (option, value) => {
    readDevice(option, value);
    return value as Device;
  },
  'cpu',
  'cpu, cuda, cuda:1, webgpu, coreml (macOS), dml (Windows), plugin:webgpu or auto',
);

/** Reads a device. Throws `OPTION_INVALID`. */
export function readDevice(option: string, given: unknown): ResolvedDevice {
  if (typeof given === 'string') {
    const [, uuid] = /^cuda:(.+)$/.exec(given) ?? [];
    if (uuid !== undefined && UUID.test(uuid))
      return { type: 'cuda', id: 0, uuid, isNumbered: false, threads: 0 };
    const [, ofPlugin] = /^plugin:(.+)$/s.exec(given) ?? [];
    if (ofPlugin !== undefined) return { type: 'plugin', ...readPlugin(option, ofPlugin), threads: 0 };
    const match = /^([a-z]+)(?::(\d{1,3}))?$/.exec(given);
    const type = TYPES.find((word) => word === match?.[1]);
    if (!type || type === 'plugin') throw notADevice(option, given);
    const number = match?.[2];
    const isNumbered = number !== undefined;
    return checkSingle(option, { type, id: Number(number ?? 0), isNumbered, threads: 0 }, given);
  }
  if (given === null || typeof given !== 'object' || Array.isArray(given))
    throw invalidOption(option, EXPECTED, given);
  const unknown = Object.keys(given).find((key) => !['type', 'id', 'threads'].includes(key));
  if (unknown !== undefined) {
    const why = FIELDS_ELSEWHERE[unknown] ?? CUDA_TAKES;
    throw new TapirError(
      'OPTION_INVALID',
      `option "${option}" has no field "${unknown}", only type, id and threads: ${why}`,
      { details: { option, expected: EXPECTED, actual: show(given) } },
    );
  }
  const { type, id, threads } = given as { type: unknown; id?: unknown; threads?: unknown };
  const known = TYPES.find((word) => word === type);
  if (!known) throw notADevice(`${option}.type`, type);
  const which =
    known === 'plugin'
      ? readPlugin(`${option}.id`, id)
      : typeof id === 'string' && known === 'cuda'
        ? { id: 0, uuid: checkUuid(`${option}.id`, id) }
        : { id: checkInteger(`${option}.id`, id ?? 0, 0, 255), isNumbered: id !== undefined };
  return checkSingle(
    option,
    { type: known, ...which, threads: checkInteger(`${option}.threads`, threads ?? 0, 0, 1024) },
    given,
  );
}

/** onnxruntime-node ignores a provider that it does not know and runs on the CPU, so names must match exactly here. */
function notADevice(option: string, given: unknown): TapirError<'OPTION_INVALID'> {
  const name = String(given).toLowerCase();
  const meant = TYPES.find(
    (word) => name === word || name === `${word}executionprovider` || name === `${word}:0`,
  );
  const elsewhere = NO_DEVICES[name.replace(/executionprovider$/, '')];
  const hint =
    meant !== undefined ? `; did you mean "${meant}"?` : elsewhere === undefined ? '' : `: ${elsewhere}`;
  const expected = `${option.endsWith('.type') ? TYPES.map((word) => `"${word}"`).join(', ') : EXPECTED}`;
  return new TapirError(
    'OPTION_INVALID',
    `option "${option}" must be ${expected}, got ${show(given)}${hint}`,
    { details: { option, expected, actual: show(given) } },
  );
}

/** What tells a device from others, whatever its threads. */
export function keyOf({ type, id, uuid, plugin }: ResolvedDevice): string {
  return [type, ...(plugin === undefined ? [] : [plugin]), uuid ?? id].join(':');
}

/** A device as it can be asked for again. */
export function specOf({ type, id, uuid, plugin, isNumbered = false, threads }: ResolvedDevice): DeviceSpec {
  const number = isNumbered ? id : undefined;
  if (plugin === undefined) return { type, id: uuid ?? number, threads };
  return { type, id: number === undefined ? plugin : `${plugin}:${number}`, threads };
}

/** Reads `webgpu`, `webgpu:1`, or the path of a library. */
function readPlugin(option: string, given: unknown): Pick<ResolvedDevice, 'plugin' | 'id' | 'isNumbered'> {
  const [, plugin, number] = /^(.+?)(?::(\d{1,3}))?$/s.exec(typeof given === 'string' ? given : '') ?? [];
  if (plugin !== undefined && isPlugin(plugin))
    return { plugin, id: Number(number ?? 0), isNumbered: number !== undefined };
  const names = PLUGIN_NAMES.map((name) => `"plugin:${name}"`).join(', ');
  throw invalidOption(option, `${names}, or "plugin:" and the full path of a library`, given);
}

function checkUuid(option: string, id: string): string {
  if (UUID.test(id)) return id;
  throw invalidOption(
    option,
    'an index, or a UUID such as "GPU-…" or "MIG-…" (nvidia-smi -L lists them)',
    id,
  );
}

function checkSingle(option: string, device: ResolvedDevice, given: unknown): ResolvedDevice {
  if (COUNTED.has(device.type) || device.id === 0) return device;
  throw invalidOption(option, `a device that exists: there is only one "${device.type}"`, given);
}

/**
 * Reads the devices of a data-parallel model.
 *
 * @throws {@link TapirError} `OPTION_INVALID` if the list is empty or names a device twice.
 */
export function readDevices(option: string, given: unknown): ResolvedDevice[] {
  if (!Array.isArray(given) || given.length === 0) {
    throw invalidOption(option, 'a list of devices, such as ["cuda:0", "cuda:1"], or "all"', given);
  }
  const devices = given.map((device: unknown, i) => readDevice(`${option}[${i}]`, device));
  const keys = devices.map(keyOf);
  const twice = keys.find((key, i) => keys.indexOf(key) !== i);
  if (twice !== undefined) {
    const { type } = devices[keys.indexOf(twice)]!;
    const kind = twice.replace(/:[^:]*$/, '');
    const several = COUNTED.has(type) ? `; write "${kind}:0", "${kind}:1" for several` : '';
    throw invalidOption(option, `a list without repetition: "${twice}" is named twice${several}`, keys);
  }
  return devices;
}

/** Divides the cores evenly among the CPU sessions, of all processes of a launcher here, whose number of threads is open. */
export function shareThreads(
  devices: readonly ResolvedDevice[],
  sessions: number,
  // torchrun's name for it
  processes: number = Number(process.env['LOCAL_WORLD_SIZE'] ?? 1),
): ResolvedDevice[] {
  const lanes = processes * sessions * devices.filter(({ type }) => type === 'cpu').length;
  const share = Math.max(1, Math.floor(availableParallelism() / lanes));
  return devices.map((device) =>
    device.type === 'cpu' && device.threads === 0 && lanes > 1 ? { ...device, threads: share } : device,
  );
}

/** A device as messages name it: `cpu`, `cpu:0`, `cuda:1`. */
export function deviceName({ type, id, uuid, plugin, isNumbered = false }: ResolvedDevice): string {
  if (plugin !== undefined) return `${type}:${plugin}${isNumbered ? `:${id}` : ''}`;
  if (uuid !== undefined) return `${type}:${uuid}`;
  return type === 'cuda' || (COUNTED.has(type) && isNumbered) ? `${type}:${id}` : type;
}
