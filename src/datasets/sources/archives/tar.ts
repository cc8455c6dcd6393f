/** The images in a tar, plain or gzipped. */
import { createReadStream } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { reasonOf } from '../../../base/errors.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { ByteReader } from '../items/byte-reader.js';
import { itemOfArchive, MAX_ENTRY_BYTES, nameEntry, type ImageEntry } from './archive-entry.js';
import { unavailableImage } from '../../../photos/images/file/image-errors.js';
import { asInvalidSource, SourceFault } from '../items/source-errors.js';
import { UnreadFiles } from '../items/unread-files.js';
import { SharedFile } from '../../../base/files/shared-file.js';
import { TarFiles, type TarPlace } from './tar-files.js';
import { readTarEntries, truncatedTar, type TarBytes, type TarEntry } from './tar-entries.js';

/** The most bytes of an entry in a compressed tar, image or not: it must be decompressed to reach the next entry. */
const MAX_SKIPPED_BYTES = 64 * 1024 ** 3;
const EMPTY = new Uint8Array();

/**
 * Lists the images in a tar, in its order, by extension. Two entries of one name are two inputs.
 *
 * Listing a plain tar reads only the headers; an image is read later, when it is embedded. A gzipped tar (recognised by its
 * first bytes) is read once from front to back, and its items hold their bytes.
 *
 * A hard link in a plain tar is the image of the file that it names. Other links are left out and counted.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` where the tar is damaged or ends too early; earlier items come first.
 */
export async function* listTar(
  path: string,
  prefix: string,
  unread: UnreadFiles,
): AsyncGenerator<SourceItem> {
  const file = new SharedFile(path);
  try {
    const magic = await file.read(0, 2);
    const isGzipped = magic[0] === 0x1f && magic[1] === 0x8b;
    yield* isGzipped ? listGzipped(path, prefix, unread) : listPlain(file, prefix, unread);
  } catch (error) {
    throw asInvalidSource(path, error);
  }
}

async function* listPlain(file: SharedFile, prefix: string, unread: UnreadFiles): AsyncGenerator<SourceItem> {
  // Open while headers are read. Items that are read later open it again.
  const handle = await file.acquire();
  try {
    const { size } = await handle.stat();
    /** Those before the current entry, once there is a link to one. */
    let files: TarFiles | undefined;
    for await (const entry of readTarEntries(bytesOf(file, size))) {
      if (isLeftOut(entry, unread, true)) continue;
      const named = nameEntry(entry.name, prefix, unread);
      if (named && entry.link) {
        files ??= await readFiles(bytesOf(file, size), entry.position);
        yield itemOfLink(file, entry, named, files.find(entry.link.target));
      }
      files?.add(entry);
      if (!named || entry.link) continue;
      if (entry.position + entry.sizeBytes > size) throw truncatedTar(size);
      yield itemOfArchive(named, stampOf(entry), async () => readEntry(file, entry, named.path));
    }
  } finally {
    await file.release();
  }
}

/** Whether an entry is a link that is not followed. Counts it if it is called like an image. */
function isLeftOut({ name, link }: TarEntry, unread: UnreadFiles, follows: boolean): boolean {
  if (!link || (link.kind === 'hard' && follows)) return false;
  if (nameEntry(name, '', new UnreadFiles())) unread.addLink(link.kind);
  return true;
}

/** Reads where the files before a position lie. */
async function readFiles(bytes: TarBytes, end: number): Promise<TarFiles> {
  const files = new TarFiles();
  for await (const entry of readTarEntries(bytes)) {
    if (entry.position >= end) break;
    files.add(entry);
  }
  return files;
}

/** @param target - The file that the link names; undefined if none comes before it. */
function itemOfLink(
  file: SharedFile,
  { link, modifiedMs }: TarEntry,
  named: ImageEntry,
  target: TarPlace | undefined,
): SourceItem {
  const { path } = named;
  if (target)
    return itemOfArchive(named, stampOf({ ...target, modifiedMs }), async () =>
      readEntry(file, target, path),
    );
  const name = Buffer.from(link!.target).toString('utf8');
  const reason = `it is a hard link to "${name}", which the tar does not hold before it`;
  return { path, image: EMPTY, error: unavailableImage('IMAGE_NOT_FOUND', path, reason) };
}

