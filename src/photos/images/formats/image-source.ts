/** What users pass as a photo → what kind it is, and its file: the one reader of kinds. */
import { fileURLToPath } from 'node:url';
import { types } from 'node:util';
import { invalidOption, isPlainObject } from '../../../base/checks.js';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { isHttpUrl } from '../../../base/http/http.js';
import { labelOfUrl } from '../../../base/printable.js';
import { encodePam } from './pam.js';
import { missingRemoteImage, tooLongFile, unreadableImage } from '../file/image-errors.js';
import { MAX_FILE_BYTES, type ImageFile } from '../file/image-file.js';
import { readPixels, type DecodedPixels } from './decoded-pixels.js';

/**
 * A photo: a path, a URL (`file:`, `data:` with base64; `https:` and `http:` where the call fetches them), the bytes of a file, a Blob, a
 * Response, a web stream or a stream of Node.js that gives these bytes, or pixels that are decoded already ({@link DecodedPixels}).
 */
export type ImageSource =
  | string
  | URL
  | Uint8Array
  | ArrayBuffer
  | Blob
  | Response
  | ReadableStream<Uint8Array>
  | NodeJS.ReadableStream
  | DecodedPixels;

/** A photo by its kind, before anything of it is read. */
export type GivenImage =
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'url'; readonly url: string }
  /** Bytes of the caller. */
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | {
      readonly kind: 'body';
      /** The bytes of the file, in new memory. */
      readonly read: () => Promise<Uint8Array>;
      /** Whether the caller may change its memory after the call. */
      readonly isLent?: true;
      /** What a Blob, a File or pixels know before they are read. */
      readonly sizeBytes?: number;
      readonly modifiedMs?: number | null;
    };

/** What a photo can be, for messages. */
export const IMAGE_KINDS =
  'a path, URL, bytes, Blob, Response, stream of bytes, or pixels { data, width, height }';

/** Longer texts are no paths on any system that runs this; base64 without a dot is none from much fewer characters on. */
const MOST_PATH = 32_768;
const BASE64 = /^[A-Za-z0-9+/\s]{512,}=*\s*$/;

/**
 * Tells the kind of a photo.
 *
 * @param option - What the caller calls it, for messages.
 * @throws {@link TapirError} `OPTION_INVALID` for anything else: the message names its type, and says what to pass.
 */
export function readKind(source: unknown, option = 'image'): GivenImage {
  if (typeof source === 'string') return kindOfText(source, option);
  if (types.isUint8Array(source)) return { kind: 'bytes', bytes: source };
  if (types.isAnyArrayBuffer(source)) return { kind: 'bytes', bytes: new Uint8Array(source) };
  if (source instanceof URL) return kindOfUrl(source, option);
  // By their members: Response and Blob have other classes in packages such as undici.
  if (isResponse(source)) return { kind: 'body', read: () => readResponse(source) };
  if (isBlob(source)) return kindOfBlob(source);
  if (isWebStream(source) || isNodeStream(source))
    return { kind: 'body', read: () => readStream(source, 'a stream') };
  const pixels = readPixels(source, option);
  if (!pixels) {
    const isRow = isPlainObject(source) && ('path' in source || 'image' in source);
    const advice = isRow ? ' (with columns: for embedFolder, embedImages)' : '';
    throw invalidOption(option, `${IMAGE_KINDS}, not ${typeOf(source)}${advice}`, undefined);
  }
  return {
    kind: 'body',
    read: () => Promise.resolve(encodePam(pixels)),
    isLent: true,
    sizeBytes: pixels.data.length,
  };
}

/**
 * Reads what is no path: resolves a URL, and takes in a body, up to the limit for files.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for anything else, for URLs of the web, and for a body that was read before;
 * `IMAGE_NOT_FOUND` for a Response that is not ok; `IMAGE_TOO_LARGE`; `IMAGE_UNREADABLE` if reading fails.
 */
export async function openImageSource(source: unknown): Promise<ImageFile> {
  const given = readKind(source);
  if (given.kind === 'path') return given.path;
  if (given.kind === 'bytes') return given.bytes;
  if (given.kind === 'body') return given.read();
  throw invalidOption('image', `${IMAGE_KINDS} (for a URL pass "await fetch(url)")`, labelOfUrl(given.url));
}

function kindOfText(text: string, option: string): GivenImage {
  if (/^data:/i.test(text)) return { kind: 'body', read: () => Promise.resolve(decodeDataUrl(text, option)) };
  if (isHttpUrl(text)) return { kind: 'url', url: text };
  if (text === '') throw invalidOption(option, `${IMAGE_KINDS}, not an empty text`, undefined);
  if (text.length > MOST_PATH || BASE64.test(text))
    throw invalidOption(option, `${IMAGE_KINDS} (of base64, pass Buffer.from(text, "base64"))`, undefined);
  return { kind: 'path', path: text };
}

