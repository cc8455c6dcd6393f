/** The files of a prepared model, and the options with which onnxruntime writes them. */
import { join } from 'node:path';

/** The optimised graph. */
export const PREPARED_GRAPH = 'model.onnx';
/** Its weights, in the layout in which they are used. Sessions map the file, so that they share it. */
export const PREPARED_WEIGHTS = 'weights.bin';

/** Weights with fewer bytes stay in the graph. */
const LEAST_BYTES = '1024';

/** Where and how a lane saves the optimised graph of its model. */
export interface SaveTo {
  readonly folder: string;
  /** Also save matrices in the packed form that this CPU uses. */
  readonly hasPacks: boolean;
}

/** Session options and configuration entries that save a model into a folder. */
export function savingOptions({ folder, hasPacks }: SaveTo): {
  readonly optimizedModelFilePath: string;
  readonly entries: Readonly<Record<string, string>>;
} {
  return {
    optimizedModelFilePath: join(folder, PREPARED_GRAPH),
    entries: {
      optimized_model_external_initializers_file_name: PREPARED_WEIGHTS,
      optimized_model_external_initializers_min_size_in_bytes: LEAST_BYTES,
      // Opening a session packs matrices for the CPU. Unless the packed form is saved, each session holds its own copy of it.
      ...(hasPacks ? { save_external_prepacked_constant_initializers: '1' } : {}),
    },
  };
}
