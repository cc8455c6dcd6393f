/**
 * Environment variables that native code reads from the environment of this process. A worker thread cannot set them: its
 * `process.env` is a copy. So the main thread sets them while a session opens, and removes them afterwards.
 */

import type { DeviceType } from '../capabilities/capabilities.js';
import type { ResolvedDevice } from './device.js';

/**
 * Variables of all lanes.
 *
 * - onnxruntime sends usage data, names of models included, unless this switches it off. It reads the variable once per process,
 *   when the first session opens.
 * - CUDA counts GPUs by speed unless this makes it count as nvidia-smi does. It reads the variable once per process, when the first
 *   session on a GPU opens.
 */
export const LANE_ENVIRONMENT = {
  ORT_DISABLE_TELEMETRY: '1',
  CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
} as const;

type Variable = keyof typeof LANE_ENVIRONMENT;

/** How many opening sessions need a variable that is set here. */
const borrowers = new Map<Variable, number>();
/** Variables that native code has read. */
const read = new Set<Variable>();

/**
 * Sets variables for a session that opens in a thread of this process. A variable that the user has set stays as it is.
 *
 * @param device - Where the session is to run.
 * @returns Removes the variables again, once no other session needs them. Call it with the device in use when the session is open,
 * and without one when it has failed.
 */
export function borrowEnvironment({ type }: ResolvedDevice): (opened?: ResolvedDevice) => void {
  const needed = namesFor(type).filter(
    (name) => !read.has(name) && (borrowers.has(name) || process.env[name] === undefined),
  );
  for (const name of needed) {
    borrowers.set(name, (borrowers.get(name) ?? 0) + 1);
    process.env[name] = LANE_ENVIRONMENT[name];
  }
  return (opened) => {
    for (const name of opened ? namesFor(opened.type) : []) read.add(name);
    for (const name of needed.splice(0)) giveBack(name);
  };
}

function namesFor(type: DeviceType): Variable[] {
  return type === 'cuda' || type === 'auto'
    ? ['ORT_DISABLE_TELEMETRY', 'CUDA_DEVICE_ORDER']
    : ['ORT_DISABLE_TELEMETRY'];
}

function giveBack(name: Variable): void {
  const others = borrowers.get(name)! - 1;
  if (others > 0) {
    borrowers.set(name, others);
    return;
  }
  borrowers.delete(name);
  // The program may have set another value meanwhile.
  if (process.env[name] === LANE_ENVIRONMENT[name]) delete process.env[name];
}
