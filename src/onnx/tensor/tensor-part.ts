/** Parts of tensors along an axis. A part is a description; it is cut out only when a lane is about to take it. */
import { copyInTurns, type Span } from './copy.js';
import { isShared, takeImages, type Feed, type SharedFeed } from './image-feed.js';
import {
  createData,
  elementCount,
  fillsBuffer,
  makeTensor,
  mismatch,
  nameTensor,
  type NamedTensor,
  type Tensor,
  type TensorData,
} from './tensor.js';

/** A range of a tensor along one axis. If `size` exceeds `count`, zeros follow. */
export interface TensorPart<Whole = Tensor> {
  readonly name: string;
  readonly tensor: Whole;
  readonly axis: number;
  readonly start: number;
  readonly count: number;
  /** Length of the axis once cut out. */
  readonly size: number;
}

/** A range of a feed, which the lane may have yet to make. */
export type FeedPart = TensorPart<Tensor | SharedFeed>;

/** A whole feed as a part. */
export function wholePart<Whole extends Feed>(feed: Whole): TensorPart<Whole> {
  const [size = 1] = feed.dims;
  return { name: feed.name, tensor: feed, axis: 0, start: 0, count: size, size };
}

/** Returns a buffer of a length in bytes, with undefined content; undefined if there is no spare one. */
export type SpareBuffer = (bytes: number) => ArrayBuffer | undefined;

/** Cuts out a part of a feed, as {@link cutOut}. Shared images are not copied. */
export async function cutFeed(part: FeedPart, mayMove: boolean, spare: SpareBuffer): Promise<Feed> {
  const { tensor } = part;
  return isShared(tensor)
    ? takeImages(tensor, part.start, part.count, part.size)
    : cutOut({ ...part, tensor }, mayMove, spare);
}

/**
 * Cuts out a part, into a separate buffer that can be moved to another thread.
 *
 * @param mayMove - Whether to return the tensor's own buffer if the part is the whole tensor and nothing else is in the buffer.
 * @param spare - Source of used buffers: fresh memory costs about as much as the copy.
 * @throws {@link TapirError} `INPUT_MISMATCH` if the tensor's buffer was moved elsewhere meanwhile.
 */
export async function cutOut(part: TensorPart, mayMove: boolean, spare: SpareBuffer): Promise<NamedTensor> {
  const { name, tensor, axis, count, size } = part;
  checkPresent(part.name, tensor);
  const isWhole = count === size && (tensor.dims.length === 0 || count === tensor.dims[axis]);
  if (isWhole && mayMove && fillsBuffer(tensor.data)) return nameTensor(name, tensor);
  const dims = isWhole ? tensor.dims : tensor.dims.with(axis, size);
  const { dtype, data } = tensor;
  const length = elementCount(dims);
  const buffer = Array.isArray(data) ? undefined : spare(length * data.BYTES_PER_ELEMENT);
  const target = createData(dtype, length, buffer);
  // A fresh buffer is zero.
  if (count < size && buffer) clearRest(target, part);
  try {
    await copyInTurns([{ source: data, target, spans: spansOf(part) }]);
  } catch (error) {
    checkPresent(name, tensor);
    throw error;
  }
  return nameTensor(name, makeTensor(dtype, dims, target));
}

/** Checks that the data is still there: moving a buffer leaves an empty array. Throws `INPUT_MISMATCH`. */
export function checkPresent(name: string, { data, dims }: Tensor): void {
  if (data.length === elementCount(dims)) return;
  throw mismatch(name, 'left unchanged until the call settles', 'data that was moved elsewhere meanwhile');
}

/** Writes zeros to the elements of a used buffer that the copy will not overwrite. */
function clearRest(target: TensorData, { tensor, axis, count, size }: TensorPart): void {
  if (Array.isArray(target)) return;
  const inner = elementCount(tensor.dims.slice(axis + 1));
  const zero = target instanceof BigInt64Array || target instanceof BigUint64Array ? 0n : 0;
  for (let at = 0; at < target.length; at += size * inner)
    target.fill(zero as never, at + count * inner, at + size * inner);
}

/** A copy of a tensor in a separate buffer. */
export async function copyTensor(tensor: Tensor): Promise<Tensor> {
  const { dtype, dims, data } = await cutOut(wholePart({ name: '', ...tensor }), false, () => undefined);
  return makeTensor(dtype, dims, data);
}

/** One span per index of the axes before the part's axis. */
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
