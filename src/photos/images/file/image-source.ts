/** What users pass as an image → a path or the bytes of a file. */
import { fileURLToPath } from 'node:url';
import { invalidOption } from '../../../base/checks.js';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { missingRemoteImage, tooLongFile, unreadableImage } from './image-errors.js';
import { MAX_FILE_BYTES, type ImageFile } from './image-file.js';
import { labelOfUrl } from '../../../base/printable.js';

/**
 * An image to read: a path, a `file:` URL, the bytes of a file, or a Blob, a Response or a web stream that gives these bytes.
 * Where URLs of http(s) are fetched, the call says so; elsewhere pass `await fetch(url)`.
 */
export type ImageSource = string | URL | Uint8Array | Blob | Response | ReadableStream<Uint8Array>;

/** No system has longer paths; base64 of a photo is longer. */
const MOST_PATH = 32_768;

const EXPECTED = 'a path, a file: URL, bytes, or a Blob, Response or web stream of bytes';

/**
 * Resolves a URL to its path, and reads a Blob, a Response or a stream, up to the limit for files.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for anything else, and for a body that was read before; `IMAGE_NOT_FOUND` for a
 * Response that is not ok; `IMAGE_TOO_LARGE`; `IMAGE_UNREADABLE` if reading fails.
 */
export async function openImageSource(source: unknown): Promise<ImageFile> {
  if (source instanceof Uint8Array) return source;
  if (typeof source === 'string' && source !== '') {
    if (/^https?:\/\//i.test(source)) throw remote(source);
    if (source.length > MOST_PATH || source.startsWith('data:')) {
      const expected = `${EXPECTED} (of base64, pass Buffer.from(text, "base64"))`;
      throw invalidOption('image', expected, source);
    }
    return source;
  }
  if (source instanceof URL) return pathOf(source);
  // By their members: Response and Blob have other classes in packages such as undici.
  if (isResponse(source)) return readResponse(source);
  if (isBlob(source)) {
    if (source.size > MAX_FILE_BYTES) throw tooLongFile('a Blob', MAX_FILE_BYTES, source.size);
    return readStream(source.stream(), 'a Blob');
  }
  if (isStream(source)) return readStream(source, 'a stream');
  const hint = hintFor(source);
  throw invalidOption('image', hint === undefined ? EXPECTED : `${EXPECTED} (${hint})`, source);
}

function hintFor(source: unknown): string | undefined {
  if (has(source, 'then')) return 'forgotten await?';
  if (source instanceof ArrayBuffer) return 'pass new Uint8Array(buffer)';
  return has(source, 'pipe', 'read') ? 'of a stream of Node.js, pass Readable.toWeb(stream)' : undefined;
}

function pathOf(url: URL): string {
  if (url.protocol !== 'file:') throw remote(url.href);
  try {
    return fileURLToPath(url);
  } catch (error) {
    throw invalidOption('image', `${EXPECTED}: this file: URL has no path (${reasonOf(error)})`, url.href);
  }
}

function remote(url: string): TapirError<'OPTION_INVALID'> {
  return invalidOption('image', `${EXPECTED} (for a URL pass "await fetch(url)")`, labelOfUrl(url));
}

async function readResponse(response: Response): Promise<Uint8Array> {
  const { ok, status, bodyUsed, body, url } = response;
  const label = url ? labelOfUrl(url) : 'a Response';
  if (bodyUsed || body?.locked === true) throw alreadyRead('a Response');
  const given = Number(response.headers.get('content-length'));
  const refused = !ok
    ? missingRemoteImage(label, status)
    : given > MAX_FILE_BYTES
      ? tooLongFile(label, MAX_FILE_BYTES, given)
      : undefined;
  if (!refused) return body ? readStream(body, label) : new Uint8Array(0);
  // Frees the connection. If that fails too, the refusal is still the error to report.
  await body?.cancel().catch(() => undefined);
  throw refused;
}

async function readStream(stream: ReadableStream<Uint8Array>, label: string): Promise<Uint8Array> {
  if (stream.locked) throw alreadyRead(label);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    // Leaving the loop cancels the stream.
    for await (const chunk of stream as unknown as AsyncIterable<unknown>) {
      if (!(chunk instanceof Uint8Array))
        throw invalidOption('image', `${EXPECTED}: the stream must give Uint8Array`, chunk);
      bytes += chunk.byteLength;
      if (bytes > MAX_FILE_BYTES) throw tooLongFile(label, MAX_FILE_BYTES);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof TapirError) throw error;
    throw unreadableImage(label, `reading it failed: ${reasonOf(error)}`, error);
  }
  return Buffer.concat(chunks, bytes);
}

function alreadyRead(what: string): TapirError<'OPTION_INVALID'> {
  return invalidOption('image', `${EXPECTED} that nobody has read`, `${what} that is locked or was read`);
}

function has<Key extends string>(value: unknown, ...keys: readonly Key[]): value is Record<Key, unknown> {
  return typeof value === 'object' && value !== null && keys.every((key) => key in value);
}

/** Whether a value is an image whose bytes must be read: a Blob, a Response or a web stream. */
export function isImageBody(value: unknown): value is Blob | Response | ReadableStream<Uint8Array> {
  return isResponse(value) || isBlob(value) || isStream(value);
}

function isResponse(value: unknown): value is Response {
  if (!has(value, 'ok', 'status', 'body', 'bodyUsed', 'headers') || !has(value.headers, 'get')) return false;
  return value.body === null || isStream(value.body);
}

function isBlob(value: unknown): value is Blob {
  return has(value, 'size', 'stream') && typeof value.stream === 'function';
}

function isStream(value: unknown): value is ReadableStream<Uint8Array> {
  return has(value, 'getReader', 'locked') && typeof value.getReader === 'function';
}
