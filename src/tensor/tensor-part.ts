/** Parts of tensors along an axis: described first, cut out when a lane is about to take them. */
import { copyInTurns, type Span } from './copy.js';
import { isShared, takeImages, type Feed, type SharedImages } from './image-feed.js';
import {
  createData,
  elementCount,
  fillsBuffer,
  makeTensor,
  mismatch,
  type Tensor,
  type TensorData,
  type NamedTensor,
} from './tensor.js';

/** A range of a tensor along one axis, with zeros behind it where `size` exceeds `count`. */
export interface TensorPart<Whole = Tensor> {
  readonly name: string;
  readonly tensor: Whole;
  readonly axis: number;
  readonly start: number;
  readonly count: number;
  /** Length of the axis once cut out. */
  readonly size: number;
}

/** A range of a feed, which need not be made yet. */
export type FeedPart = TensorPart<Tensor | SharedImages>;

/** A feed as a part: all of it. */
export function wholePart<Whole extends Feed>(feed: Whole): TensorPart<Whole> {
  const [size = 1] = feed.dims;
  return { name: feed.name, tensor: feed, axis: 0, start: 0, count: size, size };
}

/** Cuts a part of a feed out, as {@link cutOut}; of images that a lane makes its feed of, nothing is copied here. */
export async function cutFeed(part: FeedPart, mayMove: boolean, spare: SpareBuffer): Promise<Feed> {
  const { tensor } = part;
  return isShared(tensor)
    ? takeImages(tensor, part.start, part.count, part.size)
    : cutOut({ ...part, tensor }, mayMove, spare);
}

/** Gives a buffer of a length in bytes, contents undefined; undefined if there is none to spare. */
export type SpareBuffer = (bytes: number) => ArrayBuffer | undefined;

/**
 * Cuts a part out, into a buffer of its own that can be moved to another thread.
 *
 * @param mayMove - Give up the tensor's own buffer where the part is all of it and nothing else is in it.
 * @param spare - Buffers to be used again: fresh memory costs about as much as the copy.
 */
export async function cutOut(part: TensorPart, mayMove: boolean, spare: SpareBuffer): Promise<NamedTensor> {
  const { name, tensor, axis, count, size } = part;
  checkPresent(part.name, tensor);
  const isWhole = count === size && (tensor.dims.length === 0 || count === tensor.dims[axis]);
  const dims = isWhole ? tensor.dims : tensor.dims.with(axis, size);
  if (isWhole && mayMove && fillsBuffer(tensor.data)) return { name, ...tensor, dims };
  const length = elementCount(dims);
  const { target, isFresh } = createOver(tensor, length, spare);
  if (count < size && !isFresh) clearBehind(target, part);
  try {
    await copyInTurns([{ source: tensor.data, target, spans: spansOf(part) }]);
  } catch (error) {
    checkPresent(name, tensor);
    throw error;
  }
  return { name, ...makeTensor(tensor.dtype, dims, target) };
}

/** A buffer that a caller has moved elsewhere leaves an empty array. Throws `INPUT_MISMATCH`. */
export function checkPresent(name: string, { data, dims }: Tensor): void {
  if (data.length === elementCount(dims)) return;
  throw mismatch(name, 'left as it is until the call settles', 'data that was moved elsewhere meanwhile');
}

function createOver(
  { dtype, data }: Tensor,
  length: number,
  spare: SpareBuffer,
): { readonly target: TensorData; readonly isFresh: boolean } {
  const buffer = Array.isArray(data) ? undefined : spare(length * data.BYTES_PER_ELEMENT);
  return { target: createData(dtype, length, buffer), isFresh: buffer === undefined };
}

/** Zeros where a used buffer will not be written to. */
function clearBehind(target: TensorData, { tensor, axis, count, size }: TensorPart): void {
  if (Array.isArray(target)) return;
  const inner = elementCount(tensor.dims.slice(axis + 1));
  const zero = target instanceof BigInt64Array || target instanceof BigUint64Array ? 0n : 0;
  for (let at = 0; at < target.length; at += size * inner)
    target.fill(zero as never, at + count * inner, at + size * inner);
}

/** A tensor in a buffer of its own. */
export async function copyTensor(tensor: Tensor): Promise<Tensor> {
  const { dtype, dims, data } = await cutOut(wholePart({ name: '', ...tensor }), false, () => undefined);
  return makeTensor(dtype, dims, data);
}

function* spansOf({ tensor, axis, start, count, size }: TensorPart): Generator<Span> {
  const { dims } = tensor;
  if (dims.length === 0) {
    yield { from: 0, to: 0, length: 1 };
    return;
  }
  const inner = elementCount(dims.slice(axis + 1));
  const outer = elementCount(dims.slice(0, axis));
  for (let i = 0; i < outer; i++)
    yield { from: (i * dims[axis]! + start) * inner, to: i * size * inner, length: count * inner };
}
