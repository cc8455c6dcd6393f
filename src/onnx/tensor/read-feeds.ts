/** Feeds: what a caller passes to `run`, checked against the model's inputs. */
import { show } from '../../base/checks.js';
import { counted } from '../../base/printable.js';
import { makeTensor, mismatch, nameTensor, readTensor, type NamedTensor, type Tensor } from './tensor.js';
import { dimsText, isPhotoInput, PHOTO_AXES, takesOnePhoto, type TensorInfo } from './tensor-info.js';

/**
 * Reads the feeds of a run: one tensor per input, in the model's order. Records may be nested, and tensors in lists are matched to inputs
 * in that order. Extra feeds are refused, so that a misspelt name does not pass unnoticed. Throws `INPUT_MISMATCH`.
 */
export function readFeeds(inputs: readonly TensorInfo[], given: unknown): NamedTensor[] {
  const names = inputs.map((input) => `"${input.name}"`).join(', ');
  const first = inputs[0]?.name ?? '';
  if (given === null || typeof given !== 'object')
    throw mismatch(first, 'a tensor { dtype, dims, data }, or a record of them by input name', show(given));
  if (isTensor(given) && inputs.length !== 1)
    throw mismatch(
      first,
      `given by name: the model has ${inputs.length} inputs (${names})`,
      'a single tensor',
    );
  const named = new Map<string, unknown>();
  const listed: unknown[] = [];
  collectFeeds(given, undefined, { named, listed }, 0);
  if (listed.length > 0) nameInOrder(inputs, named, listed);
  const extra = [...named.keys()].find((name) => !inputs.some((input) => input.name === name));
  if (extra !== undefined)
    throw mismatch(
      extra,
      names === '' ? 'left out: the model has no inputs' : `one of the model's inputs: ${names}`,
      'an unknown name',
    );
  return inputs.map((input) => {
    if (!named.has(input.name)) throw mismatch(input.name, 'given', 'nothing');
    return nameTensor(input.name, readFeed(input, named.get(input.name)));
  });
}

/** The first feed of float32 or float64 with an element that is not finite. */
export function findBroken(feeds: readonly NamedTensor[]): NamedTensor | undefined {
  // A value minus itself is 0, or NaN if it is not finite: faster than a look at each.
  const isFinite = (data: Float32Array | Float64Array): boolean => {
    let sum = 0;
    for (let i = 0; i < data.length; i++) sum += data[i]! - data[i]!;
    return sum === 0;
  };
  return feeds.find(
    ({ data }) => (data instanceof Float32Array || data instanceof Float64Array) && !isFinite(data),
  );
}

function readFeed(input: TensorInfo, given: unknown): Tensor {
  const tensor = readTensor(input.name, given);
  if (input.dtype !== null && input.dtype !== tensor.dtype) {
    const { dtype, type } = given as { readonly dtype?: unknown; readonly type?: unknown };
    const why = dtype === undefined && type === undefined ? ' from its array (state the dtype)' : '';
    throw mismatch(input.name, input.dtype, `${tensor.dtype}${why}`);
  }
  if (input.dims !== null && input.dims.length === tensor.dims.length) return tensor;
  const photos = isPhotoInput(input) ? asPhotos(input, tensor) : undefined;
  if (photos) return photos;
  if (input.dims !== null)
    throw mismatch(input.name, `of dims ${dimsText(input)}`, `[${tensor.dims.join(', ')}]`);
  return tensor;
}

/** One photo where the graph takes a batch, as a batch of one; photos where it takes one, which run one by one; undefined for anything else. */
function asPhotos(input: TensorInfo, { dtype, dims, data }: Tensor): Tensor | undefined {
  const rank = PHOTO_AXES.length;
  if (dims.at(-1) !== 3 || dims[0] === 0) return undefined;
  if (dims.length === rank) return makeTensor(dtype, [1, ...dims], data);
  if (dims.length !== rank + 1 || !takesOnePhoto(input)) return undefined;
  return makeTensor(dtype, dims[0] === 1 ? dims.slice(1) : dims, data);
}

function isTensor(given: object): boolean {
  return 'data' in given && 'dims' in given && Array.isArray(given.dims);
}

interface Collected {
  readonly named: Map<string, unknown>;
  readonly listed: unknown[];
}

const MAX_NESTING = 32;

/** Finds the tensors in nested records and lists. `name` is the key of `given` in the record that holds it; undefined in a list. */
function collectFeeds(given: unknown, name: string | undefined, found: Collected, depth: number): void {
  const isGroup =
    given !== null && typeof given === 'object' && !isTensor(given) && !ArrayBuffer.isView(given);
  if (isGroup && depth < MAX_NESTING) {
    const items = Array.isArray(given)
      ? Array.from(given, (item: unknown): [undefined, unknown] => [undefined, item])
      : Object.entries(given);
    for (const [key, item] of items) collectFeeds(item, key, found, depth + 1);
  } else if (name === undefined) {
    found.listed.push(given);
  } else {
    if (found.named.has(name)) throw mismatch(name, 'given once', 'twice');
    found.named.set(name, given);
  }
}

/** Gives tensors from lists to the inputs that no record names, in the model's order. */
function nameInOrder(
  inputs: readonly TensorInfo[],
  named: Map<string, unknown>,
  listed: readonly unknown[],
): void {
  const open = inputs.filter((input) => !named.has(input.name));
  if (listed.length > open.length) {
    throw mismatch(
      inputs[0]?.name ?? '',
      `a list of at most ${counted(open.length, 'tensor')}: the model has ${counted(inputs.length, 'input')}`,
      `${listed.length} tensors`,
    );
  }
  listed.forEach((tensor, i) => named.set(open[i]!.name, tensor));
}
