/** Reads safetensors files: the header at once, tensors when they are asked for. */
import type { SharedFile } from '../../base/files/shared-file.js';
import { reasonOf } from '../../base/errors.js';
import { EntryError, parseHeader, type SafetensorsHeader } from './safetensors-header.js';
import type { StateContent } from '../state/state-dict.js';
import { invalidState, readRange, type StateFile } from '../state/state-file.js';
import { stateTensor, type StateTensor } from '../state/state-tensor.js';

/** The length of the header: a 64-bit integer. */
const LENGTH_BYTES = 8;
/** The limit of the safetensors library. */
export const MAX_HEADER_BYTES = 100_000_000;

/**
 * Reads the header of a safetensors file.
 *
 * @throws {@link TapirError} `STATE_INVALID`, `MODEL_CHANGED`.
 */
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
