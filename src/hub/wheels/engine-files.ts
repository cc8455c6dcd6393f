/** Which files of a wheel an engine needs. */
import { ENGINE_LIBRARIES, type InstallableEngine } from '../../base/engine-packages.js';

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
  /^[^/]+\.dist-info\/(?:licenses\/)?((?:licensing\/)?(?:LICEN[CS]E|NOTICE|COPYING|[^/]*third-party)[^/]*)$/i;

function placeLicence(name: string): string | undefined {
  const licence = LICENCE.exec(name)?.[1];
  return licence === undefined ? undefined : `licenses/${licence}`;
}

/** OpenVINO's devices besides the CPU, and its readers of formats besides ONNX and its own IR: almost half of the bytes. */
const UNNEEDED_OF_OPENVINO =
  /intel_[gn]pu_|_(?:auto|auto_batch|hetero)_plugin|_(?:gguf|jax|paddle|pytorch|tensorflow|tensorflow_lite)_frontend/;

export const WHEEL_CONTENTS: Readonly<Record<InstallableEngine, WheelContents>> = {
  openvino: {
    place: (name) => {
      const library = /^openvino\/libs\/([^/]+)$/.exec(name)?.[1];
      if (library === undefined) return placeLicence(name);
      const isNeeded = IS_LIBRARY.test(library) && !UNNEEDED_OF_OPENVINO.test(library);
      return isNeeded ? `${ENGINE_LIBRARIES}/${library}` : undefined;
    },
    required: [/openvino_c\b/, /_cpu_plugin\b/, /onnx_frontend\b/],
  },
};
