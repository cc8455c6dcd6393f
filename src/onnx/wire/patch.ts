/** Changing single fields inside a message, at any depth, while everything around them is copied byte for byte. */
import { fieldChunks, type Chunk } from './chunk.js';
import type { Field, WireReader } from './wire.js';

/** What takes the place of a field (tag included); no chunks drop it. */
export interface Patch {
  readonly field: Field;
  readonly chunks: readonly Chunk[];
}

/**
 * The chunks of a field in whose body some fields are replaced. Enclosing messages get new lengths; all else is a range of
 * the source.
 */
export function patchField(reader: WireReader, field: Field, patches: readonly Patch[]): Chunk[] {
  const body: Chunk[] = [];
  reader.readBody(field, (inner) => {
    const exact = patches.find((patch) => patch.field.start === inner.start && patch.field.end === inner.end);
    const inside = patches.filter(
      ({ field: { start, end } }) => start >= inner.bodyStart && end <= inner.end,
    );
    if (exact) body.push(...exact.chunks);
    else if (inside.length > 0) body.push(...patchField(reader, inner, inside));
    else body.push({ start: inner.start, end: inner.end });
  });
  return fieldChunks(field.number, body);
}
