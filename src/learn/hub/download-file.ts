/** Downloads a file. What has arrived is kept, so that the next attempt, or the next call, resumes from there. */
import { dirname } from 'node:path';
import { freeBytes, unwritable, type AtomicFile } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import { HttpFailure, retryTransient } from '../../base/http/http-failure.js';
import { openUrl, type HttpResponse, type HttpRules } from '../../base/http/http.js';
import { boolean, callback, integer, signal, type Fields } from '../../base/options.js';
import { labelOfUrl } from '../../base/printable.js';
import type { Progress } from '../../base/progress.js';
import type { KnownModelFile } from './known-models.js';
import type { PartialFile } from './partial-file.js';

/** How a file is downloaded. */
export interface DownloadOptions {
  /**
   * Whether to download from addresses that are not encrypted (http). Addresses of this machine are always allowed.
   * @default false
   */
  readonly allowHttp: boolean;
  /**
   * An attempt ends when less than 1,024 bytes have arrived in this time, in milliseconds, from 1 to 3,600,000.
   * @default 30000
   */
  readonly stallMs: number;
  /**
   * The most attempts at each file, from 1 to 100.
   * @default 5
   */
  readonly attempts: number;
  /**
   * The pause before the second attempt, in milliseconds, from 0 to 3,600,000. It doubles before each further one, up to 30 s.
   * @default 1000
   */
  readonly retryDelayMs: number;
  /**
   * The most bytes of a file whose size is unknown.
   * @default 4294967296
   */
  readonly limitBytes: number;
  /**
   * Stops the download when it fires. The bytes so far are kept.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called as bytes of a file arrive, those of earlier attempts included.
   * @default undefined
   */
  readonly onProgress: ((progress: DownloadProgress) => void) | undefined;
}

const HOUR_MS = 3_600_000;

export const DOWNLOAD_FIELDS: Fields<DownloadOptions> = {
  allowHttp: boolean(false, 'also fetch from addresses without encryption'),
  stallMs: integer(1, HOUR_MS, 30_000),
  attempts: integer(1, 100, 5),
  retryDelayMs: integer(0, HOUR_MS, 1000),
  limitBytes: integer(1, Number.MAX_SAFE_INTEGER, 4 * 2 ** 30),
  signal,
  onProgress: callback(),
};

/** The progress of a download. */
export interface DownloadProgress extends Progress {
  readonly unit: 'bytes';
  /** Name of the file. */
  readonly what: string;
}

/** The `Authorization` header of a request. It goes to the origin of the address only. */
export interface Authorized {
  readonly authorization?: string | undefined;
}

const MOST_DELAY_MS = 30_000;

/** Downloads a file into its partial file. The caller checks whether it is the right one. Throws `DOWNLOAD_FAILED`, `OUTPUT_UNWRITABLE`. */
export async function downloadFile(
  file: KnownModelFile,
  partial: PartialFile,
  options: DownloadOptions & Authorized,
): Promise<void> {
  await checkSpace(file, partial);
  await retryDownload(file.url, options, () => fetchRest(file, partial, options));
}

/** Repeats a request after transient failures, as often as the options say. Throws `DOWNLOAD_FAILED`; what else the request throws. */
export async function retryDownload<Result>(
  url: string,
  { attempts, retryDelayMs, signal }: DownloadOptions,
  request: () => Promise<Result>,
): Promise<Result> {
  const delays = Array.from({ length: attempts - 1 }, (_, i) =>
    Math.min(retryDelayMs * 2 ** i, MOST_DELAY_MS),
  );
  try {
    return await retryTransient(delays, signal, request);
  } catch (error) {
    throw error instanceof HttpFailure ? downloadFailed(url, error) : error;
  }
}

/** The rules of a request that downloads. */
export function downloadRules(options: DownloadOptions & Authorized): HttpRules {
  return {
    http: options.allowHttp ? 'all' : 'loopback',
    allowPrivate: true,
    credentials: 'refuse',
    authorization: options.authorization,
    timeout: { ms: options.stallMs, of: 'silence' },
    signal: options.signal,
  };
}

function downloadFailed(address: string, error: HttpFailure): TapirError<'DOWNLOAD_FAILED'> {
  const advice = {
    transient:
      '; check the connection (HTTPS_PROXY names a proxy), and try again: a download resumes where it stopped',
    certificate:
      '; if your network inspects encrypted connections, the environment variable NODE_EXTRA_CA_CERTS names the file with its certificates',
    unencrypted: '; --allow-http (allowHttp: true) allows it',
  };
  const url = labelOfUrl(address);
  const reason = error.message + ((advice as Partial<Record<string, string>>)[error.kind] ?? '');
  return new TapirError('DOWNLOAD_FAILED', `cannot download ${url}: ${reason}`, {
    details: { url, reason },
    cause: error,
  });
}

