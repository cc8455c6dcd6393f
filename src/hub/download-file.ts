/** A file from the network: what has arrived is kept, so that the next attempt (or the next pull) goes on from there. */
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { TapirError } from '../base/errors.js';
import type { HubFile } from './model-list.js';
import { asTransient, downloadFailed, openUrl, StallTimer, TransientFailure } from '../base/http.js';
import { freeBytes, type AtomicFile } from '../base/atomic-file.js';
import type { PartialFile } from './partial-file.js';

/** How a file is fetched. */
export interface DownloadOptions {
  /** Fetch addresses without encryption too. */
  readonly allowHttp: boolean;
  /** An attempt ends when nothing has arrived for this long, in milliseconds. */
  readonly stallMs: number;
  /** Attempts at each file. */
  readonly attempts: number;
  /** Pause before the second attempt, in milliseconds; doubled before each further one, 30 s at most. */
  readonly retryDelayMs: number;
  /** Files of unknown size may have this many bytes. */
  readonly limitBytes: number;
  readonly signal: AbortSignal | undefined;
  /** Called as bytes arrive; `totalBytes` is null while unknown. */
  readonly onProgress: (progress: DownloadProgress) => void;
}

/** How far a download is. */
export interface DownloadProgress {
  readonly file: string;
  readonly bytes: number;
  readonly totalBytes: number | null;
}

const MOST_DELAY_MS = 30_000;

/**
 * Fetches a file into its partial file; whether it is the right one is for the caller to say.
 *
 * @throws {@link TapirError} `DOWNLOAD_FAILED`, `OUTPUT_UNWRITABLE`; the signal's reason.
 */
export async function downloadFile(
  file: HubFile,
  partial: PartialFile,
  options: DownloadOptions,
): Promise<void> {
  await checkSpace(file, partial);
  for (let attempt = 1; ; attempt++) {
    options.signal?.throwIfAborted();
    try {
      await fetchRest(file, partial, options);
      return;
    } catch (error) {
      if (!(error instanceof TransientFailure)) throw error;
      if (attempt >= options.attempts) {
        const times = attempt === 1 ? '' : ` (${attempt} attempts)`;
        throw downloadFailed(file.url, `${error.message}${times}; the next pull goes on from there`, error);
      }
      await pause(Math.min(options.retryDelayMs * 2 ** (attempt - 1), MOST_DELAY_MS), options.signal);
    }
  }
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await delay(ms, undefined, signal ? { signal } : {}).catch((error: unknown) => {
    throw signal?.aborted === true ? signal.reason : error;
  });
}

async function checkSpace({ url, sizeBytes, sha256 }: HubFile, partial: PartialFile): Promise<void> {
  if (sizeBytes === null) return;
  const free = freeBytes(dirname(partial.path));
  const { bytes } = await partial.resumable(url, sha256 !== null);
  if (free === null || sizeBytes - bytes <= free) return;
  const reason = `it needs ${sizeBytes - bytes} bytes, and ${free} are free`;
  throw new TapirError('OUTPUT_UNWRITABLE', `cannot write "${partial.path}": ${reason}`, {
    details: { path: partial.path, reason },
  });
}

/** One attempt: the rest of the file, or all of it. */
async function fetchRest(file: HubFile, partial: PartialFile, options: DownloadOptions): Promise<void> {
  const { bytes: have, validator } = await partial.resumable(file.url, file.sha256 !== null);
  if (file.sizeBytes !== null && have === file.sizeBytes) return;
  const stall = new StallTimer(options.stallMs);
  const signal = options.signal ? AbortSignal.any([options.signal, stall.signal]) : stall.signal;
  try {
    const response = await openUrl(file.url, requestHeaders(have, validator), options.allowHttp, signal);
    const offset = await offsetOf(response, file, partial, have, validator);
    const totalBytes = await checkLength(response, file, partial, offset, options.limitBytes);
    const output = await partial.open(offset, { url: file.url, validator: validatorOf(response) });
    try {
      await receive(response, output, { file, partial, offset, totalBytes, stall, signal, options });
    } finally {
      await output.pause();
    }
  } finally {
    stall.stop();
  }
}

