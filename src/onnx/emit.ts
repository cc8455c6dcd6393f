/** A plan → bytes: kept ranges of the source copied as they are, new messages in between. */
import { randomBytes } from 'node:crypto';
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { TapirError, reasonOf } from '../errors.js';
import { GRAPH, MODEL } from './schema.js';
import type { ScannedModel } from './scan.js';
import type { ByteSource } from './source.js';
import { encodeFieldHead, type Field } from './wire.js';

/** A piece of the written file: a range of the source, or new bytes. */
export type Chunk = { readonly start: number; readonly end: number } | Uint8Array;

/** What a rewrite changes: fields that go, and graph fields (tag included) that are added behind the kept ones. */
export interface Edit {
  readonly dropped: ReadonlySet<Field>;
  readonly added: readonly Chunk[];
}

const COPY_BYTES = 4 * 1024 * 1024;

function chunkBytes(chunk: Chunk): number {
  return chunk instanceof Uint8Array ? chunk.byteLength : chunk.end - chunk.start;
}

/** The size of chunks together. */
export function sizeOf(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, chunk) => sum + chunkBytes(chunk), 0);
}

/** The chunks of a graph field of another tag or length: a head, then the given body. */
export function fieldChunks(fieldNumber: number, body: readonly Chunk[]): Chunk[] {
  return [encodeFieldHead(fieldNumber, sizeOf(body)), ...body];
}

/**
 * Lays an edit over a model. A message of which nothing goes and to which nothing comes is one range, head and
 * all, so an edit that changes nothing gives the same bytes back.
 */
export function layOut(model: ScannedModel, edit: Edit): Chunk[] {
  const chunks: Chunk[] = [];
  const add = (chunk: Chunk): void => {
    const last = chunks.at(-1);
    if (!(chunk instanceof Uint8Array) && last && !(last instanceof Uint8Array) && last.end === chunk.start) {
      chunks[chunks.length - 1] = { start: last.start, end: chunk.end };
    } else if (chunkBytes(chunk) > 0) chunks.push(chunk);
  };
  const lastPart = model.graph.parts.at(-1);
  const partOf = new Map(model.graph.parts.map((part) => [part.field, part]));
  for (const field of model.fields) {
    if (edit.dropped.has(field)) continue;
    const part = field.number === MODEL.graph ? partOf.get(field) : undefined;
    const added = part !== undefined && part === lastPart ? edit.added : [];
    if (!part || (added.length === 0 && !part.fields.some((inner) => edit.dropped.has(inner)))) {
      add(field);
      continue;
    }
    const kept = part.fields.filter((inner) => !edit.dropped.has(inner));
    for (const chunk of fieldChunks(MODEL.graph, [...kept, ...added])) add(chunk);
  }
  return chunks;
}

/** The chunks of a graph output: the body of an existing ValueInfoProto, or a new one. */
export function outputChunks(body: readonly Chunk[]): Chunk[] {
  return fieldChunks(GRAPH.output, body);
}

/** The bytes of chunks in order; each piece is a view that the next one may overwrite. */
function* pieces(source: ByteSource, chunks: readonly Chunk[]): Generator<Uint8Array> {
  for (const chunk of chunks) {
    if (chunk instanceof Uint8Array) {
      yield chunk;
      continue;
    }
    for (let from = chunk.start; from < chunk.end; from += COPY_BYTES) {
      const wanted = Math.min(COPY_BYTES, chunk.end - from);
      const piece = source.read(from, wanted);
      if (piece.byteLength < wanted) {
        throw new TapirError('MODEL_CHANGED', `${source.label} became shorter while it was copied`, {
          details: { source: source.label },
        });
      }
      yield piece;
    }
  }
}

/** All chunks in one buffer. */
export function collectChunks(source: ByteSource, chunks: readonly Chunk[]): Uint8Array {
  const bytes = new Uint8Array(sizeOf(chunks));
  let at = 0;
  for (const piece of pieces(source, chunks)) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}

/**
 * Writes chunks to a file: under a temporary name beside it, then renamed, so that no partial file is left.
 *
 * @throws {@link TapirError} `OUTPUT_UNWRITABLE` with the system's reason.
 */
export async function writeChunks(source: ByteSource, chunks: readonly Chunk[], path: string): Promise<void> {
  const temporary = join(dirname(path), `.tapir-${process.pid}-${randomBytes(4).toString('hex')}.tmp`);
  try {
    // To rename over a device or a pipe would replace it.
    const there = await stat(path).catch(() => undefined);
    if (there && !there.isFile()) throw new Error('it is not a regular file');
    const file = await open(temporary, 'wx');
    try {
      for (const piece of pieces(source, chunks)) await writeAll(file, piece);
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    if (error instanceof TapirError) throw error;
    throw new TapirError('OUTPUT_UNWRITABLE', `cannot write "${path}": ${reasonOf(error)}`, {
      details: { path, reason: reasonOf(error) },
      cause: error,
    });
  }
}

/** A single write may take less than it was given (a nearly full disk). */
async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.byteLength) {
    written += (await file.write(bytes, written, bytes.byteLength - written)).bytesWritten;
  }
}