/** Reads the bytes of an entry. Throws `IMAGE_NOT_FOUND`. */
async function readEntry(file: SharedFile, entry: TarPlace, path: string): Promise<Uint8Array> {
  const bytes = await file.read(entry.position, entry.sizeBytes).catch((cause: unknown) => {
    throw unavailableImage('IMAGE_NOT_FOUND', path, reasonOf(cause), { cause });
  });
  if (bytes.length === entry.sizeBytes) return bytes;
  throw unavailableImage('IMAGE_NOT_FOUND', path, 'the tar was truncated while it was read');
}

/**
 * The images of a tar that is read once, from front to back: a pipe, or the answer of a server; plain or gzipped. Its items hold their bytes.
 *
 * @param name - Of the stream, for messages.
 */
export async function* listTarStream(
  stream: AsyncIterable<Uint8Array>,
  name: string,
  prefix: string,
  unread: UnreadFiles,
): AsyncGenerator<SourceItem> {
  const reader = new ByteReader(stream);
  try {
    const magic = await reader.peek(2);
    const isGzipped = magic[0] === 0x1f && magic[1] === 0x8b;
    const tar = isGzipped
      ? pipeline(Readable.from(reader.rest()), createGunzip(), () => undefined)
      : undefined;
    yield* listOnce(tar ? new ByteReader(tar) : reader, prefix, unread);
  } catch (error) {
    throw asInvalidSource(name, error);
  } finally {
    await reader.close();
  }
}

async function* listGzipped(path: string, prefix: string, unread: UnreadFiles): AsyncGenerator<SourceItem> {
  // The loop in listOnce throws what fails in either stream.
  const tar = pipeline(createReadStream(path), createGunzip(), () => undefined);
  yield* listOnce(new ByteReader(tar), prefix, unread);
}

async function* listOnce(bytes: ByteReader, prefix: string, unread: UnreadFiles): AsyncGenerator<SourceItem> {
  try {
    for await (const entry of readTarEntries(bytes)) {
      if (isLeftOut(entry, unread, false)) continue;
      const { sizeBytes } = entry;
      if (sizeBytes > MAX_SKIPPED_BYTES)
        throw new SourceFault(`the file at byte ${entry.position} of the tar has ${sizeBytes} bytes`);
      const named = nameEntry(entry.name, prefix, unread);
      if (!named) continue;
      const isRead = named.refusal === undefined && sizeBytes <= MAX_ENTRY_BYTES;
      const image = isRead ? await bytes.read(sizeBytes) : EMPTY;
      if (!image) throw truncatedTar(bytes.position);
      yield itemOfArchive(named, stampOf(entry), image);
    }
  } catch (error) {
    const { code } = error as { readonly code?: unknown };
    if (code === 'Z_BUF_ERROR') throw truncatedTar(bytes.position, error);
    throw typeof code === 'string' && code.startsWith('Z_')
      ? new SourceFault(
          `it cannot be decompressed after byte ${bytes.position} of the tar: ${reasonOf(error)}`,
        )
      : error;
  } finally {
    await bytes.close();
  }
}

function stampOf({ sizeBytes, modifiedMs }: Pick<TarEntry, 'sizeBytes' | 'modifiedMs'>): FileStamp {
  return { sizeBytes, modifiedMs, sha256: null };
}

/** The bytes of a file. Skipping reads nothing. */
function bytesOf(file: SharedFile, size: number): TarBytes {
  const bytes = {
    position: 0,
    async read(length: number) {
      const read = await file.read(bytes.position, Math.min(length, size - bytes.position));
      bytes.position += read.length;
      return read.length === length ? read : undefined;
    },
    async skip(length: number) {
      const isThere = bytes.position + length <= size;
      bytes.position = isThere ? bytes.position + length : size;
      return isThere;
    },
  };
  return bytes;
}
