/**
 * What the pickles of torch.save may refer to: tensors, their storages, torch.Size and ordered dicts. Any other global is refused,
 * because a pickle that calls arbitrary functions can do anything.
 */
import type { WorkLimit } from '../../../base/files/work-limit.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { readPickle, setItem, type PickleBuilder, type PickledValue } from './pickle.js';
import type { StridedView } from '../../../onnx/tensor/strided.js';
import { STORAGE_TYPES, TORCH_TYPES, storedBytes, type StoredType } from '../state/stored-types.js';

/** The elements of one or more tensors, outside the pickle. */
export class PickledStorage {
  readonly key: string;
  /** uint8 for a storage without a type: its tensors say what their bytes are. */
  readonly dtype: StoredType;
  readonly elements: number;
  /** The first element that tensors count from. Not 0 for the views of storages that torch wrote before 0.4. */
  readonly first: number;

  constructor(key: string, dtype: StoredType, elements: number, first = 0) {
    this.key = key;
    this.dtype = dtype;
    this.elements = elements;
    this.first = first;
  }

  get sizeBytes(): number {
    return storedBytes(this.dtype, this.elements);
  }
}

/** A tensor as a view of a storage. Offset and strides count elements of its dtype. */
export class PickledTensor implements StridedView {
  readonly storage: PickledStorage;
  readonly dtype: StoredType;
  readonly offset: number;
  readonly dims: readonly number[];
  readonly strides: readonly number[];

  constructor(storage: PickledStorage, dtype: StoredType, { offset, dims, strides }: StridedView) {
    this.storage = storage;
    this.dtype = dtype;
    this.offset = offset;
    this.dims = dims;
    this.strides = strides;
  }
}

/** What stands for an element type: a class of storages (`torch.FloatStorage`), or the type itself (`torch.uint16`). */
class TorchName {
  readonly kind: 'storage' | 'type';
  readonly dtype: StoredType;

  constructor(kind: 'storage' | 'type', dtype: StoredType) {
    this.kind = kind;
    this.dtype = dtype;
  }
}

/** Longer pickles are refused. A tensor takes about 100 bytes. */
export const MAX_PICKLE_BYTES: number = 16 * 2 ** 20;

/** torch has no tensors of more dims. */
const MAX_RANK = 64;
/** A tensor with strides of 0 can have more elements than its storage: at most this many. */
const MAX_EXPANDED = 2 ** 20;

const BUILDERS: ReadonlyMap<string, PickleBuilder> = new Map<string, PickleBuilder>([
  ['collections.OrderedDict', ([pairs], limit) => orderedDict(pairs, limit)],
  ['torch._utils._rebuild_tensor', rebuildTensor],
  ['torch._utils._rebuild_tensor_v2', rebuildTensorV2],
  ['torch._utils._rebuild_tensor_v3', rebuildTensorV3],
  ['torch._utils._rebuild_parameter', ([tensor]) => tensor],
  ['torch.Size', ([sizes]) => sizes],
]);

/** The storages that a pickle refers to, by key. */
export type PickledStorages = ReadonlyMap<string, PickledStorage>;

/** What a pickle of torch.save holds. */
interface TorchPickle extends PickledValue {
  /** Maps, arrays, numbers, texts and {@link PickledTensor}s. */
  readonly value: unknown;
  readonly storages: PickledStorages;
}

/**
 * Reads a pickle of torch.save.
 *
 * @param start - Where the pickle starts in the bytes.
 * @param limit - For the pickles of one file together; left out, this pickle has one for itself.
 * @throws PickleCutError if the bytes end before the pickle; Error if it is damaged, or refers to anything else.
 */
export function readTorchPickle(bytes: Buffer, start = 0, limit?: WorkLimit): TorchPickle {
  const storages = new Map<string, PickledStorage>();
  const findPersistent = (id: unknown): PickledStorage => {
    const storage = readStorageId(id);
    const known = storages.get(storage.key);
    if (known && known.sizeBytes !== storage.sizeBytes)
      throw new Error(`its pickle gives storage ${storage.key} two sizes`);
    storages.set(storage.key, storage);
    return storage;
  };
  return { ...readPickle(bytes, { findGlobal, findPersistent }, start, limit), storages };
}