function requestHeaders(have: number, validator: string | null): Record<string, string> {
  return {
    'user-agent': 'onnx-tapir',
    // Lengths and ranges are those of the file itself.
    'accept-encoding': 'identity',
    ...(have > 0 ? { range: `bytes=${have}-` } : {}),
    ...(have > 0 && validator !== null ? { 'if-range': validator } : {}),
  };
}

/** A weak ETag does not promise the same bytes. */
function validatorOf({ headers }: Response): string | null {
  const tag = headers.get('etag');
  return tag !== null && !tag.startsWith('W/') ? tag : headers.get('last-modified');
}

/** Where the body belongs: behind what is there, or at the start if the server sends all of it again. */
async function offsetOf(
  response: Response,
  { url }: HubFile,
  partial: PartialFile,
  have: number,
  validator: string | null,
): Promise<number> {
  const { status, headers } = response;
  const encoding = headers.get('content-encoding') ?? 'identity';
  if (encoding !== 'identity') throw await refuse(response, url, `it is sent encoded (${encoding})`);
  if (status === 200) return 0;
  const range = /^bytes (\d+)-/.exec(headers.get('content-range') ?? '');
  // Not every server heeds If-Range.
  const isSame = validator === null || validatorOf(response) === validator;
  if (status === 206 && have > 0 && Number(range?.[1]) === have && isSame) return have;
  await response.body?.cancel().catch(() => undefined);
  await partial.discard();
  throw new TransientFailure(`the server cannot go on at byte ${have}`);
}

/** Size of the whole file by the response's own length, if it has one; refuses what is too long or not the size that is known. */
async function checkLength(
  response: Response,
  { url, sizeBytes }: HubFile,
  partial: PartialFile,
  offset: number,
  limitBytes: number,
): Promise<number | null> {
  const length = response.headers.get('content-length');
  if (length === null) return null;
  const total = offset + Number(length);
  if (total === sizeBytes || (sizeBytes === null && total <= limitBytes)) return total;
  await partial.discard();
  throw await refuse(response, url, `it has ${total} bytes, ${expectedSize(sizeBytes, limitBytes)}`);
}

function expectedSize(sizeBytes: number | null, limitBytes: number): string {
  return sizeBytes === null ? `and ${limitBytes} are the most that is fetched` : `not ${sizeBytes}`;
}

async function refuse({ body }: Response, url: string, reason: string): Promise<TapirError> {
  await body?.cancel().catch(() => undefined);
  return downloadFailed(url, reason);
}

/** What one attempt works with. */
interface Transfer {
  readonly file: HubFile;
  readonly partial: PartialFile;
  readonly offset: number;
  readonly totalBytes: number | null;
  readonly stall: StallTimer;
  readonly signal: AbortSignal;
  readonly options: DownloadOptions;
}

async function receive(response: Response, output: AtomicFile, transfer: Transfer): Promise<void> {
  const { file, partial, offset, totalBytes, stall, signal, options } = transfer;
  const limit = file.sizeBytes ?? options.limitBytes;
  let bytes = offset;
  const reader = response.body?.getReader();
  for (;;) {
    const chunk = await reader?.read().catch((error: unknown) => {
      throw asTransient(error, signal);
    });
    if (chunk === undefined || chunk.done) break;
    stall.touch();
    if (bytes + chunk.value.byteLength > limit) {
      await reader?.cancel().catch(() => undefined);
      await partial.discard();
      throw downloadFailed(
        file.url,
        `it is longer than it may be, ${expectedSize(file.sizeBytes, options.limitBytes)} bytes`,
      );
    }
    await output.append(chunk.value);
    bytes += chunk.value.byteLength;
    options.onProgress({ file: file.name, bytes, totalBytes: totalBytes ?? file.sizeBytes });
  }
  const expected = file.sizeBytes ?? totalBytes;
  if (expected !== null && bytes < expected)
    throw new TransientFailure(`it ended after ${bytes} of ${expected} bytes`);
}
