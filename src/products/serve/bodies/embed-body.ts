/** The images of a request to `/embed`: its body, the files of a form, base64 in JSON, or URLs. */
// Adds the methods of the plugin to requests.
import { setTimeout } from 'node:timers/promises';
import type {} from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { fetchUrl } from '../../../base/http/http.js';
import { HttpFailure } from '../../../base/http/http-failure.js';
import { nameOfUrl } from '../../../base/url-names.js';
import { readBase64 } from '../../../base/read-base64.js';
import { reasonOf } from '../../../base/errors.js';
import { HttpError } from '../http/http-error.js';
import { isCompressed } from '../http/read-body.js';
import { countParts } from './count-parts.js';
import type { RequestState } from '../http/requests.js';
import type { ServiceSetup } from '../batches/service-options.js';

/** An image, or the reason why it could not be fetched. */
export interface SentImage {
  /** File name or URL; null for an image without a name. */
  readonly name: string | null;
  readonly bytes: Uint8Array | null;
  readonly error: Error | null;
}

/** A body in JSON, as its schema describes it: one of the fields. */
interface EmbedJson {
  readonly image?: string;
  readonly images?: readonly string[];
  readonly urls?: readonly string[];
}

const FETCHES_AT_ONCE = 8;

/** Reads the images of a request. Throws {@link HttpError} if it is refused as a whole. */
export async function readSentImages(
  request: FastifyRequest,
  setup: ServiceSetup,
  state: RequestState,
): Promise<SentImage[]> {
  const { body } = request;
  if (request.isMultipart()) return readForm(request, setup);
  if (body instanceof Uint8Array) {
    if (body.length === 0) throw new HttpError('REQUEST_INVALID', 'the body is empty; send an image');
    return [sentImage(null, body)];
  }
  if (body === undefined || body === null)
    throw new HttpError('MEDIA_TYPE_UNSUPPORTED', 'send an image (Content-Type: image/jpeg, …) or a form');
  const { image, images, urls } = body as EmbedJson;
  if (urls) return fetchImages(urls, setup, state);
  const texts = images ?? [image!];
  if (texts.length > setup.maxImages) throw tooManyImages(setup.maxImages);
  return texts.map((text) => {
    const bytes = readBase64(text);
    if (bytes) return sentImage(null, bytes);
    const what = images ? '"images" must hold images' : '"image" must hold an image';
    throw new HttpError(
      'REQUEST_INVALID',
      `${what} in base64, bare or as a data URI (data:image/jpeg;base64,…)`,
    );
  });
}

function sentImage(name: string | null, bytes: Uint8Array): SentImage {
  return { name, bytes, error: null };
}

export function tooManyImages(most: number): HttpError {
  return new HttpError('TOO_MANY_IMAGES', `a request may have ${most} images; send several requests`);
}

async function readForm(request: FastifyRequest, setup: ServiceSetup): Promise<SentImage[]> {
  if (isCompressed(request.headers))
    throw new HttpError('MEDIA_TYPE_UNSUPPORTED', 'a form is not read compressed; send it unchanged');
  const stop = new AbortController();
  try {
    const reading = readParts(request, setup);
    // The parser waits forever for the end of some parts with damaged headers (@fastify/busboy 3.2.6).
    const late = setTimeout(setup.requestTimeoutMs, undefined, { signal: stop.signal }).then(() => {
      throw new HttpError('REQUEST_TIMEOUT', 'the form could not be read in time; its parts may be damaged');
    });
    return await Promise.race([reading, late]);
  } catch (error) {
    // Read and drop the rest, so that the connection can be used again.
    request.raw.unpipe();
    request.raw.resume();
    throw formError(error, setup.maxImages);
  } finally {
    stop.abort();
  }
}

async function readParts(
  request: FastifyRequest,
  { maxImages, maxBodyBytes }: ServiceSetup,
): Promise<SentImage[]> {
  const images: SentImage[] = [];
  let total = 0;
  const sent = countParts(request);
  const limits = { files: maxImages, fileSize: maxBodyBytes, fieldSize: 1024, headerPairs: 32 };
  for await (const part of request.parts({ limits })) {
    if (part.type !== 'file')
      throw new HttpError('REQUEST_INVALID', `the form holds a field "${part.fieldname}"; send only files`);
    const bytes = await part.toBuffer();
    total += bytes.length;
    if (total > maxBodyBytes)
      throw new HttpError('BODY_TOO_LARGE', `the files have more than ${maxBodyBytes} bytes`);
    images.push(sentImage(part.filename ?? null, bytes));
  }
  if (sent.parts > images.length)
    throw new HttpError(
      'REQUEST_INVALID',
      `the form has ${sent.parts} parts, of which ${images.length} can be read; each needs a line Content-Disposition: form-data; name="image"; filename="…"`,
    );
  if (images.length === 0) throw new HttpError('REQUEST_INVALID', 'the form holds no file');
  return images;
}

function formError(error: unknown, maxImages: number): Error {
  if (error instanceof HttpError) return error;
  const { code, message, statusCode } = error as Error & { code?: unknown; statusCode?: unknown };
  if (code === 'FST_FILES_LIMIT') return tooManyImages(maxImages);
  if (typeof statusCode === 'number') return error as Error;
  // The parser's errors describe what is wrong with the form.
  return new HttpError('REQUEST_INVALID', `the form cannot be read: ${message}`, { cause: error });
}

/**
 * Fetches images, several at once: over HTTP only, from public addresses, within limits of time and size. It follows redirects.
 *
 * @throws {@link HttpError} `URLS_DISABLED`, `TOO_MANY_IMAGES`, `BODY_TOO_LARGE`, `QUEUE_FULL`.
 */
export async function fetchImages(
  urls: readonly string[],
  { allowUrls, allowPrivateUrls, urlTimeoutMs, maxBodyBytes, maxImages }: ServiceSetup,
  { admission, signal }: RequestState,
): Promise<SentImage[]> {
  if (!allowUrls)
    throw new HttpError('URLS_DISABLED', 'this service does not fetch URLs (tapir serve --allow-urls)');
  if (urls.length > maxImages) throw tooManyImages(maxImages);
  admission.reserve(maxBodyBytes);
  let left = maxBodyBytes;
  const count = (bytes: number): void => {
    left -= bytes;
    if (left < 0)
      throw new HttpError('BODY_TOO_LARGE', `the images of the URLs have more than ${maxBodyBytes} bytes`);
  };
  const rules = {
    http: 'all',
    allowPrivate: allowPrivateUrls,
    credentials: 'refuse',
    timeout: { ms: urlTimeoutMs, of: 'whole' },
    headers: { accept: 'image/*' },
    signal,
  } as const;
  const images: SentImage[] = [];
  let next = 0;
  const fetchMore = async (): Promise<void> => {
    while (next < urls.length) {
      const place = next++;
      const url = urls[place]!;
      const name = nameOfUrl(url);
      try {
        images[place] = sentImage(name, (await fetchUrl(url, rules, maxBodyBytes, count)).bytes);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof HttpFailure)) throw error;
        images[place] = { name, bytes: null, error: urlError(error) };
      }
    }
  };
  await Promise.all(Array.from({ length: FETCHES_AT_ONCE }, fetchMore));
  return images;
}

function urlError(error: HttpFailure): HttpError {
  const reason = reasonOf(error);
  return error.kind === 'refused'
    ? new HttpError('URL_REFUSED', `the URL is refused: ${reason}`)
    : new HttpError('URL_FAILED', `the URL could not be fetched: ${reason}`, { cause: error });
}
