/** An image that a caller gives → the item of it. */
import { fileURLToPath } from 'node:url';
import { invalidOption } from '../../../base/checks.js';
import { isHttpUrl } from '../../../base/http/http.js';
import { labelOfUrl } from '../../../base/printable.js';
import { isImageBody, openImageSource } from '../../images/file/image-source.js';
import { itemOfEntry, type EntryPlan } from './entries.js';
import type { SourceItem } from './source-item.js';

/** What an image can be, for messages. */
export const IMAGE_FORMS = 'paths, URLs, bytes, Blobs, Responses or web streams';

/**
 * Makes the item of a single image. Returns undefined for any other value.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a URL of another scheme, or of http(s) without `allowHttp`.
 */
export function itemOfImage(image: unknown, plan: EntryPlan): SourceItem | undefined {
  if (image instanceof Uint8Array) return { path: null, image };
  if (image instanceof URL) return itemOfUrlObject(image, plan);
  if (isImageBody(image)) return itemOfBody(image);
  return typeof image === 'string' && image !== '' ? itemOfEntry(image, plan) : undefined;
}

/** Copies bytes that come one by one: after the next are asked for, their buffer is the caller's again, who may fill it anew. */
export function takeBytes(image: unknown): unknown {
  return image instanceof Uint8Array ? new Uint8Array(image) : image;
}

/** The body is read when the image is embedded. A Blob knows its size before that, a File also its time. */
function itemOfBody(body: Blob | Response | ReadableStream<Uint8Array>): SourceItem {
  const image = async (): Promise<Uint8Array> => {
    const file = await openImageSource(body);
    return file as Uint8Array;
  };
  if (!('size' in body)) return { path: null, image };
  const modifiedMs =
    'lastModified' in body && typeof body.lastModified === 'number' ? body.lastModified : null;
  return { path: null, image, stamp: { sizeBytes: body.size, modifiedMs, sha256: null } };
}

function itemOfUrlObject(url: URL, plan: EntryPlan): SourceItem {
  if (url.protocol === 'file:') return itemOfEntry(fileURLToPath(url), plan);
  if (isHttpUrl(url.href)) return itemOfEntry(url.href, plan);
  throw invalidOption('source', 'made of images with URLs of http, https or file', labelOfUrl(url.href));
}
