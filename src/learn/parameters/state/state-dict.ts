/** What a file of weights holds: tensors by name. */
import type { StateTensor } from './state-tensor.js';

/** The content of a file of weights. */
export interface StateContent {
  /** In the order of the file. */
  readonly tensors: ReadonlyMap<string, StateTensor>;
  /** The texts that a safetensors file carries beside its tensors. */
  readonly metadata: Readonly<Record<string, string>>;
  /** What was chosen or left out while reading. */
  readonly notes: readonly string[];
}

/**
 * A state dict: a map from the names of parameters and buffers to their tensors, in the order of the file. No values are in memory,
 * and no file stays open. Copy it to change it: `new Map(state)`.
 */
export interface StateDict extends ReadonlyMap<string, StateTensor> {
  /** The file that it was read from. */
  readonly path: string;
  /** The texts that a safetensors file carries beside its tensors; empty for other files. */
  readonly metadata: Readonly<Record<string, string>>;
  /** What was chosen or left out while reading, for example the checkpoint that the state dict was wrapped in. */
  readonly notes: readonly string[];
}

/** Adds the facts of the file to a map of tensors. */
export function stateDict(path: string, { tensors, metadata, notes }: StateContent): StateDict {
  return Object.assign(new Map(tensors), { path, metadata, notes });
}
