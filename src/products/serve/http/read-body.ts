/** Bodies of requests: read within a limit, decompressed if they are compressed. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createUnzip } from 'node:zlib';
import { reasonOf } from '../../../base/errors.js';
import { HttpError } from './http-error.js';

/** Encodings that {@link readBody} undoes. */
const ENCODINGS: ReadonlySet<string> = new Set(['gzip', 'x-gzip', 'deflate']);

/** The encoding of a body: `identity` if it is sent unchanged. */
export function encodingOf(headers: IncomingHttpHeaders): string {
  return headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
}

/** Whether a body is compressed in a way that {@link readBody} undoes. */
export function isCompressed(headers: IncomingHttpHeaders): boolean {
  return ENCODINGS.has(encodingOf(headers));
}

/** A request whose body a parser of another server may have read. */
interface ParsedRequest extends Readable {
  readonly body?: unknown;
}

/** The bytes of a body that a parser has read before, such as those of Express. */
function parsedBody(body: unknown, limit: number): Buffer {
  if (body === undefined || body === null)
    throw new HttpError(
      'REQUEST_INVALID',
      'the body was read before the service saw the request, and "body" of the request does not hold it; mount the service before other parsers of bodies',
    );
  const bytes =
    body instanceof Uint8Array
      ? Buffer.from(body.buffer, body.byteOffset, body.byteLength)
      : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  if (bytes.length > limit) throw tooLarge(limit);
  return bytes;
}

/**
 * Reads a body into memory, once: a body that declares its length takes no more bytes than that. Throws `BODY_TOO_LARGE`;
 * `REQUEST_INVALID` for a body that cannot be decompressed.
 *
 * @param limit - Maximum number of bytes, after decompression.
 */
export async function readBody(
  payload: Readable,
  headers: IncomingHttpHeaders,
  limit: number,
): Promise<Buffer> {
  if (payload.readableEnded) return parsedBody((payload as ParsedRequest).body, limit);
  const isPacked = isCompressed(headers);
  const length = isPacked ? NaN : Number(headers['content-length'] ?? NaN);
  if (length > limit) {
    // Fastify ends the connection after this error: a client that still sends would not see the answer.
    await finished(payload.resume());
    throw tooLarge(limit);
  }
  const stream = isPacked ? payload.pipe(createUnzip()) : payload;
  // Errors of the source do not pass a pipe.
  if (isPacked) payload.once('error', (error) => stream.destroy(error));
  let body = Buffer.alloc(0);
  let size = 0;
  if (length > 0) body = Buffer.allocUnsafe(length);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (size + chunk.length > limit) throw tooLarge(limit);
      if (size + chunk.length <= body.length) chunk.copy(body, size);
      else chunks.push(chunk);
      size += chunk.length;
    }
  } catch (error) {
    if (error instanceof HttpError || !isPacked) throw error;
    throw new HttpError('REQUEST_INVALID', `the body cannot be decompressed: ${reasonOf(error)}`, {
      cause: error,
    });
  }
  return chunks.length > 0 ? Buffer.concat(chunks, size) : body.subarray(0, size);
}

function tooLarge(limit: number): HttpError {
  return new HttpError('BODY_TOO_LARGE', `the body has more than ${limit} bytes`);
}
