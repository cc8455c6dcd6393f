/** Features of single photos → batches. */
import { TapirError } from '../../base/errors.js';
import type { PhotoFeatures } from '../../extract/replicas/run-photos.js';
import type { LoadedItem } from '../../photos/feeds/feed-batches.js';
import { copyRow } from '../../onnx/tensor/rows.js';
import { createData, elementCount, makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';

/** Items in order, and the features of those that could be read. */
interface Group {
  readonly items: readonly LoadedItem[];
  readonly features: Readonly<Record<string, Tensor>>;
}

/** Puts the features of photos into one tensor per output. Throws `OUTPUT_NOT_BATCHED` if two photos have unlike ones. */
export function stackPhotos(photos: readonly PhotoFeatures[]): Record<string, Tensor> {
  const keys = Object.keys(photos[0] ?? {});
  return Object.fromEntries(
    keys.map((key) => [
      key,
      stack(
        key,
        photos.map((features) => features[key]!),
      ),
    ]),
  );
}

/** Items whose features have the same dims, one after the other, are a batch. The rows of one item, tiles, have the same. */
export function groupAlike(items: readonly LoadedItem[], photos: readonly PhotoFeatures[]): Group[] {
  const groups: { items: LoadedItem[]; photos: PhotoFeatures[]; dims: string | undefined }[] = [];
  let next = 0;
  for (const item of items) {
    const own = photos.slice(next, (next += item.rows[1]));
    const [features] = own;
    const dims = features && JSON.stringify(Object.values(features).map((tensor) => tensor.dims));
    let group = groups.at(-1);
    const fits = group && (dims === undefined || group.dims === undefined || group.dims === dims);
    if (!group || !fits) groups.push((group = { items: [], photos: [], dims: undefined }));
    group.dims ??= dims;
    group.items.push({ ...item, rows: [group.photos.length, own.length] });
    group.photos.push(...own);
  }
  return groups.map((group) => ({ items: group.items, features: stackPhotos(group.photos) }));
}

function stack(key: string, tensors: readonly Tensor[]): Tensor {
  const [{ dtype, dims }] = tensors as readonly [Tensor, ...Tensor[]];
  const odd = tensors.find((tensor) => tensor.dims.join() !== dims.join());
  if (odd)
    throw new TapirError(
      'OUTPUT_NOT_BATCHED',
      `output "${key}" has [${odd.dims.join(', ')}] for one photo after [${dims.join(', ')}] for another, so it cannot be one array; ask for a tensor with a row per photo, cut pictures into tiles of one size (option "tiles"), or take each photo's own from embedImages`,
      { details: { output: key, dims: odd.dims, rows: tensors.length } },
    );
  const size = elementCount(dims);
  const data = createData(dtype, tensors.length * size);
  tensors.forEach((tensor, row) => copyRow(tensor.data, 0, data, row, size));
  return makeTensor(dtype, [tensors.length, ...dims], data);
}
