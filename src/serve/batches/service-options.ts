/** The options of a service, and their checks. */
import {
  checkBoolean,
  checkFunction,
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
} from '../../datasets/embed/embed-options.js';
import { isTextList } from '../../extract/class-labels.js';
import type { Extractor } from '../../extract/extractor.js';
import type { TextTower } from '../../features/text/text-encoder.js';

/** Options of {@link createService}. Times are in milliseconds. */
export interface ServiceOptions extends Pick<EmbedOptions, 'transform' | 'keepDims' | 'decodeThreads'> {
  /**
   * The model's name in replies and in the paths of the Open Inference Protocol: letters, digits, `.`, `_` and `-`.
   * @default 'model'
   */
  readonly name: string;
  /**
   * Text half of the model, from {@link createTextEncoder}: `POST /v1/embeddings` then takes texts. It stays open; close it after the
   * service.
   * @default undefined
   */
  readonly textTower: TextTower | undefined;
  /**
   * Names of the classes, for `POST /classify`, in the order of an output with as many elements. Left out, they are those in the
   * model's metadata.
   * @default undefined
   */
  readonly labels: readonly string[] | undefined;
  /**
   * Maximum number of images per run, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly maxBatch: number;
  /**
   * How long an image waits for others to fill its batch while a session is free, an integer from 0 to 10 000.
   * @default 5
   */
  readonly maxWaitMs: number;
  /**
   * Maximum number of waiting images, an integer from 1 to 1 000 000. Further images get status 503.
   * @default 256
   */
  readonly maxQueue: number;
  /**
   * Maximum number of images per request, an integer from 1 to 100 000; at most `maxQueue`.
   * @default 64
   */
  readonly maxImages: number;
  /**
   * Maximum size of a request's body, and of the images fetched for it, in bytes: an integer from 1024 to 2^31 − 1.
   * @default 33554432
   */
  readonly maxBodyBytes: number;
  /**
   * Maximum size of the JSON in a body, in bytes: an integer from 1024 to 2^28; at most `maxBodyBytes`. JSON costs more time and
   * memory than images and binary tensors, which it does not limit.
   * @default 8388608
   */
  readonly maxJsonBytes: number;
  /**
   * Maximum size of all bodies together, in bytes: an integer from `maxBodyBytes` to 2^53 − 1. Further requests get status 503.
   * @default 536870912
   */
  readonly maxBufferedBytes: number;
  /**
   * Maximum number of requests in progress, an integer from 1 to 1 000 000. Further requests get status 429.
   * @default 512
   */
  readonly maxRequests: number;
  /**
   * Token that callers must send as `Authorization: Bearer TOKEN`. The routes for liveness and readiness need no token.
   * @default undefined
   */
  readonly token: string | undefined;
  /**
   * Whether to fetch images from URLs in requests.
   * @default false
   */
  readonly allowUrls: boolean;
  /**
   * Whether to fetch from private, local and reserved addresses, too.
   * @default false
   */
  readonly allowPrivateUrls: boolean;
  /**
   * Longest time to fetch an image from a URL, including redirects, an integer from 1 to 600 000.
   * @default 10000
   */
  readonly urlTimeoutMs: number;
  /**
   * Longest time for a whole request to arrive, an integer from 1 to 3 600 000.
   * @default 30000
   */
  readonly requestTimeoutMs: number;
  /**
   * Longest time for the headers of a request to arrive, an integer from 1 to 3 600 000.
   * @default 10000
   */
  readonly headersTimeoutMs: number;
  /**
   * How long a connection may be silent before it is cut, even while it waits for an answer: an integer from 1 to 3 600 000.
   * @default 120000
   */
  readonly idleTimeoutMs: number;
  /**
   * How long a connection stays open for the next request, an integer from 1 to 3 600 000.
   * @default 65000
   */
  readonly keepAliveTimeoutMs: number;
  /**
   * How long `close` waits for requests in progress, an integer from 0 to 3 600 000.
   * @default 30000
   */
  readonly shutdownTimeoutMs: number;
  /**
   * Called with errors that are not a request's fault. Clients only learn that there was an error.
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
  textTower: undefined,
  labels: undefined,
  maxBatch: 0,
  maxWaitMs: 5,
  maxQueue: 256,
  maxImages: 64,
  maxBodyBytes: 32 * 1024 ** 2,
  maxJsonBytes: 8 * 1024 ** 2,
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

/** The checked options, and the setup of embedding that follows from them. */
export interface ServiceSetup extends ServiceOptions {
  readonly embed: EmbedSetup;
}

/** Names that need no escaping in a path. */
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
  if (options.textTower !== undefined && typeof options.textTower.encode !== 'function')
    throw invalidOption('textTower', 'made by createTextEncoder', options.textTower);
  if (options.labels !== undefined && !isTextList(options.labels))
    throw invalidOption('labels', 'a list of strings, not empty', options.labels);
  checkInteger('maxWaitMs', options.maxWaitMs, 0, 10_000);
  const maxQueue = checkInteger('maxQueue', options.maxQueue, 1, 1e6);
  const maxImages = Math.min(checkInteger('maxImages', options.maxImages, 1, 1e5), maxQueue);
  const maxBodyBytes = checkInteger('maxBodyBytes', options.maxBodyBytes, 1024, 2 ** 31 - 1);
  const maxJsonBytes = Math.min(
    checkInteger('maxJsonBytes', options.maxJsonBytes, 1024, 2 ** 28),
    maxBodyBytes,
  );
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
  checkFunction('onError', options.onError);
  return { ...options, maxBatch: embed.batch, maxImages, maxJsonBytes, embed };
}
