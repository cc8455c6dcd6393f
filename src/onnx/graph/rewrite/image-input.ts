/**
 * Gives a model an image input: it takes uint8 pixels, and the graph normalises them. Added nodes compute the tensor that was the
 * graph's input, under the same name, so kept nodes stay unchanged.
 */
import { TapirError } from '../../../base/errors.js';
import { tensorType, type Value } from '../graph.js';
import { ELEMENT_TYPE, elementTypeName, isFloatType } from '../../file/wire/schema.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { keptInputs, type Rewrite } from './rewrite.js';

/** How pixels are normalised: `(pixel / 255 − mean) / std` per channel, as torchvision's ToTensor and Normalize do. */
export interface ImageNormalization {
  readonly mean: readonly number[];
  readonly std: readonly number[];
  /** The value of each channel and byte, `channels × 256`, for a library that rounds otherwise. */
  readonly values?: Float32Array | undefined;
}

/**
 * Replaces a float input `[N, C, H, W]` (or `[N, H, W, C]`) by an image input `[N, H, W, C]` uint8. The
 * arithmetic is float32 in torchvision's order, so results equal torchvision's bit for bit. Values that are given are looked up.
 *
 * @param chosen - The input to replace; by default the only one that fits.
 * @throws {@link TapirError} `INPUT_MISMATCH` if the model has no such input or several, or its operator set cannot express the arithmetic.
 */
export function withImageInput(rewrite: Rewrite, image: ImageNormalization, chosen?: Value): Rewrite {
  const { cut, names } = rewrite;
  const { mean, std, values } = image;
  const channels = mean.length;
  const input = chosen ?? imageInputOf(keptInputs(rewrite), channels);
  const type = tensorType(input)!;
  const [batch, ...sizes] = rewrite.restated.get(input)?.dims ?? type.dims!;
  const isChannelFirst = sizes[0] === channels || sizes[2] !== channels;
  const [height, width] = isChannelFirst ? sizes.slice(1) : sizes;
  const name = names.take('image');
  const nodes = new NodeBuilder(names, 'image', opsetOf(cut.graph), refuse);
  const shape = isChannelFirst ? [channels, 1, 1] : [channels];
  // Transposing bytes moves a quarter of the memory that floats would.
  const pixels = isChannelFirst ? nodes.add('Transpose', [name], { perm: [0, 3, 1, 2] }) : name;
  const isFloat32 = type.elemType === ELEMENT_TYPE.float32;
  const last = isFloat32 ? input.name : undefined;
  let normalized: string;
  if (values) {
    const bytes = nodes.add('Cast', [pixels], { to: ELEMENT_TYPE.int32 });
    const starts = Int32Array.from(mean, (_, channel) => channel * 256);
    const offsets = nodes.tensor(ELEMENT_TYPE.int32, shape, starts);
    const table = nodes.floats([values.length], values);
    normalized = nodes.add('Gather', [table, nodes.add('Add', [bytes, offsets])], {}, last);
  } else {
    const floats = nodes.add('Cast', [pixels], { to: ELEMENT_TYPE.float32 });
    const scaled = nodes.add('Div', [floats, nodes.floats([], [255])]);
    const centred = nodes.add('Sub', [scaled, nodes.floats(shape, mean)]);
    normalized = nodes.add('Div', [centred, nodes.floats(shape, std)], {}, last);
  }
  if (!isFloat32) nodes.add('Cast', [normalized], { to: type.elemType }, input.name);
  return {
    ...rewrite,
    inputs: [
      ...rewrite.inputs,
      { name, elemType: ELEMENT_TYPE.uint8, dims: [batch!, height!, width!, channels] },
    ],
    computedInputs: new Set([...rewrite.computedInputs, input]),
    front: [...nodes.nodes, ...rewrite.front],
    tensors: [...rewrite.tensors, ...nodes.tensors],
  };
}

/** Refuses an operator that the model's operator set lacks. */
function refuse(reason: string): TapirError {
  return new TapirError('INPUT_MISMATCH', `input "image-uint8" cannot be added: ${reason}`, {
    details: { input: 'image', expected: 'a later operator set', actual: reason },
  });
}

/**
 * Whether an input of these dims can hold images of so many channels. Channels that the file leaves open come first, as PyTorch has
 * them: a graph that has them last does not run then.
 */
export function canHoldImages(dims: readonly unknown[] | null | undefined, channels: number): boolean {
  if (dims?.length !== 4) return false;
  const places = [dims[1], dims[3]];
  return places.includes(channels) || places.every((size) => typeof size !== 'number');
}

/** The only input that can hold images. */
function imageInputOf(inputs: readonly Value[], channels: number): Value {
  const fitting = inputs.filter((input) => {
    const type = tensorType(input);
    return type && isFloatType(type.elemType) && canHoldImages(type.dims, channels);
  });
  if (fitting.length === 1) return fitting[0]!;
  const expected = `one float input of dims [N, ${channels}, H, W] or [N, H, W, ${channels}], to be computed from an image`;
  const actual = inputs
    .map(({ name, type }) =>
      type?.kind === 'tensor'
        ? `"${name}" ${elementTypeName(type.elemType) ?? '?'} [${type.dims?.map((size) => size ?? '?').join(', ') ?? '?'}]`
        : `"${name}"`,
    )
    .join('; ');
  throw new TapirError(
    'INPUT_MISMATCH',
    `input "image-uint8" needs ${expected}; the model has ${actual || 'none'}`,
    { details: { input: 'image', expected, actual } },
  );
}
