/** What a service takes besides its extractor, checked. */
import {
  checkBoolean,
  checkInteger,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../../base/checks.js';
import {
  EMBED_DEFAULTS,
  setUpEmbedding,
  type EmbedOptions,
  type EmbedSetup,
} from '../../embed/embed-options.js';
import type { Extractor } from '../../extract/extractor.js';

/** Options of {@link createService}. Times are in milliseconds. */
export interface ServiceOptions extends Pick<EmbedOptions, 'transform' | 'keepDims' | 'decodeThreads'> {
  /**
   * The model's name in replies and in the paths of the Open Inference Protocol: letters, digits, `.`, `_` and `-`.
   * @default 'model'
   */
  readonly name: string;
  /**
   * Images per run at most, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly maxBatch: number;
  /**
   * How long an image waits for others to fill its batch while a session is free, an integer from 0 to 10 000.
   * @default 5
   */
  readonly maxWaitMs: number;
  /**
   * Images that are waiting, an integer from 1 to 1 000 000; more are refused with status 503.
   * @default 256
   */
  readonly maxQueue: number;
  /**
   * Images of one request, an integer from 1 to 100 000; never more than `maxQueue`.
   * @default 64
   */
  readonly maxImages: number;
  /**
   * Bytes of a request's body, or of all that it has fetched, an integer from 1024 to 2^31 − 1.
   * @default 33554432
   */
  readonly maxBodyBytes: number;
  /**
   * Bytes of the bodies of all requests together, an integer from `maxBodyBytes` to 2^53 − 1; more are refused with status 503.
   * @default 536870912
   */
  readonly maxBufferedBytes: number;
  /**
   * Requests that are answered at once, an integer from 1 to 1 000 000; more are refused with status 429.
   * @default 512
   */
  readonly maxRequests: number;
  /**
   * What callers must send as `Authorization: Bearer TOKEN`, on all routes but those that ask for life and readiness.
   * @default undefined
   */
  readonly token: string | undefined;
  /**
   * Fetch images from URLs that a request names.
   * @default false
   */
  readonly allowUrls: boolean;
  /**
   * Fetch from addresses that are private, local or reserved too.
   * @default false
   */
  readonly allowPrivateUrls: boolean;
  /**
   * Longest time to fetch an image from a URL, redirects included, an integer from 1 to 600 000.
   * @default 10000
   */
  readonly urlTimeoutMs: number;
  /**
   * Longest time in which a whole request must have arrived, an integer from 1 to 3 600 000.
   * @default 30000
   */
  readonly requestTimeoutMs: number;
  /**
   * Longest time in which its headers must have arrived, an integer from 1 to 3 600 000.
   * @default 10000
   */
  readonly headersTimeoutMs: number;
  /**
   * How long a connection may be silent before it is cut, one that waits for its answer included, an integer from 1 to 3 600 000.
   * @default 120000
   */
  readonly idleTimeoutMs: number;
  /**
   * How long a connection is kept open for the next request, an integer from 1 to 3 600 000.
   * @default 65000
   */
  readonly keepAliveTimeoutMs: number;
  /**
   * How long `close` waits for requests that are being answered, an integer from 0 to 3 600 000.
   * @default 30000
   */
  readonly shutdownTimeoutMs: number;
  /**
   * Told of errors that no request is to blame for; those who sent them learn no more than that there was one.
   * @default undefined
   */
  readonly onError: ((error: unknown) => void) | undefined;
}

const { transform, keepDims, decodeThreads } = EMBED_DEFAULTS;

export const SERVICE_DEFAULTS: ServiceOptions = {
  transform,
  keepDims,
  decodeThreads,
  name: 'model',
  maxBatch: 0,
  maxWaitMs: 5,
  maxQueue: 256,
  maxImages: 64,
  maxBodyBytes: 32 * 1024 ** 2,
  maxBufferedBytes: 512 * 1024 ** 2,
  maxRequests: 512,
  token: undefined,
  allowUrls: false,
  allowPrivateUrls: false,
  urlTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  headersTimeoutMs: 10_000,
  idleTimeoutMs: 120_000,
  keepAliveTimeoutMs: 65_000,
  shutdownTimeoutMs: 30_000,
  onError: undefined,
};

/** Checked options, and what embedding makes of them. */
export interface ServiceSetup extends ServiceOptions {
  readonly embed: EmbedSetup;
}

/** Names that stand in a path as they are. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const HOUR_MS = 3_600_000;

/** Checks options against the extractor. Throws `OPTION_INVALID`. */
export function setUpService(extractor: Extractor, given: Options<ServiceOptions>): ServiceSetup {
  const options = withDefaults(SERVICE_DEFAULTS, given, 'createService');
  const batch = checkInteger('maxBatch', options.maxBatch, 0, 4096);
  const embed = setUpEmbedding(extractor, {
    ...EMBED_DEFAULTS,
    transform: options.transform,
    keepDims: options.keepDims,
    decodeThreads: options.decodeThreads,
    batch,
  });
  if (!NAME.test(checkText('name', options.name)))
    throw invalidOption('name', 'made of letters, digits, ".", "_" and "-", 128 at most', options.name);
  checkInteger('maxWaitMs', options.maxWaitMs, 0, 10_000);
  const maxQueue = checkInteger('maxQueue', options.maxQueue, 1, 1e6);
  const maxImages = Math.min(checkInteger('maxImages', options.maxImages, 1, 1e5), maxQueue);
  const maxBodyBytes = checkInteger('maxBodyBytes', options.maxBodyBytes, 1024, 2 ** 31 - 1);
  checkInteger('maxBufferedBytes', options.maxBufferedBytes, maxBodyBytes, Number.MAX_SAFE_INTEGER);
  checkInteger('maxRequests', options.maxRequests, 1, 1e6);
  if (options.token !== undefined) checkText('token', options.token);
  checkBoolean('allowUrls', options.allowUrls);
  checkBoolean('allowPrivateUrls', options.allowPrivateUrls);
  checkInteger('urlTimeoutMs', options.urlTimeoutMs, 1, 600_000);
  for (const option of [
    'requestTimeoutMs',
    'headersTimeoutMs',
    'idleTimeoutMs',
    'keepAliveTimeoutMs',
  ] as const)
    checkInteger(option, options[option], 1, HOUR_MS);
  checkInteger('shutdownTimeoutMs', options.shutdownTimeoutMs, 0, HOUR_MS);
  if (options.onError !== undefined && typeof options.onError !== 'function')
    throw invalidOption('onError', 'a function', options.onError);
  return { ...options, maxBatch: embed.batch, maxImages, embed };
}
