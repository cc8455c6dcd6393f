/** Which files of a wheel are needed. */
import { ENGINE_LIBRARIES } from '../../../base/engine-packages.js';

/** The contents of a wheel, as an engine sees them. */
export interface WheelContents {
  /** Returns where a file of the wheel goes inside the engine's folder; undefined if it is not needed. */
  readonly place: (name: string) => string | undefined;
  /** Libraries without which the engine cannot work. */
  readonly required: readonly RegExp[];
}

const IS_LIBRARY = /\.(?:dll|dylib|so(?:\.\d+)*)$/;
/** The licences require that their texts accompany the libraries. */
const LICENCE =
  /^(?:[^/]+\.dist-info\/(?:licenses\/)?|onnxruntime\/)((?:licensing\/)?(?:LICEN[CS]E|NOTICE|COPYING|[^/]*third-?party)[^/]*)$/i;

/** OpenVINO's devices besides the CPU, and its readers of formats besides ONNX and its own IR: almost half of the bytes. */
const UNNEEDED_OF_OPENVINO =
  /intel_[gn]pu_|_(?:auto|auto_batch|hetero)_plugin|_(?:gguf|jax|paddle|pytorch|tensorflow|tensorflow_lite)_frontend/;
/** Names of the provider's library that say its version, for linkers. */
const UNNEEDED_OF_PLUGINS = /_plugin\.so\.[\d.]+$/;
/** Wrappers with the interfaces of BLAS and FFTW, and a second run-time compiler: onnxruntime calls none of them. */
const UNNEEDED_OF_CUDA = /^lib(?:nvblas|cufftw)\.|\.alt\.so/;

/**
 * The contents of a package's wheel.
 *
 * @param libraries - Matches the path of a library in the wheel; its group is the name of the file.
 * @param licences - Folder of the licences inside `licenses`.
 */
function contents(
  libraries: RegExp,
  unneeded: RegExp | undefined,
  required: readonly RegExp[],
  licences: string,
): WheelContents {
  return {
    required,
    place: (name) => {
      const licence = LICENCE.exec(name)?.[1];
      if (licence !== undefined) return `licenses/${licences}${licence}`;
      const library = libraries.exec(name)?.[1];
      if (library === undefined || !IS_LIBRARY.test(library) || unneeded?.test(library)) return undefined;
      return `${ENGINE_LIBRARIES}/${library}`;
    },
  };
}

function nvidia(project: string, ...required: readonly RegExp[]): readonly [string, WheelContents] {
  return [
    project,
    contents(/^nvidia\/(?:cu13|cudnn)\/lib\/([^/]+)$/, UNNEEDED_OF_CUDA, required, `${project}/`),
  ];
}

function plugin(project: string, ...required: readonly RegExp[]): readonly [string, WheelContents] {
  return [project, contents(/^onnxruntime_ep_\w+\/([^/]+)$/, UNNEEDED_OF_PLUGINS, required, '')];
}

/** The contents of each package's wheel, by project. */
export const WHEEL_CONTENTS: ReadonlyMap<string, WheelContents> = new Map([
  [
    'openvino',
    contents(
      /^openvino\/libs\/([^/]+)$/,
      UNNEEDED_OF_OPENVINO,
      [/openvino_c\b/, /_cpu_plugin\b/, /onnx_frontend\b/],
      '',
    ),
  ],
  [
    'onnxruntime-gpu',
    contents(
      /^onnxruntime\/capi\/(libonnxruntime_providers_(?:shared|cuda)\.so)$/,
      undefined,
      [/_providers_shared\b/, /_providers_cuda\b/],
      'onnxruntime-gpu/',
    ),
  ],
  nvidia('nvidia-cuda-runtime', /libcudart\b/),
  nvidia('nvidia-cublas', /libcublas\b/, /libcublasLt\b/),
  nvidia('nvidia-curand', /libcurand\b/),
  nvidia('nvidia-cufft', /libcufft\b/),
  nvidia('nvidia-nvjitlink', /libnvJitLink\b/),
  nvidia('nvidia-cuda-nvrtc', /libnvrtc\b/, /libnvrtc-builtins\b/),
  nvidia('nvidia-cudnn-cu13', /libcudnn\b/, /libcudnn_ops\b/, /libcudnn_graph\b/),
  plugin('onnxruntime-ep-webgpu', /_providers_webgpu\b/),
  plugin('onnxruntime-ep-openvino', /_providers_openvino_plugin\b/),
  plugin('onnxruntime-ep-nv-tensorrt-rtx-cu13', /_providers_nv_tensorrt_rtx\b/),
]);
