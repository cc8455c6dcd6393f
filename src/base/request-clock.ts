/** The time that an HTTP request may take. */
import { reasonOf } from './errors.js';
import { HttpFailure } from './http-failure.js';

/** A limit of time. */
export interface TimeLimit {
  readonly ms: number;
  /** What may take that long: the whole request with its redirects, or a silence of the server. */
  readonly of: 'whole' | 'silence';
}

/** Limits the time of a request, and tells its failures apart. */
export class RequestClock {
  readonly #limit: TimeLimit;
  readonly #given: AbortSignal | undefined;
  readonly #timeout = new AbortController();
  readonly #timer: NodeJS.Timeout;
  /** Fires when the time is over, and when the caller's signal fires. */
  readonly signal: AbortSignal;

  constructor(limit: TimeLimit, signal: AbortSignal | undefined) {
    this.#limit = limit;
    this.#given = signal;
    this.#timer = setTimeout(() => this.#timeout.abort(), limit.ms);
    this.signal = signal ? AbortSignal.any([signal, this.#timeout.signal]) : this.#timeout.signal;
  }

  /** Notes that bytes have arrived. */
  touch(): void {
    if (this.#limit.of === 'silence') this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Returns the error for what a request threw: the caller's reason, a refusal, a timeout or a failure of the network. */
  explain(error: unknown): unknown {
    if (this.#given?.aborted === true) return this.#given.reason;
    if (error instanceof HttpFailure) return error;
    if (this.#timeout.signal.aborted) {
      const what = this.#limit.of === 'whole' ? 'it took longer than' : 'nothing arrived for';
      return new HttpFailure('transient', `${what} ${this.#limit.ms} ms`, { cause: error });
    }
    return new HttpFailure('transient', networkReason(error), { cause: error });
  }
}

/** The messages of network errors may contain the address: their codes do not. */
function networkReason(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code !== 'string') return reasonOf(error);
  return code.startsWith('UND_ERR') ? 'the connection broke' : `the server cannot be reached (${code})`;
}
