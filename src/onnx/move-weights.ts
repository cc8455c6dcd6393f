/** External weights in other places: inside the model file, in a new file, or under another path. */
import { relative, sep } from 'node:path';
import { fieldChunks, type Chunk } from './emit.js';
import { payloadRange, type ExternalFiles, type ExternalTensor } from './external-data.js';
import type { Patch } from './patch.js';
import { encodeEntry, TENSOR } from './schema.js';
import { encodeFieldHead, type Field, type WireReader } from './wire.js';

/** What takes the place of external tensors, by the field of graph or model in which they lie. */
export type MovedWeights = ReadonlyMap<Field, readonly Patch[]>;

/** Payloads start at a page, so that they can be mapped; small ones only as processors like it. */
const PAGE_BYTES = 4096;
const SMALL_ALIGN_BYTES = 64;

/** Weights inside the model file. */
export function inlineWeights(
  reader: WireReader,
  tensors: readonly ExternalTensor[],
  files: ExternalFiles,
): MovedWeights {
  return patchTensors(reader, tensors, (item) => {
    const range = payloadRange(item, files);
    return [encodeFieldHead(TENSOR.rawData, range.end - range.start), range];
  });
}

/** Weights in one new file beside the model, only what is kept; the second result is that file. */
export function repackWeights(
  reader: WireReader,
  tensors: readonly ExternalTensor[],
  files: ExternalFiles,
  location: string,
): { readonly weights: MovedWeights; readonly file: readonly Chunk[] } {
  const file: Chunk[] = [];
  let size = 0;
  // Tensors that share a range go on sharing it.
  const placed = new Map<string, number>();
  const weights = patchTensors(reader, tensors, (item) => {
    const range = payloadRange(item, files);
    const length = range.end - range.start;
    const key = JSON.stringify([range.path, range.start, range.end]);
    let offset = placed.get(key);
    if (offset === undefined) {
      const align = length < PAGE_BYTES ? SMALL_ALIGN_BYTES : PAGE_BYTES;
      offset = Math.ceil(size / align) * align;
      file.push(new Uint8Array(offset - size), range);
      size = offset + length;
      placed.set(key, offset);
    }
    return locationChunks({ location, offset: String(offset), length: String(length) });
  });
  return { weights, file };
}

/** Weights where they are, under paths relative to `files.folder`. */
export function relocateWeights(
  reader: WireReader,
  tensors: readonly ExternalTensor[],
  files: ExternalFiles,
): MovedWeights {
  return patchTensors(reader, tensors, ({ location, tensor }) => {
    const path = relative(files.folder, files.pathOf.get(location)!).split(sep).join('/');
    return locationChunks({ ...Object.fromEntries(tensor.external ?? []), location: path });
  });
}

function locationChunks(entries: Readonly<Record<string, string>>): Chunk[] {
  const body = Object.entries(entries).flatMap(([key, value]) =>
    fieldChunks(TENSOR.externalData, [encodeEntry(key, value)]),
  );
  return [...body, EXTERNAL_LOCATION];
}

/** `data_location: EXTERNAL` */
const EXTERNAL_LOCATION = Uint8Array.of((TENSOR.dataLocation << 3) | 0, 1);

/** Tensors whose statement of where they lie is replaced; all other fields stay. */
function patchTensors(
  reader: WireReader,
  tensors: readonly ExternalTensor[],
  place: (item: ExternalTensor) => readonly Chunk[],
): MovedWeights {
  const patches = new Map<Field, Patch[]>();
  for (const item of tensors) {
    const { field } = item.tensor;
    const body: Chunk[] = [];
    reader.readBody(field, (inner) => {
      const isPlace = inner.number === TENSOR.externalData || inner.number === TENSOR.dataLocation;
      if (!isPlace) body.push({ start: inner.start, end: inner.end });
    });
    const patch = { field, chunks: fieldChunks(field.number, [...body, ...place(item)]) };
    const others = patches.get(item.owner);
    if (others) others.push(patch);
    else patches.set(item.owner, [patch]);
  }
  return patches;
}
