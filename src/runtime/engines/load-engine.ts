/** Loads an engine by its name. Each engine is one module, which loads its native library only when it is used. */
import type { Engine } from '../lanes/engine.js';
import type { EngineName } from '../capabilities/capabilities.js';

const MODULES: Readonly<Record<EngineName, () => Promise<Engine>>> = {
  onnxruntime: () => import('./onnxruntime.js'),
  openvino: () => import('./openvino.js'),
};

/** Loads an engine. */
export function loadEngine(name: EngineName): Promise<Engine> {
  return MODULES[name]();
}
