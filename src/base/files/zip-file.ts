/** Reads zip files: lists the entries of the directory, and reads the content of an entry from its place in the file. */
import { Readable, pipeline } from 'node:stream';
import { promisify } from 'node:util';
import { crc32, createInflateRaw, inflateRaw } from 'node:zlib';
import type { Entry, ZipFile } from 'yauzl';
import type { SharedFile } from './shared-file.js';

const inflate = promisify(inflateRaw);

/** The two supported compression methods. */
const [STORED, DEFLATED] = [0, 8];
const LOCAL_HEADER = { bytes: 30, signature: 0x04034b50 };
const DIRECTORY_SIGNATURE = 0x02014b50;
/** The file type in the mode of Unix, which the directory may state. */
const MODE = { type: 0o170000, file: 0o100000, folder: 0o040000 };
const CHUNK_BYTES = 1 << 20;
/** Bytes of the directory that are read at once: a thousand entries. */
const DIRECTORY_BYTES = 1 << 16;

/** An entry as the directory of the zip describes it. The directory may lie: reading checks size and checksum. */
export interface ZipEntry {
  /** Its name as text. It is only a name: it can be `../a` or an absolute path. */
  readonly name: string;
  readonly rawName: Uint8Array;
  readonly sizeBytes: number;
  /** Bytes in the zip. */
  readonly packedBytes: number;
  readonly isStored: boolean;
  /** Whether the directory says that it is a link, a device or a pipe. */
  readonly isSpecial: boolean;
  /** Whole milliseconds since 1970; null if unknown. */
  readonly modifiedMs: number | null;
  /** Why it cannot be read; undefined if it can. */
  readonly refusal: string | undefined;
  readonly crc32: number;
  /** Position of its local header. */
  readonly headerAt: number;
}

/** yauzl shows control characters of code page 437 as the pictures that it has for them, and a name with a tab would be another one. */
function withControls(name: string, raw: Uint8Array): string {
  if (name.length !== raw.length) return name;
  return Array.from(raw, (byte, at) => (byte < 0x20 ? String.fromCharCode(byte) : name[at])).join('');
}

/** Lists the entries of a zip, folders included, in the order of its directory. Throws an Error if that is damaged, or has more than it declares. */
export async function* listZipEntries(file: SharedFile): AsyncGenerator<ZipEntry> {
  const yauzl = await import('yauzl');
  const { fromRandomAccessReaderPromise, getFileNameLowLevel } = yauzl;
  // Without options yauzl refuses the whole archive for one unsafe name. Here a name is only a name. Sizes are checked below.
  const options = { autoClose: false, decodeStrings: false, validateEntrySizes: false };
  const { size } = await (await file.acquire()).stat();
  try {
    const reader = new (class extends yauzl.RandomAccessReader {
      override read = chunkReader(file);
    })();
    const zip = await fromRandomAccessReaderPromise(reader, size, options);
    for await (const entry of zip.eachEntry()) {
      const { generalPurposeBitFlag, fileNameRaw, extraFields } = entry;
      const name = getFileNameLowLevel(generalPurposeBitFlag, fileNameRaw, extraFields, false);
      yield describe(entry, withControls(name, fileNameRaw));
    }
    await checkEnd(zip, file);
  } finally {
    await file.release();
  }
}

type ReadRange = (
  buffer: Buffer,
  offset: number,
  length: number,
  position: number,
  callback: (error: Error | null, bytesRead?: number) => void,
) => void;

/** Answers yauzl, which asks for two small ranges per entry, from chunks of the file. */
function chunkReader(file: SharedFile): ReadRange {
  let chunk = Buffer.alloc(0);
  let start = 0;
  return (buffer, offset, length, position, callback) => {
    const answer = (): void =>
      callback(null, chunk.copy(buffer, offset, position - start, position - start + length));
    if (position >= start && position + length <= start + chunk.length) return answer();
    start = position;
    file.read(position, Math.max(length, DIRECTORY_BYTES)).then((bytes) => {
      chunk = bytes;
      answer();
    }, callback);
  };
}

function describe(entry: Entry, name: string): ZipEntry {
  const { compressionMethod } = entry;
  const type = (entry.externalFileAttributes >>> 16) & MODE.type;
  const modified = entry.getLastModDate({ timezone: 'UTC' }).getTime();
  return {
    name,
    rawName: entry.fileNameRaw,
    sizeBytes: entry.uncompressedSize,
    packedBytes: entry.compressedSize,
    isStored: compressionMethod === STORED,
    isSpecial: ![0, MODE.file, MODE.folder].includes(type),
    modifiedMs: Number.isNaN(modified) ? null : modified,
    refusal: entry.isEncrypted()
      ? 'it is encrypted'
      : compressionMethod !== STORED && compressionMethod !== DEFLATED
        ? `it is compressed by method ${compressionMethod}; only deflate is supported`
        : undefined,
    crc32: entry.crc32,
    headerAt: entry.relativeOffsetOfLocalHeader,
  };
}

