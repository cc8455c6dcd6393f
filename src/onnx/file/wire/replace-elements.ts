/** Other elements for a tensor of a file. All its other fields stay as they are. */
import { fieldChunks, type Chunk } from './chunk.js';
import { TENSOR } from './schema.js';
import { encodeFieldHead, encodeIntField, type Field, type WireReader } from './wire.js';

/** Fields of a tensor that hold its elements, or say where they are. */
const PAYLOADS: ReadonlySet<number> = new Set([
  TENSOR.rawData,
  TENSOR.floatData,
  TENSOR.doubleData,
  TENSOR.int32Data,
  TENSOR.int64Data,
  TENSOR.uint64Data,
  TENSOR.externalData,
  TENSOR.dataLocation,
]);

/** A tensor with other elements, little-endian in row-major order, where its first payload field was, and of another type if one is given. */
export function replaceElements(
  reader: WireReader,
  field: Field,
  bytes: Uint8Array,
  elemType?: number,
): Chunk[] {
  const body: Chunk[] = [];
  let isPlaced = false;
  const payload = [encodeFieldHead(TENSOR.rawData, bytes.byteLength), bytes];
  reader.readBody(field, (inner) => {
    if (elemType !== undefined && inner.number === TENSOR.dataType)
      body.push(encodeIntField(TENSOR.dataType, elemType));
    else if (!PAYLOADS.has(inner.number)) body.push({ start: inner.start, end: inner.end });
    else if (!isPlaced) {
      body.push(...payload);
      isPlaced = true;
    }
  });
  if (!isPlaced) body.push(...payload);
  return fieldChunks(field.number, body);
}
