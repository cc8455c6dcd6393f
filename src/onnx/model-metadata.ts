/** Metadata of a model (`metadata_props`), read when it is needed; the index does not keep it. */
import { scanEntry } from './scan-value.js';
import { ENTRY, MODEL } from './schema.js';
import type { WireReader } from './wire.js';

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
    let key = '';
    reader.readBody(field, (inner) => {
      if (inner.number === ENTRY.key) key = reader.readName(inner);
    });
    if (keys.includes(key)) metadata.set(key, scanEntry(reader, field).value);
  });
  return metadata;
}
