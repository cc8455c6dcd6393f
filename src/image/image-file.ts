/** Image files: where they are, and their bytes. */
import { constants } from 'node:fs';
import { mkdtemp, open, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TapirError, reasonOf } from '../errors.js';

/** An image to read: a path, a `file:` URL, or the bytes of the file. */
export type ImageSource = string | URL | Uint8Array;

/** Longer files are refused before reading: no photo that decodes within the pixel limit is this long. */
const MAX_FILE_BYTES = 1024 ** 3;
/** Opening a pipe would wait for a writer otherwise. Windows has no such flag. */
const OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** What messages call an image. */
export function labelOf(source: ImageSource): string {
  if (source instanceof Uint8Array) return `an image of ${source.byteLength} bytes`;
  return source instanceof URL ? fileURLToPath(source) : source;
}

/**
 * Reads the file of an image; bytes are returned as they are.
 *
 * @throws {@link TapirError} `IMAGE_NOT_FOUND`.
 */
export async function readImageFile(source: ImageSource): Promise<Uint8Array> {
  if (source instanceof Uint8Array) return source;
  let file: FileHandle | undefined;
  try {
    file = await open(source, OPEN_FLAGS);
    const stats = await file.stat();
    if (!stats.isFile()) throw new Error('it is no regular file');
    if (stats.size > MAX_FILE_BYTES)
      throw new Error(`the file has ${stats.size} bytes, more than ${MAX_FILE_BYTES}`);
    return await readBytes(file, stats.size);
  } catch (error) {
    const label = labelOf(source);
    throw new TapirError('IMAGE_NOT_FOUND', `cannot read the image ${label}: ${reasonOf(error)}`, {
      details: { source: label, reason: reasonOf(error) },
      cause: error,
    });
  } finally {
    await file?.close();
  }
}

/** What a file holds up to the size it had; less if it was cut meanwhile. */
async function readBytes(file: FileHandle, sizeBytes: number): Promise<Uint8Array> {
  // Every byte that is returned has been read.
  const bytes = Buffer.allocUnsafeSlow(sizeBytes);
  let filled = 0;
  while (filled < sizeBytes) {
    const { bytesRead } = await file.read(bytes, filled, sizeBytes - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}

/**
 * Runs a step on the path of an image whose bytes are known, for a decoder that takes options in brackets behind the path.
 * Bytes without a path, and a name that itself ends as options would, are in a temporary file of this user's meanwhile.
 */
export async function withImagePath<Result>(
  source: ImageSource,
  bytes: Uint8Array,
  step: (path: string) => Promise<Result>,
): Promise<Result> {
  if (!(source instanceof Uint8Array)) {
    const path = labelOf(source);
    if (!path.endsWith(']')) return step(path);
  }
  const folder = await mkdtemp(join(tmpdir(), 'tapir-image-'));
  try {
    const path = join(folder, 'image.jpg');
    await writeFile(path, bytes, { mode: 0o600 });
    return await step(path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
