/** Who is let in: the token, and how much is being answered at once. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { HttpError } from './http-error.js';
import type { ServiceSetup } from './service-options.js';

/** What a request holds until it is over. */
export interface Admission {
  /** Counts bytes that it will keep besides its body. Throws `QUEUE_FULL` if there is no room for them. */
  reserve(bytes: number): void;
  /** Gives all of it back. Idempotent. */
  release(): void;
}

/** Lets requests in, and counts them. */
export class Gate {
  readonly #setup: Pick<ServiceSetup, 'maxRequests' | 'maxBodyBytes' | 'maxBufferedBytes'>;
  readonly #token: Buffer | undefined;
  #requests = 0;
  #bytes = 0;

  constructor(
    setup: Pick<ServiceSetup, 'maxRequests' | 'maxBodyBytes' | 'maxBufferedBytes'>,
    token: string | undefined,
  ) {
    this.#setup = setup;
    this.#token = token === undefined ? undefined : digest(token);
  }

  /** Requests that are in. */
  get requests(): number {
    return this.#requests;
  }

  /** Throws `UNAUTHORIZED` unless the header Authorization holds the token, if there is one. */
  checkToken(authorization: string | undefined): void {
    if (!this.#token) return;
    const given = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    // Digests are equally long; comparing them takes equally long whatever was given.
    if (given !== undefined && timingSafeEqual(digest(given), this.#token)) return;
    throw new HttpError('UNAUTHORIZED', 'the request needs the header Authorization: Bearer TOKEN');
  }

  /**
   * Lets a request in.
   *
   * @param contentLength - Bytes of its body; undefined if it does not say, which counts as the most that is read.
   * @throws {@link HttpError} `BODY_TOO_LARGE`, `TOO_MANY_REQUESTS`, `QUEUE_FULL`.
   */
  enter(contentLength: number | undefined): Admission {
    const { maxRequests, maxBodyBytes, maxBufferedBytes } = this.#setup;
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
        throw new HttpError('QUEUE_FULL', 'too many bytes of other requests are held; try again later');
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
