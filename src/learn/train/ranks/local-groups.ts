/** Ranks inside one program. */
import { checkInteger, type Options } from '../../../base/checks.js';
import { integer, readOptions, type Fields } from '../../../base/options.js';
import { LEFT, rankLost, ranksDiffer, TIMEOUT_MS, type ProcessGroup } from './process-group.js';

/** Options of {@link localGroups} and {@link joinGroup}. */
export interface GroupOptions {
  /**
   * Milliseconds that a rank waits for the others in one call, an integer from 1 to 2^31 − 1.
   * @default 600000
   */
  readonly timeoutMs: number;
}

export const GROUP_FIELDS: Fields<GroupOptions> = {
  timeoutMs: integer(1, 2 ** 31 - 1, TIMEOUT_MS, 'how long ranks wait for one another, in milliseconds'),
};

/** The most ranks in one program. */
const MOST_RANKS = 1024;

/**
 * Makes the groups of several ranks in one program: for tests, and for several trainers on one machine.
 *
 * @param size - How many ranks, an integer from 1 to 1024.
 * @returns A group for each rank. Sums are taken in float64, in the order of ranks, and rounded once.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { createTrainer, localGroups, type TrainBatch } from 'onnx-tapir/train';
 *
 * declare const shares: readonly TrainBatch[]; // the rows of each rank
 *
 * const losses = await Promise.all(
 *   localGroups(2).map(async (group) => {
 *     await using trainer = await createTrainer('resnet50.onnx', { loss: 'cross-entropy', optimizer: 'sgd', group });
 *     return (await trainer.step(shares[group.rank]!)).loss;
 *   }),
 * );
 * console.log(losses); // the same loss twice: that of all rows
 * ```
 */
export function localGroups(size: number, given: Options<GroupOptions> = {}): ProcessGroup[] {
  checkInteger('size', size, 1, MOST_RANKS);
  const { timeoutMs } = readOptions(GROUP_FIELDS, given, 'localGroups');
  const meeting = new Meeting(size, timeoutMs);
  return Array.from({ length: size }, (_, rank): ProcessGroup => ({
    rank,
    size,
    sum: (arrays, signal) => meeting.call(rank, { kind: 'sum', arrays }, signal).then(() => undefined),
    broadcast: (bytes) =>
      meeting.call(rank, { kind: 'broadcast', arrays: [bytes] }).then(([first]) => first!.slice()),
    barrier: () => meeting.call(rank, { kind: 'barrier', arrays: [] }).then(() => undefined),
    close: (reason = LEFT) => Promise.resolve(meeting.leave(rank, reason)),
  }));
}

type Arrays = readonly (Float64Array | Float32Array | Uint8Array)[];

interface Call {
  readonly kind: 'sum' | 'broadcast' | 'barrier';
  readonly arrays: Arrays;
}

interface Waiting extends Call {
  /** With the arrays of rank 0. */
  readonly resolve: (first: readonly Uint8Array[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Where ranks wait until all have come. */
class Meeting {
  readonly #size: number;
  readonly #timeoutMs: number;
  readonly #waiting = new Map<number, Waiting>();
  readonly #left = new Map<number, string>();

  constructor(size: number, timeoutMs: number) {
    this.#size = size;
    this.#timeoutMs = timeoutMs;
  }

  async call(rank: number, call: Call, signal?: AbortSignal): Promise<readonly Uint8Array[]> {
    signal?.throwIfAborted();
    const [lost] = this.#left;
    if (lost) throw rankLost(...lost);
    const timer = setTimeout(() => this.#giveUp(), this.#timeoutMs);
    const abort = (): void => this.leave(rank, 'it was stopped', signal!.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await new Promise<readonly Uint8Array[]>((resolve, reject) => {
        this.#waiting.set(rank, { ...call, resolve, reject });
        if (this.#waiting.size === this.#size) this.#finish();
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Ends the calls of all ranks: this one's with its own error. */
  leave(rank: number, reason: string, own?: unknown): void {
    if (this.#left.has(rank)) return;
    this.#left.set(rank, reason);
    const [first] = this.#left;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const [other, { reject }] of waiting)
      reject(other === rank && own !== undefined ? own : rankLost(...first!));
  }

  #giveUp(): void {
    const absent = Array.from({ length: this.#size }, (_, i) => i).find((rank) => !this.#waiting.has(rank));
    if (absent !== undefined)
      this.leave(absent, `it has not come to a call of the others within ${this.#timeoutMs} ms`);
  }

  #finish(): void {
    const calls = Array.from({ length: this.#size }, (_, rank) => this.#waiting.get(rank)!);
    this.#waiting.clear();
    const [first] = calls;
    const formOf = ({ kind, arrays }: Call): string =>
      kind === 'sum' ? `sum of ${arrays.map((array) => array.length).join(', ')} numbers` : kind;
    const odd = calls.findIndex((call) => formOf(call) !== formOf(first!));
    const error = odd < 0 ? undefined : ranksDiffer(odd, `call (${formOf(calls[odd]!)})`, formOf(first!));
    if (!error && first!.kind === 'sum') addUp(calls.map(({ arrays }) => arrays));
    for (const { resolve, reject } of calls)
      if (error) reject(error);
      else resolve(first!.arrays as readonly Uint8Array[]);
  }
}

/** Replaces each element by its sum. */
function addUp(ranks: readonly Arrays[]): void {
  for (const [i, { length }] of ranks[0]!.entries())
    for (let at = 0; at < length; at++) {
      let sum = 0;
      for (const arrays of ranks) sum += arrays[i]![at]!;
      for (const arrays of ranks) arrays[i]![at] = sum;
    }
}
