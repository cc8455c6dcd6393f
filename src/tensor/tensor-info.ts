/** A tensor without its data: name, element type, sizes. */

/** A tensor of a model. */
export interface TensorInfo {
  readonly name: string;
  /** Element type in onnxruntime's spelling (`float32`, `int64`, …), or null where the file does not state it. */
  readonly dtype: string | null;
  /** Sizes: a number, a symbolic name, or null for an open one; null altogether if the file does not state them. */
  readonly dims: readonly (number | string | null)[] | null;
}
