/** Which input of a model takes which tensor of photos, and in which element type. */
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import {
  createData,
  makeTensor,
  mismatch,
  nameTensor,
  type NamedTensor,
  type Tensor,
} from '../../onnx/tensor/tensor.js';
import { dimsText, type TensorInfo } from '../../onnx/tensor/tensor-info.js';

/** The input of each tensor, by the tensor's name. */
export interface TensorMatch {
  readonly inputs: ReadonlyMap<string, TensorInfo>;
  /** Tensors that no input takes. */
  readonly left: readonly string[];
}

/**
 * Matches tensors to the inputs of a model: one tensor and one input fit whatever they are called, others by name. Throws
 * `INPUT_MISMATCH` for an input without a tensor.
 */
export function matchTensors(
  inputs: readonly TensorInfo[],
  tensors: readonly Pick<TensorInfo, 'name'>[],
): TensorMatch {
  const [input, ...further] = inputs;
  const [tensor, ...others] = tensors;
  if (input && tensor && further.length === 0 && others.length === 0)
    return { inputs: new Map([[tensor.name, input]]), left: [] };
  const names = tensors.map(({ name }) => name);
  const missing = inputs.find(({ name }) => !names.includes(name));
  if (missing)
    throw mismatch(
      missing.name,
      `one of what the transform has (${names.join(', ')}), or be fed by name with other tensors`,
      'nothing',
    );
  const byName = new Map(inputs.map((one) => [one.name, one]));
  return {
    inputs: new Map(names.flatMap((name) => (byName.has(name) ? [[name, byName.get(name)!] as const] : []))),
    left: names.filter((name) => !byName.has(name)),
  };
}

/** The tensors of a photo, if it has several, that no input takes. Throws as {@link matchTensors}. */
export function unusedTensors(
  inputs: readonly TensorInfo[],
  tensors: readonly TensorInfo[],
): readonly string[] {
  return tensors.length > 1 ? matchTensors(inputs, tensors).left : [];
}

/** Whether a tensor tells padding from pixels. */
export function isMask(name: string): boolean {
  return /mask/.test(name);
}

/** The error for padded photos whose mask a model does not take. */
export function unmasked(mask: string): Error {
  const expected =
    'an input of the model where photos are padded: without their mask it takes padding for pixels (export the model with this input)';
  return mismatch(mask, expected, 'a model without it');
}

/**
 * The tensors of photos as feeds of a model: matched as {@link matchTensors} does, and converted to the inputs' element types. Throws
 * `INPUT_MISMATCH`.
 */
export function feedTensors(
  inputs: readonly TensorInfo[],
  tensors: Readonly<Record<string, Tensor>>,
): NamedTensor[] {
  const given = Object.entries(tensors).map(([name, tensor]) => ({ name, tensor }));
  const match = matchTensors(inputs, given);
  const mask = match.left.find((name) => isMask(name) && hasZero(tensors[name]!));
  if (mask !== undefined) throw unmasked(mask);
  const byInput = new Map(given.map(({ name, tensor }) => [match.inputs.get(name), tensor]));
  return inputs.map((input) => convertFeed(input, byInput.get(input)!));
}

function hasZero({ data }: Tensor): boolean {
  return (data as Int32Array).includes(0);
}

const INTEGERS: ReadonlySet<string> = new Set([
  'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64',
]); // prettier-ignore

/**
 * A tensor in the element type of an input: integers exactly, bytes to floats too, to bool what is not 0, float32 to float16 rounded. Throws `INPUT_MISMATCH`
 * for all other types, and for dims of another rank.
 */
export function convertFeed(input: TensorInfo, tensor: Tensor): NamedTensor {
  const { name, dtype, dims } = input;
  if (dims !== null && dims.length !== tensor.dims.length)
    throw mismatch(name, `of dims ${dimsText(input)}`, `[${tensor.dims.join(', ')}]`);
  const converted = dtype === null || dtype === tensor.dtype ? tensor : convert(tensor, dtype);
  if (converted) return nameTensor(name, converted);
  throw mismatch(name, `fed ${dtype}, to which the transform's tensor can be converted`, tensor.dtype);
}

/** Undefined if the types do not convert, or a number does not fit. */
function convert({ dtype, dims, data }: Tensor, wanted: string): Tensor | undefined {
  if (dtype === 'float32' && wanted === 'float16')
    return makeTensor('float16', dims, encodeFloat16(data as Float32Array));
  // Bytes are the same numbers in both.
  if (dtype === 'uint8' && (wanted === 'float32' || wanted === 'float16')) {
    const floats = Float32Array.from(data as Uint8Array);
    return makeTensor(wanted, dims, wanted === 'float16' ? encodeFloat16(floats) : floats);
  }
  if (!INTEGERS.has(dtype)) return undefined;
  const numbers = data as Int32Array;
  if (wanted === 'bool')
    return makeTensor(
      'bool',
      dims,
      Uint8Array.from(numbers, (value) => (value ? 1 : 0)),
    );
  if (!INTEGERS.has(wanted)) return undefined;
  const made = createData(wanted as 'int32', numbers.length) as Int32Array;
  const isBig = made instanceof BigInt64Array || made instanceof BigUint64Array;
  for (let at = 0; at < made.length; at++) {
    const value = numbers[at]!;
    made[at] = (isBig ? BigInt(value) : Number(value)) as number;
    if (BigInt(made[at]!) !== BigInt(value)) return undefined;
  }
  return makeTensor(wanted as 'int32', dims, made);
}
