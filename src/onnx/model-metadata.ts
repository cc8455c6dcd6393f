/** Metadata of a model (`metadata_props`), read when it is needed; the index does not keep it. */
import { fieldChunks } from './wire/chunk.js';
import type { SourceChunk } from './wire/chunk-source.js';
import { scanEntry } from './scan/scan-value.js';
import { ENTRY, MODEL } from './wire/schema.js';
import type { Field, WireReader } from './wire/wire.js';
import { writeName } from './wire/write-model.js';

/**
 * Reads some entries of a model's metadata. Of entries with one key, the last counts, as in ONNX Runtime.
 *
 * @throws {@link TapirError} `MODEL_MALFORMED` for a value of more than a million bytes.
 */
export function readModelMetadata(reader: WireReader, keys: readonly string[]): Map<string, string> {
  const metadata = new Map<string, string>();
  reader.readMessage(0, reader.source.sizeBytes, (field) => {
    if (field.number !== MODEL.metadataProps) return;
    // The values of other entries may be of any length, and are not decoded.
    const key = readKey(reader, field);
    if (keys.includes(key)) metadata.set(key, scanEntry(reader, field).value);
  });
  return metadata;
}

/** A model with other values for some entries of its metadata: its pieces. Entries of these keys stand once, at the end. */
export function replaceMetadata(
  reader: WireReader,
  entries: Readonly<Record<string, string>>,
): SourceChunk[] {
  const chunks: SourceChunk[] = [];
  reader.readMessage(0, reader.source.sizeBytes, (field) => {
    if (field.number !== MODEL.metadataProps || !Object.hasOwn(entries, readKey(reader, field)))
      chunks.push({ start: field.start, end: field.end });
  });
  for (const [key, value] of Object.entries(entries))
    chunks.push(
      ...fieldChunks(MODEL.metadataProps, [writeName(ENTRY.key, key), writeName(ENTRY.value, value)]),
    );
  return chunks;
}

function readKey(reader: WireReader, field: Field): string {
  let key = '';
  reader.readBody(field, (inner) => {
    if (inner.number === ENTRY.key) key = reader.readName(inner);
  });
  return key;
}
