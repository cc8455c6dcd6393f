/** Loads an engine by its name. Each engine is one module, which loads its native library only when it is used. */
import type { Engine } from '../lanes/engine.js';
import type { BindingName, EngineName } from '../capabilities/capabilities.js';

const MODULES: Readonly<Record<EngineName, (binding: BindingName) => Promise<Engine>>> = {
  onnxruntime: async (binding) => (await import('./onnxruntime.js')).withBinding(binding),
  openvino: () => import('./openvino.js'),
};

/** Loads an engine, with the binding to its library that was chosen. */
export function loadEngine(name: EngineName, binding: BindingName): Promise<Engine> {
  return MODULES[name](binding);
}
