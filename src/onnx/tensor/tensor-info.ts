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

/** The name of an input that takes decoded photos, whose graph prepares them. */
export const PHOTO_INPUT = 'photo';
/** Its axes, behind that of the batch where it has one. */
export const PHOTO_AXES = ['height', 'width', 3] as const;

/** Whether an input takes decoded photos, and its graph prepares them. */
export function isPhotoInput({ name, dtype, dims }: TensorInfo): boolean {
  return name === PHOTO_INPUT && dtype === 'uint8' && dims?.slice(-3).join() === PHOTO_AXES.join();
}

/** Whether such an input takes one photo a run: its first axis is no batch. */
export function takesOnePhoto(input: TensorInfo): boolean {
  return isPhotoInput(input) && input.dims!.length === PHOTO_AXES.length;
}
