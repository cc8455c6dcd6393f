/** Reads safetensors files that are split into shards: a JSON file beside them (`model.safetensors.index.json`) lists which holds what. */
import { basename, dirname, join } from 'node:path';
import { show } from '../../base/checks.js';
import { parseObject } from './safetensors-header.js';
import { MAX_HEADER_BYTES, readSafetensors } from './safetensors.js';
import type { StateContent } from '../state/state-dict.js';
import { StateFile, invalidState, readRange } from '../state/state-file.js';
import type { StateTensor } from '../state/state-tensor.js';

/**
 * Reads the headers of all shards.
 *
 * @throws {@link TapirError} `STATE_INVALID` for the index or a shard; `MODEL_CHANGED`.
 */
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
  if (map === null || typeof map !== 'object' || Array.isArray(map))
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
