/** What `tapir engines install` can install: the pinned packages, and the folders that hold their libraries. */
import { join } from 'node:path';
import { defaultCacheFolder } from './cache-folder.js';

/** A provider of ONNX Runtime that is loaded at run time: device `plugin:webgpu` and so on. */
export type InstallablePlugin = 'webgpu-plugin' | 'openvino-plugin' | 'tensorrt-rtx-plugin';

/** Libraries that come in packages of the Python package index: an engine, what onnxruntime needs for NVIDIA GPUs (`cuda`), or a plugin. */
export type InstallableEngine = 'openvino' | 'cuda' | InstallablePlugin;

/** A package that holds libraries. */
export interface EnginePackage {
  /** Its name on the package index. */
  readonly project: string;
  /** The only version that this release uses. */
  readonly version: string;
  /** The licence of the libraries: its SPDX identifier and its text. */
  readonly licence: { readonly spdx: string; readonly url: string };
}

/** What is installed together. */
export interface EngineBundle {
  /** Part of the folder's name. */
  readonly version: string;
  readonly packages: readonly EnginePackage[];
  /** The npm package that calls the libraries, which the user installs; null if this package can call them. */
  readonly caller: string | null;
  /** What is unpacked, for a message. */
  readonly content: string;
  /** How to use it, for a message. */
  readonly use: string;
  /** The systems that it is for, as `linux x64`, and the version of glibc that its libraries need; null for other C libraries. */
  readonly systems: Readonly<Record<string, string | null>>;
}

const OPENVINO = {
  spdx: 'Apache-2.0',
  url: 'https://github.com/openvinotoolkit/openvino/blob/master/LICENSE',
};
const ONNXRUNTIME = { spdx: 'MIT', url: 'https://github.com/microsoft/onnxruntime/blob/main/LICENSE' };
const CUDA = { spdx: 'LicenseRef-NVIDIA-Proprietary', url: 'https://docs.nvidia.com/cuda/eula/' };
const CUDNN = {
  spdx: 'LicenseRef-NVIDIA-Proprietary',
  url: 'https://docs.nvidia.com/deeplearning/cudnn/backend/latest/reference/eula.html',
};

const TENSORRT_RTX = {
  spdx: 'LicenseRef-NVIDIA-Proprietary',
  url: 'https://docs.nvidia.com/deeplearning/tensorrt-rtx/latest/reference/sla.html',
};

export const ENGINE_PACKAGES: Readonly<Record<InstallableEngine, EngineBundle>> = {
  openvino: {
    // An engine's C API may change between versions.
    version: '2026.4.1',
    packages: [{ project: 'openvino', version: '2026.4.1', licence: OPENVINO }],
    caller: 'koffi',
    content: 'only the libraries for the CPU, and their licences',
    use: "--engine openvino (engine: 'openvino'), and --precision bfloat16 where the CPU has it",
    systems: { 'linux x64': '2.28', 'linux arm64': '2.35', 'darwin arm64': null, 'win32 x64': null },
  },
  cuda: {
    // The provider calls onnxruntime through a table of functions, so it must have the version of onnxruntime-node.
    version: '1.30.0',
    packages: [
      { project: 'onnxruntime-gpu', version: '1.30.0', licence: ONNXRUNTIME },
      // CUDA 13.0, for which this provider was built: later ones would need a later driver for what they compile at run time.
      { project: 'nvidia-cuda-runtime', version: '13.0.96', licence: CUDA },
      { project: 'nvidia-cublas', version: '13.1.0.3', licence: CUDA },
      { project: 'nvidia-curand', version: '10.4.0.35', licence: CUDA },
      { project: 'nvidia-cufft', version: '12.0.0.61', licence: CUDA },
      { project: 'nvidia-nvjitlink', version: '13.0.88', licence: CUDA },
      { project: 'nvidia-cuda-nvrtc', version: '13.0.88', licence: CUDA },
      { project: 'nvidia-cudnn-cu13', version: '9.19.0.56', licence: CUDNN },
    ],
    caller: null,
    content: 'only the shared libraries, about 2 GB, and their licences',
    use: "--device cuda (device: 'cuda'); tapir doctor says whether this machine has a GPU and a driver for it",
    systems: { 'linux x64': '2.28' },
  },
  'webgpu-plugin': {
    version: '0.4.0',
    packages: [{ project: 'onnxruntime-ep-webgpu', version: '0.4.0', licence: ONNXRUNTIME }],
    caller: 'koffi',
    content: 'the provider and its licences',
    use: "--device plugin:webgpu (device: 'plugin:webgpu')",
    systems: { 'linux x64': '2.28', 'linux arm64': '2.28', 'darwin arm64': null, 'win32 x64': null },
  },
  'openvino-plugin': {
    version: '1.8.1',
    packages: [{ project: 'onnxruntime-ep-openvino', version: '1.8.1', licence: ONNXRUNTIME }],
    caller: 'koffi',
    content: 'the provider, OpenVINO for CPUs, GPUs and NPUs of Intel, and their licences',
    use: "--device plugin:openvino (device: 'plugin:openvino') on hardware of Intel",
    systems: { 'linux x64': '2.28', 'win32 x64': null },
  },
  'tensorrt-rtx-plugin': {
    version: '0.5.0',
    packages: [{ project: 'onnxruntime-ep-nv-tensorrt-rtx-cu13', version: '0.5.0', licence: TENSORRT_RTX }],
    caller: 'koffi',
    content: 'the provider, TensorRT for RTX, and the CUDA runtime, about 300 MB',
    use: "--device plugin:tensorrt-rtx (device: 'plugin:tensorrt-rtx') on an RTX GPU; never run by us",
    systems: { 'linux x64': '2.28', 'win32 x64': null },
  },
};

/** How the names of a package's wheels begin: `nvidia_cublas-13.1.0.3-`. */
export function startOfWheel({ project, version }: EnginePackage): string {
  return `${project.replaceAll('-', '_')}-${version}-`;
}

/** Folder of the shared libraries, inside an engine's folder. */
export const ENGINE_LIBRARIES = 'libs';

/** The record of an installed engine, inside its folder. */
export const ENGINE_RECORD = 'engine.json';

/** Returns the folder that holds all installed engines. */
export function enginesFolder(): string {
  return join(defaultCacheFolder(), 'engines');
}

/** Returns the folder of an installed engine. It appears complete, with its libraries in `libs` and its record `engine.json`, or not at all. */
export function engineFolder(name: InstallableEngine): string {
  return join(enginesFolder(), `${name}-${ENGINE_PACKAGES[name].version}`);
}
