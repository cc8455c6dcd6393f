/** Reads the zip files that torch.save has written since torch 1.6: `data.pkl` says which tensors there are, `data/KEY` holds storages. */
import { listZipEntries, locateZipEntry, readZipEntry, type ZipEntry } from '../../../base/files/zip-file.js';
import type { SharedFile } from '../../../base/files/shared-file.js';
import { reasonOf } from '../../../base/errors.js';
import { chooseStateDict } from './checkpoint.js';
import type { StateContent } from '../state/state-dict.js';
import { invalidState, readRange, type StateFile } from '../state/state-file.js';
import type { StateTensor } from '../state/state-tensor.js';
import { storedBytes } from '../state/stored-types.js';
import { MAX_PICKLE_BYTES, readTorchPickle, type PickledTensor } from './torch-pickle.js';
import { openView } from './torch-tensor.js';

const MAX_ENTRIES = 200_000;

/** Reads which tensors a zip of torch.save has, under a key of a checkpoint if one is given. Throws `STATE_INVALID`, `MODEL_CHANGED`. */
export async function readTorchZip(file: StateFile, key: string | undefined): Promise<StateContent> {
  return file.read(async (bytes) => {
    const entries = await listEntries(bytes, file.sizeBytes);
    const root = rootOf(entries);
    await checkByteOrder(bytes, entries.get(`${root}byteorder`));
    const pickle = entries.get(`${root}data.pkl`)!;
    if (pickle.sizeBytes > MAX_PICKLE_BYTES)
      throw new Error(`its data.pkl has ${pickle.sizeBytes} bytes; at most ${MAX_PICKLE_BYTES} are read`);
    const { value } = readTorchPickle(Buffer.from(await readStored(bytes, pickle)));
    const { tensors, notes } = chooseStateDict(value, key);
    // By the key of the storage, whose hash its text keeps: a file can have many tensors in a storage of a long name.
    const storages = new Map<string, ZipEntry>();
    for (const [name, entry] of entries)
      if (name.startsWith(`${root}data/`)) storages.set(name.slice(root.length + 'data/'.length), entry);
    const read = Array.from(tensors, ([name, tensor]): [string, StateTensor] => {
      const entry = findStorage(storages, tensor, file.path, name);
      return [name, openTensor(file, name, tensor, entry)];
    });
    return { tensors: new Map(read), metadata: {}, notes };
  });
}

async function listEntries(file: SharedFile, sizeBytes: number): Promise<Map<string, ZipEntry>> {
  const entries = new Map<string, ZipEntry>();
  try {
    for await (const entry of listZipEntries(file)) {
      if (entries.has(entry.name)) throw new Error(`it has ${JSON.stringify(entry.name)} twice`);
      if (entry.headerAt + entry.packedBytes > sizeBytes)
        throw new Error(`${JSON.stringify(entry.name)} extends beyond its end`);
      entries.set(entry.name, entry);
      if (entries.size > MAX_ENTRIES) throw new Error(`it has more than ${MAX_ENTRIES} entries`);
    }
  } catch (error) {
    throw new Error(`it is a damaged zip: ${reasonOf(error)}`, { cause: error });
  }
  return entries;
}

/** The folder in the zip that holds everything: `archive/`, or another name. */
function rootOf(entries: ReadonlyMap<string, ZipEntry>): string {
  const roots = Array.from(entries.keys()).flatMap((name) => /^([^/]*\/)data\.pkl$/.exec(name)?.[1] ?? []);
  if (roots.length !== 1)
    throw new Error(`it is a zip with ${roots.length} files data.pkl; what torch.save writes has one`);
  return roots[0]!;
}

async function checkByteOrder(file: SharedFile, entry: ZipEntry | undefined): Promise<void> {
  if (!entry) return; // torch before 2.1 did not write it.
  if (entry.sizeBytes > 16 || Buffer.from(await readStored(file, entry)).toString('latin1') !== 'little')
    throw new Error('it was written on a machine with big-endian numbers, or is damaged');
}

/** torch compresses nothing. Without compression no entry can be larger than the file. */
function readStored(file: SharedFile, entry: ZipEntry): Promise<Uint8Array> {
  checkStored(entry);
  return readZipEntry(file, entry);
}

function checkStored({ name, isStored, refusal, sizeBytes, packedBytes }: ZipEntry): void {
  if (refusal !== undefined) throw new Error(`${name}: ${refusal}`);
  if (!isStored)
    throw new Error(
      `${name} is compressed, and torch.save never does that; load it in torch and save it again`,
    );
  if (sizeBytes !== packedBytes)
    throw new Error(`${name} has two sizes, ${sizeBytes} and ${packedBytes} bytes`);
}

function findStorage(
  storages: ReadonlyMap<string, ZipEntry>,
  { storage }: PickledTensor,
  path: string,
  key: string,
): ZipEntry {
  try {
    const entry = storages.get(storage.key);
    if (!entry) throw new Error(`its storage data/${storage.key.slice(0, 100)} is missing`);
    const { name, sizeBytes } = entry;
    const needed = storage.sizeBytes;
    if (sizeBytes < needed || sizeBytes >= needed + storedBytes(storage.dtype, 1))
      throw new Error(`its storage ${name} has ${sizeBytes} bytes instead of ${needed}`);
    checkStored(entry);
    return entry;
  } catch (error) {
    throw invalidState(path, reasonOf(error), { key, cause: error });
  }
}

function openTensor(file: StateFile, key: string, tensor: PickledTensor, entry: ZipEntry): StateTensor {
  // The zip has a checksum of the whole storage; a part of it is read without the rest.
  const readSpan = async (bytes: SharedFile, start: number, length: number): Promise<ArrayBuffer> =>
    length === entry.sizeBytes
      ? ((await readStored(bytes, entry)).buffer as ArrayBuffer)
      : readRange(bytes, (await locateZipEntry(bytes, entry)) + start, length);
  return openView(file, key, tensor, readSpan);
}
