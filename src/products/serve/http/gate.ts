/** The entrance of a service: it checks the token, and limits the requests and bytes in progress. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { HttpError } from './http-error.js';

/** See `ServiceOptions`. */
interface GateLimits {
  readonly maxRequests: number;
  readonly maxBodyBytes: number;
  readonly maxBufferedBytes: number;
}

/** The share of the limits that a request holds until it has been answered. */
export interface Admission {
  /** Reserves bytes that the request needs besides its body. Throws `QUEUE_FULL` if they exceed the limit. */
  reserve(bytes: number): void;
  /** Returns the whole share. Idempotent. */
  release(): void;
}

export class Gate {
  readonly #limits: GateLimits;
  readonly #token: Buffer | undefined;
  #requests = 0;
  #bytes = 0;

  constructor(limits: GateLimits, token: string | undefined) {
    this.#limits = limits;
    this.#token = token === undefined ? undefined : digest(token);
  }

  get requests(): number {
    return this.#requests;
  }

  /** Throws `UNAUTHORIZED` if the service has a token and the header Authorization does not hold it. */
  checkToken(authorization: string | undefined): void {
    if (!this.#token) return;
    const given = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    // Digests have equal lengths, so that comparing them always takes the same time.
    if (given !== undefined && timingSafeEqual(digest(given), this.#token)) return;
    throw new HttpError('UNAUTHORIZED', 'the request needs the header Authorization: Bearer TOKEN');
  }

  /** Admits a request. A body of unknown length counts as the largest. Throws `BODY_TOO_LARGE`, `TOO_MANY_REQUESTS`, `QUEUE_FULL`. */
  enter(contentLength: number | undefined): Admission {
    const { maxRequests, maxBodyBytes, maxBufferedBytes } = this.#limits;
    if (contentLength !== undefined && contentLength > maxBodyBytes)
      throw new HttpError(
        'BODY_TOO_LARGE',
        `the body has ${contentLength} bytes; ${maxBodyBytes} are allowed`,
      );
    if (this.#requests >= maxRequests)
      throw new HttpError('TOO_MANY_REQUESTS', `${maxRequests} requests are being answered; try again later`);
    let held = 0;
    const reserve = (bytes: number): void => {
      if (this.#bytes + bytes > maxBufferedBytes)
        throw new HttpError('QUEUE_FULL', 'other requests hold too many bytes; try again later');
      this.#bytes += bytes;
      held += bytes;
    };
    reserve(contentLength ?? maxBodyBytes);
    this.#requests++;
    let isIn = true;
    return {
      reserve,
      release: () => {
        if (!isIn) return;
        isIn = false;
        this.#requests--;
        this.#bytes -= held;
      },
    };
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
