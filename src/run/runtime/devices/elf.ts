/** Reads from a shared library (ELF, 64 bit, little endian) which libraries it needs. */
import { closeSync, openSync, readSync } from 'node:fs';

/** Reads `length` bytes at an offset; undefined if the file is too short. */
type ReadAt = (offset: number, length: number) => DataView | undefined;

const HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const ENTRY_BYTES = 16;
const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const DT_NULL = 0;
const DT_NEEDED = 1;
const DT_STRTAB = 5;
/** A file that exceeds these limits is damaged. */
const MAX_DYNAMIC_BYTES = 1 << 20;
const MAX_NAME_BYTES = 1024;
const MAX_NAMES = 1024;

/**
 * The libraries that a library needs (DT_NEEDED), in order, without loading it. Only the necessary parts of the file are read.
 *
 * @returns None if the file is missing, damaged or of another format. Nothing is thrown.
 */
export function readNeeded(path: string): readonly string[] {
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    return parseLibrary(readerOf(file)) ?? [];
  } catch {
    return [];
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function readerOf(file: number): ReadAt {
  return (offset, length) => {
    if (offset > Number.MAX_SAFE_INTEGER - length) return undefined;
    const bytes = new Uint8Array(length);
    return readSync(file, bytes, 0, length, offset) === length ? new DataView(bytes.buffer) : undefined;
  };
}

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly bytes: number;
}

function parseLibrary(readAt: ReadAt): readonly string[] | undefined {
  const segments = readSegments(readAt);
  const dynamic = segments?.find(({ type }) => type === PT_DYNAMIC);
  if (!segments || !dynamic || dynamic.bytes > MAX_DYNAMIC_BYTES) return undefined;
  const view = readAt(dynamic.offset, dynamic.bytes);
  if (!view) return undefined;
  const needed: number[] = [];
  let table: number | undefined;
  for (let at = 0; at + ENTRY_BYTES <= dynamic.bytes; at += ENTRY_BYTES) {
    const tag = wordAt(view, at);
    const value = wordAt(view, at + 8);
    if (tag === DT_NULL) break;
    if (tag === DT_NEEDED) needed.push(value);
    if (tag === DT_STRTAB) table = value;
  }
  if (needed.length > MAX_NAMES || table === undefined) return undefined;
  const start = fileOffset(segments, table);
  if (start === undefined) return undefined;
  const names = needed.map((offset) => nameAt(readAt, start + offset));
  return names.every((name) => name !== undefined) ? names : undefined;
}

function readSegments(readAt: ReadAt): Segment[] | undefined {
  const header = readAt(0, HEADER_BYTES);
  // 0x7f "ELF", 64 bit, little endian.
  if (header?.getUint32(0) !== 0x7f454c46 || header.getUint8(4) !== 2 || header.getUint8(5) !== 1)
    return undefined;
  const start = wordAt(header, 32);
  const entryBytes = header.getUint16(54, true);
  const count = header.getUint16(56, true);
  if (entryBytes !== PROGRAM_HEADER_BYTES || count === 0) return undefined;
  const table = readAt(start, count * PROGRAM_HEADER_BYTES);
  if (!table) return undefined;
  return Array.from({ length: count }, (_, i) => {
    const at = i * PROGRAM_HEADER_BYTES;
    return {
      type: table.getUint32(at, true),
      offset: wordAt(table, at + 8),
      address: wordAt(table, at + 16),
      bytes: wordAt(table, at + 32),
    };
  });
}

/** Offset in the file of an address in memory. */
function fileOffset(segments: readonly Segment[], address: number): number | undefined {
  const home = segments.find(
    (one) => one.type === PT_LOAD && address >= one.address && address < one.address + one.bytes,
  );
  return home && home.offset + (address - home.address);
}

/** Numbers above 2^53 lose digits, which does no harm: they are outside of every file. */
function wordAt(view: DataView, at: number): number {
  return Number(view.getBigUint64(at, true));
}

/** The text up to the next zero byte, read byte by byte because names are short and may stand at the end of the file. */
function nameAt(readAt: ReadAt, offset: number): string | undefined {
  let name = '';
  for (let i = 0; i < MAX_NAME_BYTES; i++) {
    const byte = readAt(offset + i, 1)?.getUint8(0);
    if (byte === undefined) return undefined;
    if (byte === 0) return name === '' ? undefined : name;
    name += String.fromCharCode(byte);
  }
  return undefined;
}
