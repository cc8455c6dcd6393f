/** The time that an HTTP request may take. */
import { reasonOf } from '../errors.js';
import { HttpFailure } from './http-failure.js';

/** A server that sends a byte a second is not silent, and yet nobody gets a file from it. */
export const LEAST_BYTES = 1024;

/** A limit of time. */
export interface TimeLimit {
  readonly ms: number;
  /** What may take that long: the whole request with its redirects, or {@link LEAST_BYTES}. */
  readonly of: 'whole' | 'silence';
}

/** Limits the time of a request, and tells its failures apart. */
export class RequestClock {
  readonly #limit: TimeLimit;
  readonly #given: AbortSignal | undefined;
  readonly #timeout = new AbortController();
  readonly #timer: NodeJS.Timeout;
  /** Bytes since the timer started. */
  #bytes = 0;
  /** Fires when the time is over, and when the caller's signal fires. */
  readonly signal: AbortSignal;

  constructor(limit: TimeLimit, signal: AbortSignal | undefined) {
    this.#limit = limit;
    this.#given = signal;
    this.#timer = setTimeout(() => this.#timeout.abort(), limit.ms);
    this.signal = signal ? AbortSignal.any([signal, this.#timeout.signal]) : this.#timeout.signal;
  }

  /** Notes that bytes have arrived. */
  touch(bytes: number): void {
    this.#bytes += bytes;
    if (this.#limit.of === 'whole' || this.#bytes < LEAST_BYTES) return;
    this.#bytes = 0;
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Returns the error for what a request threw: the caller's reason, a refusal, a timeout or a failure of the network. */
  explain(error: unknown): unknown {
    if (this.#given?.aborted === true) return this.#given.reason;
    if (error instanceof HttpFailure) return error;
    if (this.#timeout.signal.aborted) {
      const little = this.#bytes === 0 ? 'nothing arrived for' : `only ${this.#bytes} bytes arrived in`;
      const what = this.#limit.of === 'whole' ? 'it took longer than' : little;
      return new HttpFailure('transient', `${what} ${this.#limit.ms} ms`, { cause: error });
    }
    const code = codeOf(error);
    // Another attempt meets the same certificate.
    if (IS_CERTIFICATE.test(code))
      return new HttpFailure('certificate', `its certificate is not trusted (${code})`, { cause: error });
    return new HttpFailure('transient', networkReason(error), { cause: error });
  }
}

/** The codes of OpenSSL and Node for a certificate that cannot be verified. */
const IS_CERTIFICATE = /CERT|^UNABLE_TO_|^INVALID_(?:CA|PURPOSE)$|^HOSTNAME_MISMATCH$|^PATH_LENGTH_EXCEEDED$/;

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? code : '';
}

/** The codes of connections that ended in the midst of a request, and of answers that are not HTTP. */
const BREAKS = /^(?:ECONNRESET|EPIPE|HPE_|ERR_STREAM)/;

/** The messages of network errors may contain the address: their codes do not. */
function networkReason(error: unknown): string {
  const code = codeOf(error);
  if (code === '') return reasonOf(error);
  return BREAKS.test(code) ? 'the connection broke' : `the server cannot be reached (${code})`;
}