function findGlobal(name: string): unknown {
  const builder = BUILDERS.get(name);
  if (builder) return builder;
  if (name === 'torch.storage.UntypedStorage') return new TorchName('storage', 'uint8');
  const [, torchName = ''] = /^torch\.(\w+)$/.exec(name) ?? [];
  const storage = STORAGE_TYPES.get(torchName);
  if (storage !== undefined) return new TorchName('storage', storage);
  const dtype = TORCH_TYPES.get(torchName);
  if (dtype !== undefined) return new TorchName('type', dtype);
  throw new Error(
    `it refers to ${name.slice(0, 100)}, and only tensors, numbers, texts and dicts of them are read; save the state dict alone: torch.save(model.state_dict(), path)`,
  );
}

/**
 * Reads a persistent id, `('storage', class, key, device, elements)`. Files of torch before 1.6 have one more item: null, or the
 * part of the storage that is meant, `(key, first element, elements)`.
 */
function readStorageId(id: unknown): PickledStorage {
  const [kind, type, key, , elements, view] = Array.isArray(id) ? (id as readonly unknown[]) : [];
  const isClass = type instanceof TorchName && type.kind === 'storage';
  if (kind !== 'storage' || !isClass || typeof key !== 'string' || !isSize(elements))
    throw new Error('its pickle refers to a storage in a form that torch.save does not write');
  if (view === undefined || view === null) return new PickledStorage(key, type.dtype, elements);
  if (!Array.isArray(view) || !isSize(view[1]))
    throw new Error('its pickle has a view of a storage that is damaged');
  return new PickledStorage(key, type.dtype, elements, view[1]);
}

function orderedDict(given: unknown, limit: WorkLimit): Map<unknown, unknown> {
  const dict = new Map<unknown, unknown>();
  // Python 2 wrote the items as a list of pairs.
  const pairs = Array.isArray(given) ? (given as readonly unknown[]) : [];
  limit.spend(pairs.length);
  for (const pair of pairs) {
    if (!Array.isArray(pair) || pair.length !== 2)
      throw new Error('its pickle has an ordered dict that is damaged');
    setItem(dict, pair[0], pair[1]);
  }
  return dict;
}

function rebuildTensorV2(args: readonly unknown[], limit: WorkLimit): PickledTensor {
  checkBits(args[6], limit);
  return rebuildTensor(args, limit);
}

/** torch writes element types that are newer than its storage classes so: float8 and unsigned integers. */
function rebuildTensorV3(args: readonly unknown[], limit: WorkLimit): PickledTensor {
  const [, , , , , , type, bits] = args;
  if (!(type instanceof TorchName) || type.kind !== 'type')
    throw new Error('its pickle has a tensor that is damaged');
  checkBits(bits, limit);
  return rebuildTensor(args, limit, type.dtype);
}

/** A tensor may be stored conjugated or negated: a dict of marks then says that its values are not those of the storage. */
function checkBits(bits: unknown, limit: WorkLimit): void {
  if (!(bits instanceof Map)) return;
  limit.spend(bits.size);
  if (Array.from(bits.values()).includes(true))
    throw new Error('its pickle has a tensor that is stored negated or conjugated; save it as a new tensor');
}

function rebuildTensor(
  [storage, offset, dims, strides]: readonly unknown[],
  limit: WorkLimit,
  stated?: StoredType,
): PickledTensor {
  if (!(storage instanceof PickledStorage) || !isSize(offset) || !isSizes(dims) || !isSizes(strides))
    throw new Error('its pickle has a tensor that is damaged');
  const dtype = stated ?? storage.dtype;
  if (dims.length !== strides.length || dims.length > MAX_RANK)
    throw new Error(`its pickle has a tensor of ${dims.length} dims and ${strides.length} strides`);
  limit.spend(dims.length);
  const count = elementCount(dims);
  const available = Math.floor(storage.sizeBytes / storedBytes(dtype, 1));
  const start = storage.first + offset;
  const last = dims.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, start);
  if (count > 0 && last >= available)
    throw new Error(`its pickle has a tensor that ends at element ${last} of a storage of ${available}`);
  if (!(count <= Math.max(available, MAX_EXPANDED)))
    throw new Error(`its pickle has a tensor of ${count} elements in a storage of ${available}`);
  return new PickledTensor(storage, dtype, { offset: start, dims: [...dims], strides: [...strides] });
}

function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(isSize);
}
