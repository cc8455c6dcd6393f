/** What onnxruntime is told so that it saves the graph it has made of a model, its weights in a file beside it. */
import { join } from 'node:path';

/** The graph, as onnxruntime would run it. */
export const PREPARED_GRAPH = 'model.onnx';
/** Its weights, in the form in which they are used: they are mapped, so that all sessions share them. */
export const PREPARED_WEIGHTS = 'weights.bin';

/** Smaller weights stay in the graph. */
const LEAST_BYTES = '1024';

/** How a lane saves what onnxruntime has made of its model. */
export interface SaveTo {
  readonly folder: string;
  /** Save matrices as they are packed for this CPU as well. */
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
      // Matrices are packed for this CPU at opening; unless that is saved as well, each session holds a copy of its own.
      ...(hasPacks ? { save_external_prepacked_constant_initializers: '1' } : {}),
    },
  };
}
