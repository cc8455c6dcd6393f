/** Devices that belong to one operating system, and which onnxruntime-node brings for it. */
import type { DeviceType } from '../capabilities/capabilities.js';

/** The kinds of device that only one operating system has. */
export type PlatformKind = 'coreml' | 'dml';

/** A device of one operating system. */
export interface PlatformDevice {
  /** The name that its vendor gave it. */
  readonly title: string;
  readonly platform: NodeJS.Platform;
  /** The operating system in messages. */
  readonly system: string;
}

const PLATFORM_DEVICES: Readonly<Record<PlatformKind, PlatformDevice>> = {
  coreml: { title: 'CoreML', platform: 'darwin', system: 'macOS' },
  dml: { title: 'DirectML', platform: 'win32', system: 'Windows' },
};

const KINDS: readonly PlatformKind[] = ['coreml', 'dml'];

/** The kinds of device that only a platform has. */
export function devicesOfPlatform(platform: NodeJS.Platform = process.platform): PlatformKind[] {
  return KINDS.filter((type) => PLATFORM_DEVICES[type].platform === platform);
}

/** The name that its vendor gave a device of one platform. */
export function titleOf(type: PlatformKind): string {
  return PLATFORM_DEVICES[type].title;
}

/** Why a kind of device is not here; undefined if it may be. */
export function whyNotOnPlatform(
  type: DeviceType,
  { platform, arch }: Pick<NodeJS.Process, 'platform' | 'arch'> = process,
): string | undefined {
  const kind = KINDS.find((one) => one === type);
  if (!kind || PLATFORM_DEVICES[kind].platform === platform) return undefined;
  const device = PLATFORM_DEVICES[kind];
  return `${device.title} is part of ${device.system}, and this is ${platform} (${arch})`;
}
