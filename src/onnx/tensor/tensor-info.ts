/** A tensor of a model, described without its data. */

/** Name, element type and sizes of a tensor. */
export interface TensorInfo {
  readonly name: string;
  /** Element type in onnxruntime's spelling (`float32`, `int64`, …), or null if the file does not state it. */
  readonly dtype: string | null;
  /** Sizes: a number, a symbolic name, or null if the size is open. Null as a whole if the file does not state them. */
  readonly dims: readonly (number | string | null)[] | null;
}

/** The dims as messages show them: `[batch, 3, ?, ?]`. */
export function dimsText({ dims }: TensorInfo): string {
  return `[${(dims ?? []).map((size) => size ?? '?').join(', ')}]`;
}
