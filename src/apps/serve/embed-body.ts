/** The images of a request to `/embed`: its body, the files of a form, or URLs. */
// What the plugin adds to requests.
import type {} from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { isAboutImage, HttpError } from './http-error.js';
import type { RequestState } from './context.js';
import { fetchImage } from './fetch-image.js';
import type { ServiceSetup } from './service-options.js';

/** An image that was sent, or why it could not be fetched. */
export interface SentImage {
  /** File name or URL; null for a body. */
  readonly name: string | null;
  readonly bytes: Uint8Array | null;
  readonly error: Error | null;
}

const FETCHES_AT_ONCE = 8;

/**
 * Reads the images of a request.
 *
 * @throws {@link HttpError} for a request that is refused as a whole.
 */
export async function readSentImages(
  request: FastifyRequest,
  setup: ServiceSetup,
  state: RequestState,
): Promise<SentImage[]> {
  const { body } = request;
  if (request.isMultipart()) return readForm(request, setup);
  if (body instanceof Uint8Array) {
    if (body.length === 0) throw new HttpError('REQUEST_INVALID', 'the body is empty; send an image');
    return [{ name: null, bytes: body, error: null }];
  }
  if (body === undefined || body === null)
    throw new HttpError('MEDIA_TYPE_UNSUPPORTED', 'send an image (Content-Type: image/jpeg, …) or a form');
  // As its schema says.
  return fetchAll((body as { readonly urls: readonly string[] }).urls, setup, state);
}

function tooMany(most: number): HttpError {
  return new HttpError('TOO_MANY_IMAGES', `a request may have ${most} images; send several requests`);
}

async function readForm(
  request: FastifyRequest,
  { maxImages, maxBodyBytes }: ServiceSetup,
): Promise<SentImage[]> {
  const images: SentImage[] = [];
  let total = 0;
  try {
    const limits = { files: maxImages, fileSize: maxBodyBytes, fieldSize: 1024, headerPairs: 32 };
    for await (const part of request.parts({ limits })) {
      if (part.type !== 'file')
        throw new HttpError('REQUEST_INVALID', `the form holds a field "${part.fieldname}"; send files only`);
      const bytes = await part.toBuffer();
      total += bytes.length;
      if (total > maxBodyBytes)
        throw new HttpError('BODY_TOO_LARGE', `the files have more than ${maxBodyBytes} bytes`);
      images.push({ name: part.filename ?? null, bytes, error: null });
    }
  } catch (error) {
    // What is still to come is read and dropped, so that the connection can be used again.
    request.raw.unpipe();
    request.raw.resume();
    throw formError(error, maxImages);
  }
  if (images.length === 0) throw new HttpError('REQUEST_INVALID', 'the form holds no file');
  return images;
}

function formError(error: unknown, maxImages: number): Error {
  if (error instanceof HttpError) return error;
  const { code, message, statusCode } = error as Error & { code?: unknown; statusCode?: unknown };
  if (code === 'FST_FILES_LIMIT') return tooMany(maxImages);
  if (typeof statusCode === 'number') return error as Error;
  // The parser's own errors say what is wrong with the form.
  return new HttpError('REQUEST_INVALID', `the form cannot be read: ${message}`, { cause: error });
}

async function fetchAll(
  urls: readonly string[],
  { allowUrls, allowPrivateUrls, urlTimeoutMs, maxBodyBytes, maxImages }: ServiceSetup,
  { admission, signal }: RequestState,
): Promise<SentImage[]> {
  if (!allowUrls)
    throw new HttpError('URLS_DISABLED', 'this service fetches no URLs (tapir serve --allow-urls)');
  if (urls.length > maxImages) throw tooMany(maxImages);
  admission.reserve(maxBodyBytes);
  let left = maxBodyBytes;
  const count = (bytes: number): void => {
    left -= bytes;
    if (left < 0)
      throw new HttpError('BODY_TOO_LARGE', `the images of the URLs have more than ${maxBodyBytes} bytes`);
  };
  const limits = {
    timeoutMs: urlTimeoutMs,
    maxBytes: maxBodyBytes,
    allowPrivate: allowPrivateUrls,
    count,
  };
  const images: SentImage[] = [];
  let next = 0;
  const fetchOn = async (): Promise<void> => {
    while (next < urls.length) {
      const place = next++;
      const name = urls[place]!;
      try {
        images[place] = { name, bytes: await fetchImage(name, limits, signal), error: null };
      } catch (error) {
        if (!isAboutImage(error)) throw error;
        images[place] = { name, bytes: null, error };
      }
    }
  };
  await Promise.all(Array.from({ length: FETCHES_AT_ONCE }, fetchOn));
  return images;
}
