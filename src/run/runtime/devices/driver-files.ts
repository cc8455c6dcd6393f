/** Reads what the NVIDIA driver shows in the file system: GPUs that nvidia-smi does not list, and access rights. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { namesIn } from '../../../base/folder-names.js';
import { reasonOf } from '../../../base/errors.js';
import { compareBusIds, type Gpu } from './gpu.js';

/** A device file of the driver. */
export interface DeviceFile {
  readonly path: string;
  /** Why this process cannot use it; null if it can. */
  readonly problem: string | null;
}

/**
 * Lists GPUs from /proc/driver/nvidia and /dev/nvidia0, … In a container, only GPUs that it may use have a file in /dev.
 *
 * @param root - Root of the file system; tests pass another folder.
 */
export function readDriverFiles(root = '/'): Gpu[] {
  const present = new Set(namesIn(join(root, 'dev')).filter((name) => /^nvidia\d+$/.test(name)));
  const folder = join(root, 'proc/driver/nvidia/gpus');
  const described = namesIn(folder).flatMap((name) => {
    const text = textOf(join(folder, name, 'information'));
    const minor = fieldOf(text, 'Device Minor');
    return minor !== null && present.delete(`nvidia${minor}`) ? [describe(text, name)] : [];
  });
  described.sort((a, b) => compareBusIds(a.pciBusId ?? '', b.pciBusId ?? ''));
  return [...described, ...Array.from(present, () => describe('', null))];
}

function describe(text: string, busId: string | null): Gpu {
  const uuid = fieldOf(text, 'GPU UUID');
  return {
    name: fieldOf(text, 'Model') ?? 'NVIDIA GPU',
    // It contains question marks until the GPU is used for the first time.
    uuid: uuid !== null && /^GPU-[\da-f-]+$/i.test(uuid) ? uuid : null,
    pciBusId: fieldOf(text, 'Bus Location') ?? busId,
    memoryBytes: null,
    freeBytes: null,
    driverVersion: null,
    computeCapability: null,
    isDivided: false,
    migSlices: [],
  };
}

/** Whether an NVIDIA driver is loaded and its devices are visible. On systems other than Linux, this assumes so. */
export function hasDriver(root = '/'): boolean {
  if (process.platform !== 'linux') return true;
  // dxg is the GPU in the Windows Subsystem for Linux.
  return namesIn(join(root, 'dev')).some((name) => /^nvidia\d+$/.test(name) || name === 'dxg');
}

/** The driver's device files, and whether this process can use them. */
export function listDeviceFiles(root = '/'): DeviceFile[] {
  return namesIn(join(root, 'dev'))
    .filter((name) => /^nvidia(\d+|ctl|-uvm)$/.test(name))
    .toSorted()
    .map((name) => {
      const path = join(root, 'dev', name);
      return { path, problem: problemOf(path) };
    });
}

function problemOf(path: string): string | null {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return null;
  } catch (error) {
    return reasonOf(error);
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function fieldOf(text: string, name: string): string | null {
  return new RegExp(`^${name}:\\s*(\\S.*?)\\s*$`, 'm').exec(text)?.[1] ?? null;
}
