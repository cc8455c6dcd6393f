/** Metadata of a model (`metadata_props`), read when it is needed; the index does not keep it. */
import type { SourceChunk } from './wire/chunk-source.js';
import { scanEntry, scanKey } from './scan/scan-value.js';
import { MODEL } from './wire/schema.js';
import type { WireReader } from './wire/wire.js';
import { writeEntry } from './wire/write-model.js';

/** Reads some entries of a model's metadata. Of entries with one key, the last counts. Throws `MODEL_MALFORMED` for a value above a million bytes. */
export function readModelMetadata(reader: WireReader, keys: readonly string[]): Map<string, string> {
  const metadata = new Map<string, string>();
  reader.readMessage(0, reader.source.sizeBytes, (field) => {
    if (field.number !== MODEL.metadataProps) return;
    const key = scanKey(reader, field);
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
    if (field.number !== MODEL.metadataProps || !Object.hasOwn(entries, scanKey(reader, field)))
      chunks.push({ start: field.start, end: field.end });
  });
  for (const [key, value] of Object.entries(entries))
    chunks.push(...writeEntry(MODEL.metadataProps, key, value));
  return chunks;
}
