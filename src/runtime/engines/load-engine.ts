/** Loads an engine by its name. Each engine is one module, which loads its native library only when it is used. */
import type { Engine } from '../lanes/engine.js';
import type { EngineName } from '../lanes/lane-options.js';

/** Loads an engine. */
export function loadEngine(name: EngineName): Promise<Engine> {
  return name === 'openvino' ? import('./openvino.js') : import('./onnxruntime.js');
}
