/** The images in a zip. */
import { promisify } from 'node:util';
import { crc32, inflateRaw } from 'node:zlib';
import type { Entry, ZipFile } from 'yauzl';
import { reasonOf } from '../../base/errors.js';
import type { SourceItem } from '../items/source-item.js';
import { itemOfArchive, MAX_ENTRY_BYTES, nameEntry, type ImageEntry } from './archive-entry.js';
import { asInvalidSource, invalidSource, unavailableImage } from '../items/source-errors.js';
import type { UnreadFiles } from '../items/unread-files.js';
import { SharedFile } from '../items/shared-file.js';

const inflate = promisify(inflateRaw);

const [STORED, DEFLATED] = [0, 8];
const LOCAL_HEADER = { bytes: 30, signature: 0x04034b50 };
const DIRECTORY_SIGNATURE = 0x02014b50;

/**
 * Lists the images in a zip, in the order of its directory, by extension. The folder `__MACOSX/` is left out. An image is read
 * and inflated later, when it is embedded, to no more than its stated size.
 *
 * @param prefix - Goes before the names of the entries.
 * @param unread - Counts the files that look like images and are not read.
 * @throws {@link TapirError} `SOURCE_INVALID` if the directory cannot be read. An entry that is encrypted, compressed by another
 * method than deflate, or longer than 1 GiB is an item with an error.
 */
export async function* listZip(
  path: string,
  prefix: string,
  unread: UnreadFiles,
): AsyncGenerator<SourceItem> {
  const file = new SharedFile(path);
  let zip: ZipFile | undefined;
  try {
    const { openPromise, getFileNameLowLevel } = await import('yauzl');
    // Without options yauzl refuses the whole archive for one unsafe name. Here a name is only a name. Sizes are checked below.
    zip = await openPromise(path, { autoClose: false, decodeStrings: false, validateEntrySizes: false });
    for await (const entry of zip.eachEntry()) {
      const { generalPurposeBitFlag, fileNameRaw, extraFields } = entry;
      const name = getFileNameLowLevel(generalPurposeBitFlag, fileNameRaw, extraFields, false);
      const named = name.startsWith('__MACOSX/') ? undefined : nameEntry(fileNameRaw, prefix, unread, name);
      if (named) yield itemOfEntry(file, entry, named);
    }
    await checkEnd(zip, file);
  } catch (error) {
    throw asInvalidSource(path, error);
  } finally {
    zip?.close();
  }
}

/** Checks that the directory ends where it says: programs without zip64 write the number of entries modulo 65 536. */
async function checkEnd(zip: ZipFile, file: SharedFile): Promise<void> {
  // The types of yauzl are wrong: this is a number.
  const next = await file.read(zip.readEntryCursor as unknown as number, 4);
  if (next.length === 4 && next.readUInt32LE(0) === DIRECTORY_SIGNATURE)
    throw invalidSource(file.path, `the zip has more entries than the ${zip.entryCount} that it declares`);
}

function itemOfEntry(file: SharedFile, entry: Entry, named: ImageEntry): SourceItem {
  const { uncompressedSize: sizeBytes, compressedSize, compressionMethod } = entry;
  const modified = entry.getLastModDate({ timezone: 'UTC' }).getTime();
  const stamp = { sizeBytes, modifiedMs: Number.isNaN(modified) ? null : modified, sha256: null };
  const reason = entry.isEncrypted()
    ? 'it is encrypted'
    : compressionMethod !== STORED && compressionMethod !== DEFLATED
      ? `it is compressed by method ${compressionMethod}; only deflate is supported`
      : compressedSize > MAX_ENTRY_BYTES
        ? `it has ${compressedSize} bytes, more than ${MAX_ENTRY_BYTES}`
        : undefined;
  const error =
    named.error ??
    (reason === undefined ? undefined : unavailableImage('IMAGE_UNREADABLE', named.path, reason));
  return itemOfArchive({ path: named.path, ...(error ? { error } : {}) }, stamp, async () => {
    try {
      return await readEntry(file, entry);
    } catch (cause) {
      throw unavailableImage('IMAGE_UNREADABLE', named.path, reasonOf(cause), cause);
    }
  });
}

async function readEntry(file: SharedFile, entry: Entry): Promise<Uint8Array> {
  const { relativeOffsetOfLocalHeader: at, compressedSize, uncompressedSize, compressionMethod } = entry;
  const packed = await file.hold(async () => {
    const header = await file.read(at, LOCAL_HEADER.bytes);
    if (header.length < LOCAL_HEADER.bytes || header.readUInt32LE(0) !== LOCAL_HEADER.signature)
      throw new Error(`there is no entry at byte ${at} of the zip`);
    const start = at + LOCAL_HEADER.bytes + header.readUInt16LE(26) + header.readUInt16LE(28);
    return file.read(start, compressedSize);
  });
  if (packed.length < compressedSize) throw new Error('it extends beyond the end of the zip');
  const bytes = compressionMethod === STORED ? packed : await inflateTo(packed, uncompressedSize);
  if (bytes.length !== uncompressedSize)
    throw new Error(`it has ${bytes.length} bytes instead of the ${uncompressedSize} that the zip declares`);
  if (crc32(bytes) !== entry.crc32) throw new Error('its checksum is wrong');
  return bytes;
}

/** Inflates at most the stated size, even if there is more. */
async function inflateTo(packed: Uint8Array, sizeBytes: number): Promise<Uint8Array> {
  try {
    return await inflate(packed, { maxOutputLength: Math.max(1, sizeBytes) });
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'ERR_BUFFER_TOO_LARGE') throw error;
    throw new Error(`it has more than the ${sizeBytes} bytes that the zip declares`, { cause: error });
  }
}
