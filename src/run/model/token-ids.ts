/** The input by which a text tower is known. */
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';

const NAMES = /^(?:input_ids|text|tokens?|token_ids|text_input|text_tokens)$/;

/** Whether an input holds the token ids of texts: integers [N, L] under one of the names that exporters give them. */
export function isTokenIds({ name, dtype, dims }: TensorInfo): boolean {
  return (dtype === 'int64' || dtype === 'int32') && dims?.length === 2 && NAMES.test(name);
}
