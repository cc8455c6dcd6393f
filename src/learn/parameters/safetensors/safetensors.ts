/** Reads safetensors files: the header at once, tensors when they are asked for. */
import type { SharedFile } from '../../../base/files/shared-file.js';
import { reasonOf } from '../../../base/errors.js';
import { EntryError, parseHeader, parseObject, type SafetensorsHeader } from './safetensors-header.js';
import type { StateContent } from '../state/state-dict.js';
import { invalidState, readRange, StateFile } from '../state/state-file.js';
import { stateTensor, type StateTensor } from '../state/state-tensor.js';
import { basename, dirname, join } from 'node:path';
import { isPlainObject, show } from '../../../base/checks.js';

/** The length of the header: a 64-bit integer. */
const LENGTH_BYTES = 8;
/** The limit of the safetensors library. */
export const MAX_HEADER_BYTES = 100_000_000;

/** Reads the header of a safetensors file. Throws `STATE_INVALID`, `MODEL_CHANGED`. */
export async function readSafetensors(file: StateFile): Promise<StateContent> {
  const { header, dataAt } = await file.read(async (bytes) => locateHeader(bytes, file));
  const tensors = new Map<string, StateTensor>();
  for (const { key, dtype, dims, start, end } of header.entries) {
    const load = (): Promise<ArrayBuffer> =>
      file.read((bytes) => readRange(bytes, dataAt + start, end - start), key);
    tensors.set(key, stateTensor({ path: file.path, key, dtype, dims, load }));
  }
  return { tensors, metadata: header.metadata, notes: [] };
}

async function locateHeader(
  bytes: SharedFile,
  { path, sizeBytes }: StateFile,
): Promise<{ header: SafetensorsHeader; dataAt: number }> {
  if (sizeBytes < LENGTH_BYTES)
    throw new Error(`it has ${sizeBytes} bytes; a safetensors file has at least 8`);
  const length = new DataView(await readRange(bytes, 0, LENGTH_BYTES)).getBigUint64(0, true);
  if (length > BigInt(sizeBytes - LENGTH_BYTES))
    throw new Error(
      `it has ${sizeBytes} bytes, and its header should have ${length}: it is damaged or truncated`,
    );
  if (length > MAX_HEADER_BYTES)
    throw new Error(`its header has ${length} bytes; at most ${MAX_HEADER_BYTES} are read`);
  const dataAt = LENGTH_BYTES + Number(length);
  const text = new Uint8Array(await readRange(bytes, LENGTH_BYTES, Number(length)));
  try {
    return { header: parseHeader(text, sizeBytes - dataAt), dataAt };
  } catch (error) {
    const key = error instanceof EntryError ? error.key : undefined;
    throw invalidState(path, reasonOf(error), { key, cause: error });
  }
}

/** Reads the headers of all shards. Throws `STATE_INVALID` for the index or a shard; `MODEL_CHANGED`. */
export async function readShardedSafetensors(file: StateFile): Promise<StateContent> {
  const places = await file.read(async (bytes) => {
    if (file.sizeBytes > MAX_HEADER_BYTES)
      throw new Error(`it has ${file.sizeBytes} bytes; at most ${MAX_HEADER_BYTES} are read`);
    return readPlaces(new Uint8Array(await readRange(bytes, 0, file.sizeBytes)));
  });
  const shards = new Map<string, StateContent>();
  for (const name of new Set(places.values()))
    shards.set(name, await readSafetensors(await StateFile.open(join(dirname(file.path), name))));
  const tensors = new Map<string, StateTensor>();
  for (const [key, name] of places) {
    const tensor = shards.get(name)!.tensors.get(key);
    if (!tensor) throw invalidState(file.path, `${show(name)} does not hold it`, { key });
    tensors.set(key, tensor);
  }
  const listed = places.size;
  const held = Array.from(shards.values()).reduce((sum, shard) => sum + shard.tensors.size, 0);
  const notes =
    held > listed ? [`${held - listed} tensors of the shards are not in the index: left out`] : [];
  const [first] = shards.values();
  return { tensors, metadata: first?.metadata ?? {}, notes };
}

/** The file of each tensor, by key, in the order of the index. */
function readPlaces(bytes: Uint8Array): Map<string, string> {
  const { weight_map: map } = parseObject(bytes, 'it').fields;
  if (!isPlainObject(map))
    throw new Error('it has no "weight_map": it is not the index of a sharded safetensors file');
  const places = new Map<string, string>();
  for (const [key, name] of Object.entries(map)) {
    if (typeof name !== 'string' || !isPlainName(name))
      throw new Error(`it puts ${show(key)} into ${show(name)}, which is not a file beside it`);
    places.set(key, name);
  }
  return places;
}

/** Whether a name can only be that of a file in the same folder. */
function isPlainName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && basename(name) === name && !/[\\\0]/.test(name);
}
