/** What a prepared model is tied to: the version of onnxruntime, and the CPU that its weights are laid out for. */
import { readFileSync } from 'node:fs';
import { arch, cpus, platform } from 'node:os';
import { packageRequire } from '../base/package.js';

/** Version of onnxruntime-node, without loading it. */
function runtimeVersion(): string {
  return (packageRequire('onnxruntime-node/package.json') as { version: string }).version;
}

/** The instruction sets of the CPU; its model alone does not tell them in a virtual machine. */
function cpuFeatures(): string {
  if (platform() !== 'linux') return '';
  try {
    return /^(?:flags|Features)\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? '';
  } catch {
    return '';
  }
}

/** Words that differ wherever a prepared model must be made anew. */
export function describeMachine(): readonly string[] {
  return [runtimeVersion(), platform(), arch(), cpus()[0]?.model ?? '', cpuFeatures()];
}
