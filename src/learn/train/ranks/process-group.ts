/** The ranks of a training: what they ask of a transport. */
import { invalidOption } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';

/**
 * The processes that train together, as torch's process group: each is a rank. All ranks make the same calls in the same order, and a call
 * resolves when all have made it. {@link joinGroup} and {@link localGroups} give groups; an object of your own is one, too.
 */
export interface ProcessGroup {
  /** Number of this process, from 0. */
  readonly rank: number;
  /** How many processes there are. */
  readonly size: number;
  /**
   * Replaces each element by its sum over all ranks, in place. All ranks get the same bits. Rejects with `RANK_LOST`, or with the signal's
   * reason; after both, the group can only be closed.
   */
  sum(arrays: readonly Float64Array[] | readonly Float32Array[], signal?: AbortSignal): Promise<void>;
  /** Gives each rank the bytes of rank 0. What other ranks pass is ignored. */
  broadcast(bytes: Uint8Array): Promise<Uint8Array>;
  /** Waits for all ranks. */
  barrier(): Promise<void>;
  /** Leaves the group. The other ranks' calls reject with `RANK_LOST` then, which states the reason. Idempotent. */
  close(reason?: string): Promise<void>;
}

/** The group of a process that trains alone. */
export const ALONE: ProcessGroup = {
  rank: 0,
  size: 1,
  sum: () => Promise.resolve(),
  broadcast: (bytes) => Promise.resolve(bytes),
  barrier: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

/** How long ranks wait for one another, in milliseconds: ten minutes, as torch. */
export const TIMEOUT_MS = 600_000;
/** The reason of a rank that closes its group without one. */
export const LEFT = 'it has left the group';

const CALLS = ['sum', 'broadcast', 'barrier', 'close'] as const;

/** Reads the option. Throws `OPTION_INVALID`. */
export function checkGroup(option: string, value: unknown): ProcessGroup | undefined {
  if (value === undefined) return undefined;
  const group = (typeof value === 'object' && value !== null ? value : {}) as ProcessGroup;
  const isWhole = CALLS.every((call) => typeof group[call] === 'function');
  if (isWhole && Number.isInteger(group.rank) && group.rank >= 0 && group.rank < group.size) return group;
  throw invalidOption(option, 'a group of ranks, as joinGroup and localGroups give', value);
}

/** @param rank - null if it is not known which one. */
export function rankLost(rank: number | null, reason: string, cause?: unknown): TapirError<'RANK_LOST'> {
  const who = rank === null ? 'the ranks have lost each other' : `rank ${rank} is lost`;
  const message = `${who}: ${reason}; the weights are as before the step. Start all ranks again to resume from the last checkpoint`;
  return new TapirError('RANK_LOST', message, { details: { rank, reason }, cause });
}

export function ranksDiffer(rank: number, what: string, advice: string): TapirError<'RANKS_DIFFER'> {
  const message = `rank ${rank} has another ${what} than rank 0; ${advice}`;
  return new TapirError('RANKS_DIFFER', message, { details: { rank, what } });
}
