/** Why an HTTP request failed. */
import { setTimeout as delay } from 'node:timers/promises';

/**
 * `refused`: the address must not be fetched. `unencrypted`: nor must this one, because it is not encrypted. `too-large`: the
 * answer has more bytes than allowed. `transient`: another attempt may succeed (the network, or a server that is busy).
 * `failed`: anything else.
 */
export type FailureKind = 'refused' | 'unencrypted' | 'too-large' | 'transient' | 'failed';

/** The failure of a request. Its message does not contain the address, which may hold a password or a signature. */
export class HttpFailure extends Error {
  readonly kind: FailureKind;
  /** The status of the answer; undefined if another reason ended the request. */
  readonly status: number | undefined;

  constructor(
    kind: FailureKind,
    message: string,
    { status, ...options }: ErrorOptions & { readonly status?: number } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.status = status;
  }
}

/**
 * Repeats a step after transient failures.
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
      if (pauseMs === undefined) throw failures === 0 ? error : countAttempts(error, failures + 1);
      await delay(pauseMs, undefined, signal ? { signal } : {}).catch(() => signal?.throwIfAborted());
    }
  }
}

function countAttempts(error: HttpFailure, attempts: number): HttpFailure {
  return new HttpFailure(error.kind, `${error.message} (${attempts} attempts)`, { cause: error });
}
