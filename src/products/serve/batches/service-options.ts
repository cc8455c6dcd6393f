/** The options of a service, and their checks. */
import { photoFields, type PhotoOptions } from '../../../photos/feeds/photo-options.js';
import {
  EMBED_FIELDS,
  setUpEmbedding,
  type EmbedOptions,
  type EmbedSetup,
} from '../../../datasets/embed/embed-options.js';
import { checkLabels } from '../../../extract/class-labels.js';
import {
  boolean,
  callback,
  checkedBy,
  integer,
  optional,
  readOptions,
  text,
  type Fields,
} from '../../../base/options.js';
import { invalidOption, type Options } from '../../../base/checks.js';
import type { TextTower } from '../../features/text/text-encoder.js';
import type { Extractor } from '../../../extract/extractor.js';

/** Options of {@link createService}. Times are in milliseconds. `tiles` and `clips` are refused: a reply has a row per photo. */
export interface ServiceOptions extends PhotoOptions, Pick<EmbedOptions, 'keepDims' | 'decodeThreads'> {
  /**
   * The model's name in replies and in OpenAI's API: letters, digits, `.`, `_` and `-`.
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

/** The checked options, and how photos run. */
export interface ServiceSetup extends ServiceOptions {
  readonly photos: EmbedSetup;
}

/** Names that need no escaping in a path. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const HOUR_MS = 3_600_000;

const { keepDims, decodeThreads } = EMBED_FIELDS;
const ONE_ROW = 'a reply has a row per photo; send tiles as photos, and clips as tensors';

export const SERVICE_FIELDS: Fields<ServiceOptions> = {
  ...photoFields({ tiles: ONE_ROW, clips: ONE_ROW }),
  keepDims,
  decodeThreads,
  name: checkedBy(checkName, 'model', 'the model’s name in paths and replies'),
  textTower: optional(checkTower),
  labels: optional(checkLabels),
  maxBatch: integer(0, 4096, 0, 'images per run; 0 for 8 on the CPU and 32 on a GPU'),
  maxWaitMs: integer(0, 10_000, 5, 'how long an image waits for others to fill its batch'),
  maxQueue: integer(1, 1e6, 256, 'images that may wait; beyond: 503'),
  maxImages: integer(1, 1e5, 64, 'images per request; beyond: 413'),
  maxBodyBytes: integer(1024, 2 ** 31 - 1, 32 * 1024 ** 2, 'bytes of a request; beyond: 413'),
  maxJsonBytes: integer(1024, 2 ** 28, 8 * 1024 ** 2, 'bytes of JSON in a request; beyond: 413'),
  maxBufferedBytes: integer(1, Number.MAX_SAFE_INTEGER, 512 * 1024 ** 2),
  maxRequests: integer(1, 1e6, 512, 'requests in progress; beyond: 429'),
  token: optional(text('', 'bearer token that callers must send (default: TAPIR_TOKEN, if set)')),
  allowUrls: boolean(false, 'fetch images from URLs in requests'),
  allowPrivateUrls: boolean(false, 'fetch from private and local addresses, too'),
  urlTimeoutMs: integer(1, 600_000, 10_000),
  requestTimeoutMs: integer(1, HOUR_MS, 30_000, 'milliseconds for a request to arrive'),
  headersTimeoutMs: integer(1, HOUR_MS, 10_000),
  idleTimeoutMs: integer(1, HOUR_MS, 120_000),
  keepAliveTimeoutMs: integer(1, HOUR_MS, 65_000),
  shutdownTimeoutMs: integer(0, HOUR_MS, 30_000, 'milliseconds to finish requests when stopped'),
  onError: callback(),
};

export const SERVICE_DEFAULTS: ServiceOptions = readOptions(SERVICE_FIELDS, {}, 'createService');

/** Checks options against the extractor. Throws `OPTION_INVALID`. */
export function setUpService(extractor: Extractor, given: Options<ServiceOptions>): ServiceSetup {
  const options = readOptions(SERVICE_FIELDS, given, 'createService');
  const { transform, keepDims, decodeThreads, maxBatch: batch, maxBodyBytes } = options;
  const buffered = integer(maxBodyBytes, Number.MAX_SAFE_INTEGER, maxBodyBytes);
  buffered.check('maxBufferedBytes', options.maxBufferedBytes);
  const photos = setUpEmbedding(extractor, { transform, keepDims, decodeThreads, batch });
  return {
    ...options,
    maxBatch: photos.batch,
    maxImages: Math.min(options.maxImages, options.maxQueue),
    maxJsonBytes: Math.min(options.maxJsonBytes, maxBodyBytes),
    photos,
  };
}

function checkName(option: string, value: unknown): string {
  const name = text('').check(option, value);
  if (NAME.test(name)) return name;
  throw invalidOption(option, 'made of letters, digits, ".", "_" and "-", 128 at most', value);
}

function checkTower(option: string, value: unknown): TextTower {
  if (typeof (value as TextTower | null)?.encode === 'function') return value as TextTower;
  throw invalidOption(option, 'made by createTextEncoder', value);
}
