/** Weights in other places: inside the model file, in a new file, under another path, or read from where they lie. */
import { relative, sep } from 'node:path';
import { type Chunk, fieldChunks, type Patch } from './wire/chunk.js';
import type { ExternalFiles, ExternalTensor } from './external-data.js';
import type { ScannedTensor } from './scan/scan-value.js';
import { payloadRange } from './tensor-payload.js';
import { TENSOR } from './wire/schema.js';
import { encodeFieldHead, type Field, type WireReader } from './wire/wire.js';
import { writeEntry } from './wire/write-model.js';

/** What takes the place of tensors, by the field of graph or model in which they lie. */
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

/**
 * Declares in-file weights as external data of the same file, so that sessions map them.
 *
 * @param initializers - Tensors in the source with the bytes that they must have; one that does not lie there in a piece stays.
 * @param location - The source's own file, as the weights' place.
 * @param digits - The least digits of an offset, with zeros in front.
 */
export function pointAtWeights(
  reader: WireReader,
  initializers: ReadonlyMap<ScannedTensor, number>,
  location: string,
  digits = 1,
): MovedWeights {
  const offsets = new Map<ScannedTensor, number>();
  for (const [tensor, length] of initializers) {
    const payloads: Field[] = [];
    reader.readBody(tensor.field, (inner) => {
      if (!HEAD_FIELDS.has(inner.number)) payloads.push(inner);
    });
    const [payload, ...others] = payloads;
    const isWhole = payload?.number === TENSOR.rawData && payload.end - payload.bodyStart === length;
    if (isWhole && others.length === 0) offsets.set(tensor, payload.bodyStart);
  }
  const items = [...offsets.keys()].map((tensor) => ({ tensor, owner: tensor.field }));
  return patchTensors(reader, items, ({ tensor }) =>
    locationChunks({
      location,
      offset: String(offsets.get(tensor)!).padStart(digits, '0'),
      length: String(initializers.get(tensor)!),
    }),
  );
}

function locationChunks(entries: Readonly<Record<string, string>>): Chunk[] {
  const body = Object.entries(entries).flatMap(([key, value]) => writeEntry(TENSOR.externalData, key, value));
  return [...body, EXTERNAL_LOCATION];
}

/** Fields with the values of a tensor that has them in one piece, or elsewhere. */
const PLACES: ReadonlySet<number> = new Set([TENSOR.rawData, TENSOR.externalData, TENSOR.dataLocation]);

/** `data_location: EXTERNAL` */
const EXTERNAL_LOCATION = Uint8Array.of((TENSOR.dataLocation << 3) | 0, 1);

/** The fields of a tensor that say what it is; all others hold its values, or say where they lie. */
const HEAD_FIELDS: ReadonlySet<number> = new Set([
  TENSOR.dims,
  TENSOR.dataType,
  TENSOR.name,
  TENSOR.docString,
  TENSOR.metadataProps,
]);

/** Tensors whose values, or what says where they lie, are replaced; all other fields stay. */
function patchTensors<Item extends Pick<ExternalTensor, 'tensor' | 'owner'>>(
  reader: WireReader,
  tensors: readonly Item[],
  place: (item: Item) => readonly Chunk[],
): MovedWeights {
  const patches = new Map<Field, Patch[]>();
  for (const item of tensors) {
    const { field } = item.tensor;
    const body: Chunk[] = [];
    reader.readBody(field, (inner) => {
      if (!PLACES.has(inner.number)) body.push({ start: inner.start, end: inner.end });
    });
    const patch = { field, chunks: fieldChunks(field.number, [...body, ...place(item)]) };
    const others = patches.get(item.owner);
    if (others) others.push(patch);
    else patches.set(item.owner, [patch]);
  }
  return patches;
}
