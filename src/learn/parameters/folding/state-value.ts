/** A tensor of a state dict, whatever it was made of. */
import type { Tensor } from '../../../onnx/tensor/tensor.js';

/** A tensor of a state dict; read when its values are needed. */
export interface StateValue {
  readonly dtype: string;
  readonly dims: readonly number[];
  read(): Promise<Tensor>;
}

/** The tensors of a state dict by key. */
export type StateValues = ReadonlyMap<string, StateValue>;
