/**
 * Reads what torch.save wrote before torch 1.6, and still writes when it is asked not to write a zip. One file holds five pickles, one
 * after the other: a magic number, a version, facts about the machine, the object, and the keys of its storages. Then come, for each key,
 * the number of elements (8 bytes, little-endian) and the elements (little-endian on every machine).
 */
import type { SharedFile } from '../../../base/files/shared-file.js';
import type { WorkLimit } from '../../../base/files/work-limit.js';
import { chooseStateDict } from './checkpoint.js';
import { PickleCutError, pickleLimit } from './pickle.js';
import type { StateContent } from '../state/state-dict.js';
import { readRange, type StateFile } from '../state/state-file.js';
import type { StateTensor } from '../state/state-tensor.js';
import { MAX_PICKLE_BYTES, readTorchPickle, type PickledStorages } from './torch-pickle.js';
import { openView } from './torch-tensor.js';

const MAGIC_NUMBER = 0x1950a86a20f9469cfc6cn;
const VERSION = 1001;

/** Bytes of the file that are read first. They hold the pickles of 500 tensors. */
const FIRST_READ = 2 ** 16;
const COUNT_BYTES = 8;

/** The pickles at the start of a file. */
interface Pickles {
  readonly value: unknown;
  readonly storages: PickledStorages;
  /** Keys of the storages in their order. */
  readonly keys: readonly unknown[];
  /** Where the storages start. */
  readonly end: number;
}

/** Reads which tensors such a file has, under a key of a checkpoint if one is given. Throws `STATE_INVALID`, `MODEL_CHANGED`. */
export async function readTorchLegacy(file: StateFile, key: string | undefined): Promise<StateContent> {
  return file.read(async (bytes) => {
    const pickles = await findPickles(bytes, file.sizeBytes);
    const { tensors, notes } = chooseStateDict(pickles.value, key);
    const places = await locateStorages(bytes, file.sizeBytes, pickles);
    const read = Array.from(tensors, ([name, tensor]): [string, StateTensor] => {
      const at = places.get(tensor.storage.key)!;
      return [
        name,
        openView(file, name, tensor, (open, start, length) => readRange(open, at + start, length)),
      ];
    });
    return { tensors: new Map(read), metadata: {}, notes };
  });
}

/** Reads more of the file until it holds all pickles: nothing says how long they are. */
async function findPickles(file: SharedFile, sizeBytes: number): Promise<Pickles> {
  const most = Math.min(sizeBytes, MAX_PICKLE_BYTES);
  const limit = pickleLimit();
  for (let length = Math.min(FIRST_READ, most); ; length = Math.min(length * 4, most)) {
    try {
      return readPickles(await file.read(0, length), limit);
    } catch (error) {
      if (!(error instanceof PickleCutError) || length === sizeBytes) throw error;
      if (length === most) throw new Error(`its pickles have more than ${most} bytes`, { cause: error });
    }
  }
}

function readPickles(bytes: Buffer, limit: WorkLimit): Pickles {
  const magic = readTorchPickle(bytes, 0, limit);
  if (magic.value !== MAGIC_NUMBER) throw new Error('it is a pickle that torch.save did not write');
  const version = readTorchPickle(bytes, magic.end, limit);
  if (version.value !== VERSION)
    throw new Error(`its version is not ${VERSION}, the only one that torch wrote`);
  const machine = readTorchPickle(bytes, version.end, limit);
  const { value, storages, end } = readTorchPickle(bytes, machine.end, limit);
  const keys = readTorchPickle(bytes, end, limit);
  if (!Array.isArray(keys.value)) throw new Error('its pickles list no storages');
  return { value, storages, keys: keys.value, end: keys.end };
}

/** Finds where the elements of each storage start. Every storage must be there, and nothing else. */
async function locateStorages(
  file: SharedFile,
  sizeBytes: number,
  { storages, keys, end }: Pickles,
): Promise<ReadonlyMap<string, number>> {
  const places = new Map<string, number>();
  let at = end;
  for (const key of keys) {
    const storage = typeof key === 'string' ? storages.get(key) : undefined;
    if (!storage || places.has(storage.key)) throw new Error('its list of storages is damaged');
    if (at + COUNT_BYTES + storage.sizeBytes > sizeBytes)
      throw new Error(`it ends before its storage ${storage.key} does`);
    const count = new DataView(await readRange(file, at, COUNT_BYTES)).getBigInt64(0, true);
    if (count !== BigInt(storage.elements))
      throw new Error(`its storage ${storage.key} has ${count} elements instead of ${storage.elements}`);
    places.set(storage.key, at + COUNT_BYTES);
    at += COUNT_BYTES + storage.sizeBytes;
  }
  for (const key of storages.keys()) if (!places.has(key)) throw new Error(`its storage ${key} is missing`);
  if (at < sizeBytes) throw new Error(`its last ${sizeBytes - at} bytes belong to no storage`);
  return places;
}