/** Makes the error for a download with another checksum than it should have. */
export function checksumMismatch(
  address: string,
  path: string,
  expected: string,
  actual: string,
  { kind = 'SHA-256', hint = '' }: { readonly kind?: string; readonly hint?: string } = {},
): TapirError<'CHECKSUM_MISMATCH'> {
  const message = `${labelOfUrl(address)} is not the expected file: its ${kind} is ${actual}, not ${expected}${hint}`;
  return new TapirError('CHECKSUM_MISMATCH', message, { details: { path, expected, actual } });
}

async function checkSpace(file: KnownModelFile, partial: PartialFile): Promise<void> {
  const { url, sizeBytes, sha256 } = file;
  if (sizeBytes === null) return;
  const free = freeBytes(dirname(partial.path));
  const { bytes } = await partial.resumable(url, sha256 !== null);
  if (free === null || sizeBytes - bytes <= free) return;
  const reason = `it needs ${sizeBytes - bytes} bytes, and ${free} are free`;
  throw unwritable(partial.path, new Error(reason));
}

/** Makes one attempt to download the rest of a file, or all of it if the server cannot send the rest. */
async function fetchRest(
  file: KnownModelFile,
  partial: PartialFile,
  options: DownloadOptions & Authorized,
): Promise<void> {
  const { bytes: have, validator } = await partial.resumable(file.url, file.sha256 !== null);
  if (file.sizeBytes !== null && have > 0 && have === file.sizeBytes) return;
  const response = await openUrl(file.url, {
    ...downloadRules(options),
    headers: rangeHeaders(have, validator),
    statuses: [200, 206, 416],
  });
  try {
    const offset = await offsetOf(response, partial, have, validator);
    const totalBytes = await checkLength(response, file, partial, offset, options.limitBytes);
    const output = await partial.open(offset, { url: file.url, validator: validatorOf(response) });
    try {
      await receive(response, output, { file, partial, totalBytes, options });
    } finally {
      await output.pause();
    }
  } finally {
    response.discard();
  }
}

function rangeHeaders(have: number, validator: string | null): Record<string, string> {
  if (have === 0) return {};
  return { range: `bytes=${have}-`, ...(validator === null ? {} : { 'if-range': validator }) };
}

/** A weak ETag does not promise the same bytes. */
function validatorOf(response: HttpResponse): string | null {
  const tag = response.header('etag');
  return tag !== null && !tag.startsWith('W/') ? tag : response.header('last-modified');
}

/** Returns where the body belongs: after the bytes so far, or at the start if the server sends the whole file again. */
async function offsetOf(
  response: HttpResponse,
  partial: PartialFile,
  have: number,
  validator: string | null,
): Promise<number> {
  if (response.status === 200) return 0;
  const range = /^bytes (\d+)-/.exec(response.header('content-range') ?? '');
  // Some servers ignore If-Range.
  const isSame = validator === null || validatorOf(response) === validator;
  if (response.status === 206 && have > 0 && Number(range?.[1]) === have && isSame) return have;
  await partial.discard();
  throw new HttpFailure('transient', `the server cannot resume at byte ${have}`);
}

/** Returns the size of the whole file by the response's own length, if it states one. Refuses a size that is wrong or too large. */
async function checkLength(
  response: HttpResponse,
  { sizeBytes }: KnownModelFile,
  partial: PartialFile,
  offset: number,
  limitBytes: number,
): Promise<number | null> {
  const length = response.header('content-length');
  if (length === null) return null;
  const total = offset + Number(length);
  if (total === sizeBytes || (sizeBytes === null && total <= limitBytes)) return total;
  await partial.discard();
  throw wrongSize(`${total}`, sizeBytes, limitBytes);
}

function wrongSize(actual: string, sizeBytes: number | null, limitBytes: number): HttpFailure {
  const expected = sizeBytes === null ? `and the limit is ${limitBytes} (limitBytes)` : `not ${sizeBytes}`;
  return new HttpFailure('too-large', `it has ${actual} bytes, ${expected}`);
}

/** The parts of one attempt. */
interface Transfer {
  readonly file: KnownModelFile;
  readonly partial: PartialFile;
  readonly totalBytes: number | null;
  readonly options: DownloadOptions;
}

async function receive(response: HttpResponse, output: AtomicFile, transfer: Transfer): Promise<void> {
  const { file, partial, totalBytes, options } = transfer;
  const limit = file.sizeBytes ?? options.limitBytes;
  for await (const chunk of response.body) {
    if (output.size + chunk.byteLength > limit) {
      await partial.discard();
      throw wrongSize(`more than ${limit}`, file.sizeBytes, options.limitBytes);
    }
    await output.append(chunk);
    const total = totalBytes ?? file.sizeBytes;
    options.onProgress?.({ done: output.size, total, unit: 'bytes', what: file.name });
  }
  const expected = file.sizeBytes ?? totalBytes;
  if (expected !== null && output.size < expected)
    throw new HttpFailure('transient', `it ended after ${output.size} of ${expected} bytes`);
}