function kindOfUrl(url: URL, option: string): GivenImage {
  if (url.protocol !== 'file:') {
    if (isHttpUrl(url.href) || url.protocol === 'data:') return kindOfText(url.href, option);
    const expected = `${IMAGE_KINDS}: URLs are of https, http, file or data`;
    throw invalidOption(option, expected, labelOfUrl(url.href).slice(0, 40));
  }
  try {
    return { kind: 'path', path: fileURLToPath(url) };
  } catch (error) {
    const expected = `${IMAGE_KINDS}: this file: URL has no path (${reasonOf(error)})`;
    throw invalidOption(option, expected, url.href);
  }
}

function decodeDataUrl(url: string, option: string): Uint8Array {
  const comma = url.indexOf(',');
  const head = url.slice(0, Math.min(comma, 200));
  if (comma < 0 || !/;base64$/i.test(head))
    throw invalidOption(option, `${IMAGE_KINDS}: a data: URL has ";base64," before its bytes`, undefined);
  const text = url.slice(comma + 1);
  return Buffer.from(text.includes('%') ? decodeURIComponent(text) : text, 'base64');
}

function kindOfBlob(blob: Blob): GivenImage {
  const { size } = blob;
  const read = async (): Promise<Uint8Array> => {
    if (size > MAX_FILE_BYTES) throw tooLongFile('a Blob', MAX_FILE_BYTES, size);
    return readStream(blob.stream(), 'a Blob');
  };
  const isFile = 'lastModified' in blob && typeof blob.lastModified === 'number';
  const modifiedMs = isFile ? (blob.lastModified as number) : null;
  return { kind: 'body', read, sizeBytes: size, modifiedMs };
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

async function readStream(
  stream: ReadableStream<Uint8Array> | NodeJS.ReadableStream,
  label: string,
): Promise<Uint8Array> {
  if ('locked' in stream ? stream.locked : wasRead(stream)) throw alreadyRead(label);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    // Leaving the loop cancels the stream.
    for await (const chunk of stream as unknown as AsyncIterable<unknown>) {
      if (!types.isUint8Array(chunk))
        throw invalidOption(
          'image',
          `${IMAGE_KINDS}: the stream must give Uint8Array, not ${typeOf(chunk)}`,
          undefined,
        );
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

function wasRead(stream: NodeJS.ReadableStream): boolean {
  return 'readableDidRead' in stream && stream.readableDidRead === true;
}

function alreadyRead(what: string): TapirError<'OPTION_INVALID'> {
  return invalidOption('image', `${IMAGE_KINDS} that nobody has read`, `${what} that is locked or was read`);
}

/** What a value is that is no photo, in few words, and what would do in its place where that is known. */
function typeOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== 'object') return typeof value === 'function' ? 'a function' : `a ${typeof value}`;
  if (has(value, 'then')) return 'a Promise (forgotten await?)';
  if (has(value, 'toTensor')) return 'a photo of loadImage, which run takes';
  if (has(value, 'dims', 'data')) return 'a tensor, which run takes';
  if (has(value, 'toBuffer', 'raw'))
    return 'an object of sharp: pass "await image.raw().toBuffer({ resolveWithObject: true })"';
  const name = (Object.getPrototypeOf(value) as { constructor?: { name?: string } } | null)?.constructor
    ?.name;
  const keys = Object.keys(value).slice(0, 3).join(', ').slice(0, 40);
  return !name || name === 'Object' ? `an object {${keys}}` : `an object of class ${name.slice(0, 40)}`;
}

function has<Key extends string>(value: unknown, ...keys: readonly Key[]): value is Record<Key, unknown> {
  return typeof value === 'object' && value !== null && keys.every((key) => key in value);
}

/** Whether a value is one image although it can be iterated: bytes, pixels, a body. */
export function isOneImage(value: unknown): boolean {
  const isBytes = types.isUint8Array(value) || types.isAnyArrayBuffer(value);
  return isBytes || isResponse(value) || isBlob(value) || isWebStream(value) || has(value, 'data');
}

/** Whether a value is a photo, and no tensor: for calls that take both. */
export function isPhoto(value: unknown): value is ImageSource {
  if (typeof value === 'string' || value instanceof URL) return true;
  return (isOneImage(value) && !has(value, 'dims') && !has(value, 'toTensor')) || isNodeStream(value);
}

function isResponse(value: unknown): value is Response {
  if (!has(value, 'ok', 'status', 'body', 'bodyUsed', 'headers') || !has(value.headers, 'get')) return false;
  return value.body === null || isWebStream(value.body);
}

function isBlob(value: unknown): value is Blob {
  return has(value, 'size', 'stream') && typeof value.stream === 'function';
}

function isWebStream(value: unknown): value is ReadableStream<Uint8Array> {
  return has(value, 'getReader', 'locked') && typeof value.getReader === 'function';
}

/** A stream of Node.js; not sharp's, which gives a file that it writes anew. */
function isNodeStream(value: unknown): value is NodeJS.ReadableStream {
  return has(value, 'pipe', 'read', Symbol.asyncIterator as unknown as string) && !has(value, 'toBuffer');
}
