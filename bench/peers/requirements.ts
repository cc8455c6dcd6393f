/** What the peers need, and why one cannot run here. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Prepared } from './prepare.js';
import type { EngineReport } from './doctor.js';
import { needsPython, type PythonPackages } from './python.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export const TRANSFORMERS = 'node_modules/@huggingface/transformers/dist/transformers.node.mjs';

/** Where the peers' programs are, and how they run. */
export interface Setting {
  readonly python: string;
  /** Folder with a node_modules that has transformers.js in it. */
  readonly npm: string | undefined;
  /** Folder with OpenVINO's libraries; undefined for those of the Python package. */
  readonly openvinoLibs: string | undefined;
  readonly batch: number;
  readonly threads: number;
  readonly work: string;
}

/** What was found at hand. */
export interface Found {
  /** A string says why Python does not answer. */
  readonly packages: PythonPackages | string;
  /** What tapir says of OpenVINO; undefined if no peer asked for needs it. */
  readonly openvino: EngineReport | undefined;
  readonly setting: Setting;
  readonly prepared: Prepared;
}

export const needsNothing = (): undefined => undefined;
export const needsOnnxruntime = ({ packages }: Found): string | undefined =>
  needsPython(packages, ['numpy', 'PIL', 'onnxruntime']);

export function needsTorch({ packages, prepared }: Found): string | undefined {
  const missing = needsPython(packages, ['numpy', 'PIL', 'onnx', 'torch', 'torchvision']);
  if (missing !== undefined) return missing;
  const { checkpoint } = prepared;
  return checkpoint === undefined || existsSync(checkpoint) ? undefined : `there is no ${checkpoint}`;
}

export function needsTransformers({ setting: { npm }, prepared }: Found): string | undefined {
  if (prepared.hub === undefined) return 'only the ResNet-50 is prepared for transformers.js';
  if (npm === undefined) return 'no folder with @huggingface/transformers: --npm DIR or TAPIR_PEERS_NPM';
  return existsSync(join(npm, TRANSFORMERS)) ? undefined : `there is no ${TRANSFORMERS} in ${npm}`;
}

/** The CPU plugin computes bfloat16 anywhere, but on other CPUs this is slower than float32. */
export function needsBfloat16(): string | undefined {
  const flags = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
  return flags === '' || /\b(?:amx_bf16|avx512_bf16|bf16)\b/u.test(flags)
    ? undefined
    : 'this CPU has no instructions for bfloat16';
}

/** OpenVINO's libraries: those that were named, else those of the Python package, else those that `tapir engines install` brought. */
export function findLibraries({ openvino }: Found): string | undefined {
  return openvino?.folder ?? undefined;
}

export function needsLibraries(found: Found): string | undefined {
  if (!existsSync(join(ROOT, 'node_modules/koffi'))) return 'koffi is not installed: npm install';
  return findLibraries(found) === undefined
    ? 'no OpenVINO libraries: OPENVINO_LIBS, pip install openvino for --python, or tapir engines install openvino'
    : undefined;
}

/** What tapir itself says: whether the engine works here. */
export function needsEngine(found: Found): string | undefined {
  const missing = needsLibraries(found);
  if (missing !== undefined) return missing;
  const { isWorking, reason } = found.openvino!;
  return isWorking ? undefined : `tapir doctor: openvino does not work: ${reason}`;
}
