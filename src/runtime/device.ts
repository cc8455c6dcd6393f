/** Devices: what a user writes, and the execution provider it means. */
import { checkInteger, invalidOption, show } from '../checks.js';
import { TapirError } from '../errors.js';

/** Kinds of device that a session can run on. `auto` is CUDA if it works, else the CPU, with a warning. */
export type DeviceType = 'cpu' | 'cuda' | 'webgpu' | 'auto';

/** A device in full. */
export interface DeviceSpec {
  readonly type: DeviceType;
  /** Which one of its kind, from 0; for CUDA the index among the visible GPUs. @default 0 */
  readonly id?: number | undefined;
  /** CPU threads of one run; 0 means all cores. @default 0 */
  readonly threads?: number | undefined;
}

/** `'cpu'`, `'cuda'`, `'cuda:1'`, … or a {@link DeviceSpec}. */
export type Device = DeviceType | `${DeviceType}:${number}` | DeviceSpec;

/** A checked device. */
export interface ResolvedDevice {
  readonly type: DeviceType;
  readonly id: number;
  readonly threads: number;
}

const TYPES: readonly DeviceType[] = ['cpu', 'cuda', 'webgpu', 'auto'];
const EXPECTED = '"cpu", "cuda", "cuda:1", "webgpu", "auto" or { type, id, threads }';

/** Reads a device. Throws `OPTION_INVALID`. */
export function readDevice(option: string, given: unknown): ResolvedDevice {
  if (typeof given === 'string') {
    const match = /^([a-z]+)(?::(\d{1,3}))?$/.exec(given);
    const type = TYPES.find((word) => word === match?.[1]);
    if (!type) throw invalidOption(option, EXPECTED, given);
    return checkSingle(option, { type, id: Number(match?.[2] ?? 0), threads: 0 }, given);
  }
  if (given === null || typeof given !== 'object' || !('type' in given))
    throw invalidOption(option, EXPECTED, given);
  const unknown = Object.keys(given).find((key) => !['type', 'id', 'threads'].includes(key));
  if (unknown !== undefined) {
    throw new TapirError(
      'OPTION_INVALID',
      `option "${option}" has no field "${unknown}"; onnxruntime-node honours only type, id and threads`,
      { details: { option, expected: EXPECTED, actual: show(given) } },
    );
  }
  const { type, id, threads } = given as { type: unknown; id?: unknown; threads?: unknown };
  const known = TYPES.find((word) => word === type);
  if (!known) throw invalidOption(`${option}.type`, TYPES.map((word) => `"${word}"`).join(', '), type);
  return checkSingle(
    option,
    {
      type: known,
      id: checkInteger(`${option}.id`, id ?? 0, 0, 255),
      threads: checkInteger(`${option}.threads`, threads ?? 0, 0, 1024),
    },
    given,
  );
}

function checkSingle(option: string, device: ResolvedDevice, given: unknown): ResolvedDevice {
  if (device.type === 'cuda' || device.id === 0) return device;
  throw invalidOption(option, `a device that exists: there is only one "${device.type}"`, given);
}

/** A device as messages name it: `cpu`, `cuda:1`. */
export function deviceName(device: ResolvedDevice): string {
  return device.type === 'cuda' ? `cuda:${device.id}` : device.type;
}
