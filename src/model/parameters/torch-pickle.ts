/**
 * What the pickles of torch.save may refer to: tensors, their storages, torch.Size and ordered dicts. Any other global is refused,
 * because a pickle that calls arbitrary functions can do anything.
 */
import { elementCount } from '../../tensor/tensor.js';
import { readPickle, type PickleBuilder } from './pickle.js';
import { STORAGE_TYPES, type StoredType } from './stored-types.js';

/** The elements of one or more tensors, outside the pickle. */
export class PickledStorage {
  readonly key: string;
  readonly dtype: StoredType;
  readonly elements: number;

  constructor(key: string, dtype: StoredType, elements: number) {
    this.key = key;
    this.dtype = dtype;
    this.elements = elements;
  }
}

/** A tensor as a view of a storage. Offset and strides count elements. */
export class PickledTensor {
  readonly storage: PickledStorage;
  readonly offset: number;
  readonly dims: readonly number[];
  readonly strides: readonly number[];

  constructor(storage: PickledStorage, offset: number, dims: readonly number[], strides: readonly number[]) {
    this.storage = storage;
    this.offset = offset;
    this.dims = dims;
    this.strides = strides;
  }
}

/** A class of torch whose name says the element type of a storage. */
class StorageClass {
  readonly dtype: StoredType;

  constructor(dtype: StoredType) {
    this.dtype = dtype;
  }
}

/** torch has no tensors of more dims. */
const MAX_RANK = 64;
/** A tensor with strides of 0 can have more elements than its storage: at most this many. */
const MAX_EXPANDED = 2 ** 20;

const BUILDERS: ReadonlyMap<string, PickleBuilder> = new Map<string, PickleBuilder>([
  ['collections.OrderedDict', { build: ([pairs]) => orderedDict(pairs) }],
  ['torch._utils._rebuild_tensor_v2', { build: rebuildTensor }],
  ['torch._utils._rebuild_tensor', { build: rebuildTensor }],
  ['torch._utils._rebuild_parameter', { build: ([tensor]) => tensor }],
  ['torch.Size', { build: ([sizes]) => sizes }],
]);

/**
 * Reads a pickle of torch.save.
 *
 * @returns Maps, arrays, numbers, texts and {@link PickledTensor}s.
 * @throws Error if it is damaged, or refers to anything else.
 */
export function readTorchPickle(bytes: Buffer): unknown {
  return readPickle(bytes, { findGlobal, findPersistent });
}

function findGlobal(name: string): unknown {
  const builder = BUILDERS.get(name);
  if (builder) return builder;
  const dtype = name.startsWith('torch.') ? STORAGE_TYPES.get(name.slice('torch.'.length)) : undefined;
  if (dtype !== undefined) return new StorageClass(dtype);
  throw new Error(
    `it refers to ${name}, and only tensors, numbers, texts and dicts of them are read; save the state dict alone: torch.save(model.state_dict(), path)`,
  );
}

/** A persistent id is `('storage', class, key, device, elements)`; older files have one more item, for views. */
function findPersistent(id: unknown): PickledStorage {
  const [kind, type, key, , elements] = Array.isArray(id) ? (id as readonly unknown[]) : [];
  if (kind !== 'storage' || !(type instanceof StorageClass) || typeof key !== 'string' || !isSize(elements))
    throw new Error('its pickle refers to a storage in a form that torch.save does not write');
  return new PickledStorage(key, type.dtype, elements);
}

function orderedDict(pairs: unknown): Map<unknown, unknown> {
  const dict = new Map<unknown, unknown>();
  // Python 2 wrote the items as a list of pairs.
  for (const pair of Array.isArray(pairs) ? (pairs as readonly unknown[]) : []) {
    if (!Array.isArray(pair) || pair.length !== 2)
      throw new Error('its pickle has an ordered dict that is damaged');
    dict.set(pair[0], pair[1]);
  }
  return dict;
}

function rebuildTensor([storage, offset, dims, strides]: readonly unknown[]): PickledTensor {
  if (!(storage instanceof PickledStorage) || !isSize(offset) || !isSizes(dims) || !isSizes(strides))
    throw new Error('its pickle has a tensor that is damaged');
  if (dims.length !== strides.length || dims.length > MAX_RANK)
    throw new Error(`its pickle has a tensor of ${dims.length} dims and ${strides.length} strides`);
  const count = elementCount(dims);
  const last = dims.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, offset);
  if (count > 0 && last >= storage.elements)
    throw new Error(
      `its pickle has a tensor that ends at element ${last} of a storage of ${storage.elements}`,
    );
  if (!(count <= Math.max(storage.elements, MAX_EXPANDED)))
    throw new Error(`its pickle has a tensor of ${count} elements in a storage of ${storage.elements}`);
  return new PickledTensor(storage, offset, [...dims], [...strides]);
}

function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(isSize);
}
