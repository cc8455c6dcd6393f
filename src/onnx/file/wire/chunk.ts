/** Pieces of a file that is to be written: byte ranges to copy, and new bytes. */
import { encodeFieldHead, type Field, type WireReader } from './wire.js';

/** A range of a file other than the source: weights that move into the written file. */
export interface FileRange {
  readonly path: string;
  readonly start: number;
  readonly end: number;
}

/** A piece of the written file: a range of the source, a range of another file, or new bytes. */
export type Chunk = { readonly start: number; readonly end: number } | FileRange | Uint8Array;

/** The size of one chunk in bytes. */
export function chunkBytes(chunk: Chunk): number {
  return chunk instanceof Uint8Array ? chunk.byteLength : chunk.end - chunk.start;
}

/** The total size of chunks in bytes. */
export function sizeOf(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, chunk) => sum + chunkBytes(chunk), 0);
}

/** A length-delimited field: its head, then the given body. New bytes give new bytes. */
export function fieldChunks<Piece extends Chunk>(
  fieldNumber: number,
  body: readonly Piece[],
): (Piece | Uint8Array)[] {
  return [encodeFieldHead(fieldNumber, sizeOf(body)), ...body];
}

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
