/** A plan → bytes: kept ranges of the source copied as they are, new messages in between. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { writeAtomically, type AtomicFile } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import { chunkBytes, fieldChunks, sizeOf, type Chunk } from './wire/chunk.js';
import { GRAPH, MODEL } from './wire/schema.js';
import type { ScannedModel } from './scan/scan.js';
import { type ByteSource, openFileSource } from './wire/source.js';
import type { Field } from './wire/wire.js';
import { createHash } from 'node:crypto';

/** What a rewrite changes; an edit that changes nothing gives the source's bytes back. */
interface Edit {
  readonly dropped: ReadonlySet<Field>;
  /** What stands in place of a field of the model or its graph, tags included. */
  readonly replaced?: ReadonlyMap<Field, readonly Chunk[]>;
  /** Graph fields in front of the first node that stays. */
  readonly front?: readonly Chunk[];
  /** Graph fields after the kept ones. */
  readonly added: readonly Chunk[];
  /** Fields of the model itself, at its end. */
  readonly addedToModel?: readonly Chunk[];
}

const COPY_BYTES = 4 * 1024 * 1024;

/**
 * Lays an edit over a model. A message of which nothing goes and to which nothing comes is one range, head and
 * all, so an edit that changes nothing gives the same bytes back.
 */
export function layOut(model: ScannedModel, edit: Edit): Chunk[] {
  const { dropped, replaced = new Map<Field, readonly Chunk[]>(), front = [] } = edit;
  const chunks: Chunk[] = [];
  const isSame = (field: Field): boolean => !dropped.has(field) && !replaced.has(field);
  const { parts } = model.graph;
  const inserts = front.length > 0 || edit.added.length > 0;
  // Where the front goes: the first node that stays, else the end of the last part.
  const firstNode = parts
    .flatMap((part) => part.fields)
    .find((field) => field.number === GRAPH.node && !dropped.has(field));
  const bodyOf = (part: (typeof parts)[number]): Chunk[] => {
    const body: Chunk[] = [];
    let position = part.field.bodyStart;
    for (const field of part.fields) {
      append(body, [{ start: position, end: field.start }]);
      if (field === firstNode) append(body, front);
      if (!dropped.has(field)) append(body, replaced.get(field) ?? [field]);
      position = field.end;
    }
    append(body, [{ start: position, end: part.field.end }]);
    if (part === parts.at(-1)) append(body, firstNode ? edit.added : [...front, ...edit.added]);
    return body;
  };
  const partOf = new Map(parts.map((part) => [part.field, part]));
  let position = 0;
  for (const field of model.fields) {
    append(chunks, [{ start: position, end: field.start }]);
    position = field.end;
    const part = field.number === MODEL.graph ? partOf.get(field) : undefined;
    const isChanged = part && (inserts || !part.fields.every(isSame));
    if (isChanged) append(chunks, fieldChunks(MODEL.graph, bodyOf(part)));
    else if (!dropped.has(field)) append(chunks, replaced.get(field) ?? [field]);
  }
  append(chunks, [{ start: position, end: model.sizeBytes }, ...(edit.addedToModel ?? [])]);
  return chunks;
}

/** Adds chunks at the end; ranges that meet become one. */
function append(chunks: Chunk[], more: readonly Chunk[]): void {
  for (const chunk of more) {
    const last = chunks.at(-1);
    if (isSourceRange(chunk) && last && isSourceRange(last) && last.end === chunk.start) {
      chunks[chunks.length - 1] = { start: last.start, end: chunk.end };
    } else if (chunkBytes(chunk) > 0) chunks.push(chunk);
  }
}

function isSourceRange(chunk: Chunk): chunk is { readonly start: number; readonly end: number } {
  return !(chunk instanceof Uint8Array) && !('path' in chunk);
}

/** The bytes of chunks in order. Each piece is a view that the next one may overwrite; `targetOf` gives pieces of files a place to stay. */
function* pieces(
  source: ByteSource,
  chunks: readonly Chunk[],
  targetOf?: (length: number) => Uint8Array,
): Generator<Uint8Array> {
  for (const chunk of chunks) {
    if (chunk instanceof Uint8Array) yield chunk;
    else if ('path' in chunk) {
      const file = openFileSource(chunk.path);
      try {
        yield* slices(file, chunk, targetOf);
      } finally {
        file.close();
      }
    } else yield* slices(source, chunk, targetOf);
  }
}

function* slices(
  source: ByteSource,
  { start, end }: { readonly start: number; readonly end: number },
  targetOf: ((length: number) => Uint8Array) | undefined,
): Generator<Uint8Array> {
  for (let from = start; from < end; from += COPY_BYTES) {
    const wanted = Math.min(COPY_BYTES, end - from);
    const piece = source.read(from, wanted, targetOf?.(wanted));
    if (piece.byteLength < wanted) {
      throw new TapirError('MODEL_CHANGED', `${source.label} became shorter while it was copied`, {
        details: { source: source.label },
      });
    }
    yield piece;
  }
}

/** How many sessions wait for chunks to be collected: what can wait gives way to them. */
let collecting = 0;

/** All chunks in one buffer; the event loop gets a turn after each piece. */
export async function collectChunks(source: ByteSource, chunks: readonly Chunk[]): Promise<Uint8Array> {
  const bytes = new Uint8Array(sizeOf(chunks));
  let at = 0;
  collecting++;
  try {
    for (const piece of pieces(source, chunks, (length) => bytes.subarray(at, at + length))) {
      if (piece.buffer !== bytes.buffer) bytes.set(piece, at);
      at += piece.byteLength;
      if (piece.byteLength === COPY_BYTES) await nextTurn();
    }
  } finally {
    collecting--;
  }
  return bytes;
}

/** Writes chunks to a file: under a temporary name beside it, then renamed. Throws `OUTPUT_UNWRITABLE` with the system's reason. */
export async function writeChunks(source: ByteSource, chunks: readonly Chunk[], path: string): Promise<void> {
  await writeAtomically(path, (file) => appendChunks(file, source, chunks));
}

/** Appends chunks to a file that is being written. */
export async function appendChunks(
  file: AtomicFile,
  source: ByteSource,
  chunks: readonly Chunk[],
): Promise<void> {
  for (const piece of pieces(source, chunks)) await file.append(piece);
}

const SLICE_BYTES = 1024 * 1024;

/** Hashes a source in slices, giving the event loop a turn between them. */
export async function digestSource(source: ByteSource, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for (let offset = 0; offset < source.sizeBytes; offset += SLICE_BYTES) {
    signal?.throwIfAborted();
    while (collecting > 0) await nextTurn();
    hash.update(source.read(offset, Math.min(SLICE_BYTES, source.sizeBytes - offset)));
    await nextTurn();
  }
  return hash.digest('hex');
}
