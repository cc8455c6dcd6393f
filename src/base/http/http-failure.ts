/** Why an HTTP request failed. */
import { setTimeout as delay } from 'node:timers/promises';

/**
 * `refused`: the address must not be fetched. `unencrypted`: nor must this one, because it is not encrypted. `too-large`: the
 * answer has more bytes than allowed. `certificate`: the server's is not trusted. `transient`: another attempt may succeed (the network, or a server that is busy).
 * `failed`: anything else.
 */
export type FailureKind = 'refused' | 'unencrypted' | 'too-large' | 'certificate' | 'transient' | 'failed';

/** The failure of a request. Its message does not contain the address, which may hold a password or a signature. */
export class HttpFailure extends Error {
  readonly kind: FailureKind;
  /** The status of the answer; undefined if another reason ended the request. */
  readonly status: number | undefined;
  /** How long the server asks to wait; undefined if it does not say. */
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: FailureKind,
    message: string,
    facts: ErrorOptions & Partial<Pick<HttpFailure, 'status' | 'retryAfterMs'>> = {},
  ) {
    super(message, facts);
    this.kind = kind;
    this.status = facts.status;
    this.retryAfterMs = facts.retryAfterMs;
  }
}

/** The longest pause that a server can ask for (`Retry-After`). */
const MOST_WAIT_MS = 120_000;

/**
 * Repeats a step after transient failures. A server that asks for a longer pause gets it, up to two minutes.
 *
 * @param delaysMs - The pause before each further attempt. Their number limits the attempts.
 * @throws What the last attempt throws, with the number of attempts; the signal's reason.
 */
export async function retryTransient<Result>(
  delaysMs: readonly number[],
  signal: AbortSignal | undefined,
  step: () => Promise<Result>,
): Promise<Result> {
  for (let failures = 0; ; failures++) {
    signal?.throwIfAborted();
    try {
      return await step();
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof HttpFailure)) throw error;
      const pauseMs = error.kind === 'transient' ? delaysMs[failures] : undefined;
      const { retryAfterMs = 0 } = error;
      if (pauseMs === undefined)
        throw failures === 0 ? error : withNote(error, ` (${failures + 1} attempts)`);
      if (retryAfterMs > MOST_WAIT_MS)
        throw withNote(error, `, and asks to wait ${Math.ceil(retryAfterMs / 1000)} s`);
      await delay(Math.max(pauseMs, retryAfterMs), undefined, signal ? { signal } : {}).catch(() =>
        signal?.throwIfAborted(),
      );
    }
  }
}

function withNote(error: HttpFailure, note: string): HttpFailure {
  const { kind, message, status } = error;
  return new HttpFailure(kind, message + note, { status, cause: error });
}