/** What may stand behind the directory: its signature, and the records of its end. */
const AFTER_DIRECTORY: ReadonlySet<number | undefined> = new Set([0x05054b50, 0x06054b50, 0x06064b50]);

/** Checks that the directory ends where its entries do: programs without zip64 write the number of entries modulo 65 536. */
async function checkEnd(zip: ZipFile, file: SharedFile): Promise<void> {
  // The types of yauzl are wrong: this is a number.
  const next = await file.read(zip.readEntryCursor as unknown as number, 4);
  const found = next.length === 4 ? next.readUInt32LE(0) : undefined;
  if (found === DIRECTORY_SIGNATURE)
    throw new Error(`the zip has more entries than the ${zip.entryCount} that it declares`);
  if (!AFTER_DIRECTORY.has(found))
    throw new Error(
      `the directory of the zip is damaged: nothing ends it behind its ${zip.entryCount} entries`,
    );
}

/**
 * Returns the position of an entry's first byte in the zip. The bytes of a stored entry are there unchanged. Throws an Error if no entry is
 * there, or one of another name.
 */
export async function locateZipEntry(
  file: SharedFile,
  { headerAt, name, rawName }: ZipEntry,
): Promise<number> {
  const header = await file.read(headerAt, LOCAL_HEADER.bytes + rawName.length);
  if (header.length < LOCAL_HEADER.bytes || header.readUInt32LE(0) !== LOCAL_HEADER.signature)
    throw new Error(`there is no entry at byte ${headerAt} of the zip`);
  if (header.readUInt16LE(26) !== rawName.length || !header.subarray(LOCAL_HEADER.bytes).equals(rawName))
    throw new Error(`the directory of the zip calls an entry "${name}", and the entry has another name`);
  return headerAt + LOCAL_HEADER.bytes + header.readUInt16LE(26) + header.readUInt16LE(28);
}

/** Reads an entry into memory: no more bytes than the directory states. Throws an Error for damage, and for another size or checksum than stated. */
export async function readZipEntry(file: SharedFile, entry: ZipEntry): Promise<Uint8Array> {
  if (entry.refusal !== undefined) throw new Error(entry.refusal);
  const packed = await file.hold(async () => file.read(await locateZipEntry(file, entry), entry.packedBytes));
  if (packed.length < entry.packedBytes) throw truncated();
  const bytes = entry.isStored ? packed : await inflateTo(packed, entry.sizeBytes);
  checkContent(entry, bytes.length, crc32(bytes));
  return bytes;
}

/** Reads a large entry in chunks. Throws as {@link readZipEntry}; for a wrong checksum only after the last chunk. */
export async function* streamZipEntry(file: SharedFile, entry: ZipEntry): AsyncGenerator<Uint8Array> {
  if (entry.refusal !== undefined) throw new Error(entry.refusal);
  const packed = readPacked(file, entry);
  let size = 0;
  let sum = 0;
  for await (const chunk of entry.isStored ? packed : inflateChunks(packed)) {
    size += chunk.length;
    if (size > entry.sizeBytes) throw tooLong(entry.sizeBytes);
    sum = crc32(chunk, sum);
    yield chunk;
  }
  checkContent(entry, size, sum);
}

async function* readPacked(file: SharedFile, entry: ZipEntry): AsyncGenerator<Uint8Array> {
  await file.acquire();
  try {
    const start = await locateZipEntry(file, entry);
    for (let done = 0; done < entry.packedBytes; done += CHUNK_BYTES) {
      const length = Math.min(CHUNK_BYTES, entry.packedBytes - done);
      const chunk = await file.read(start + done, length);
      if (chunk.length < length) throw truncated();
      yield chunk;
    }
  } finally {
    await file.release();
  }
}

function inflateChunks(packed: AsyncIterable<Uint8Array>): AsyncIterable<Buffer> {
  // An error of either stream ends the other, and reaches the reader.
  return pipeline(Readable.from(packed), createInflateRaw({ chunkSize: CHUNK_BYTES }), () => undefined);
}

/** Inflates at most the stated size, even if there is more. */
async function inflateTo(packed: Uint8Array, sizeBytes: number): Promise<Uint8Array> {
  try {
    return await inflate(packed, { maxOutputLength: Math.max(1, sizeBytes) });
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'ERR_BUFFER_TOO_LARGE') throw error;
    throw tooLong(sizeBytes, error);
  }
}

function checkContent(entry: ZipEntry, sizeBytes: number, sum: number): void {
  if (sizeBytes !== entry.sizeBytes)
    throw new Error(`it has ${sizeBytes} bytes instead of the ${entry.sizeBytes} that the zip declares`);
  if (sum !== entry.crc32) throw new Error('its checksum is wrong');
}

function truncated(): Error {
  return new Error('it extends beyond the end of the zip');
}

function tooLong(sizeBytes: number, cause?: unknown): Error {
  return new Error(`it has more than the ${sizeBytes} bytes that the zip declares`, { cause });
}
