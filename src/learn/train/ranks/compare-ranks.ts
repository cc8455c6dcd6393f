/** What ranks tell each other besides gradients, and how they find out that they have drifted apart. */
import { crc32 } from 'node:zlib';
import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../../base/errors.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { ranksDiffer, type ProcessGroup } from './process-group.js';

/** Gives numbers of this rank to all. Returns those of each rank, in their order: what is computed of them is the same everywhere. */
export async function gather(
  group: ProcessGroup,
  own: ArrayLike<number>,
  signal?: AbortSignal,
): Promise<Float64Array[]> {
  const { rank, size } = group;
  const all = new Float64Array(size * own.length);
  all.set(own, rank * own.length);
  if (size > 1) await group.sum([all], signal);
  return Array.from({ length: size }, (_, i) => all.subarray(i * own.length, (i + 1) * own.length));
}

/** Gives a text of this rank to all. Returns the text of each rank. */
export async function gatherTexts(group: ProcessGroup, text: string): Promise<string[]> {
  if (group.size === 1) return [text];
  const bytes = Buffer.from(text);
  const lengths = (await gather(group, [bytes.length])).map(([length]) => length!);
  const own = new Float64Array(Math.max(...lengths));
  own.set(bytes);
  const rows = await gather(group, own);
  return rows.map((row, i) => Buffer.from(Uint8Array.from(row.subarray(0, lengths[i]))).toString());
}

/** The calls that all ranks make together. */
const CALLS = ['step', 'evaluate', 'save', 'resume'] as const;
/** Numbers of each call; all have as many, so that a rank that makes another call is noticed. */
const MEETING_NUMBERS = 5;

/**
 * Begins a call that all ranks make together, and shares numbers: at most five.
 *
 * @returns Their sums over ranks, in the order of ranks.
 * @throws {@link TapirError} `RANKS_DIFFER` for a rank that makes another call, or has taken another number of steps; `RANK_LOST`.
 */
export async function meet(
  group: ProcessGroup,
  call: (typeof CALLS)[number],
  steps: number,
  numbers: readonly number[] = [],
  signal?: AbortSignal,
): Promise<number[]> {
  const own = [...numbers, ...Array<number>(MEETING_NUMBERS - numbers.length).fill(0)];
  const all = await gather(group, [CALLS.indexOf(call), steps, ...own], signal);
  const [first] = all;
  for (const [rank, [other, taken]] of all.entries()) {
    const of = (at: number | undefined): string => `${CALLS[at!]} after step ${taken}`;
    const advice = `it calls ${of(other)}, rank 0 ${CALLS[first![0]!]} after step ${first![1]}: all ranks need as many batches (null for one without rows)`;
    if (other !== first![0] || taken !== first![1]) throw ranksDiffer(rank, 'call', advice);
  }
  return own.map((_, at) => all.reduce((sum, row) => sum + row[2 + at]!, 0));
}

/**
 * Compares facts, which JSON can express, with those of rank 0.
 *
 * @throws {@link TapirError} `RANKS_DIFFER`, on all ranks.
 */
export async function compareFacts(
  group: ProcessGroup,
  facts: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (group.size === 1) return;
  const texts = await gatherTexts(group, JSON.stringify(facts));
  const [first, ...others] = texts.map((text) => JSON.parse(text) as Record<string, unknown>);
  for (const [i, other] of others.entries()) {
    const keys = [...new Set([...Object.keys(first!), ...Object.keys(other)])];
    const what = keys.find((key) => !isDeepStrictEqual(other[key], first![key]));
    if (what !== undefined)
      throw ranksDiffer(i + 1, `"${what}"`, 'start all with the same version, model and options');
  }
}

/** A tensor by its name. */
export interface NamedValues {
  readonly name: string;
  readonly values: Float32Array;
}

/** Compares checksums of tensors with those of rank 0. Throws `RANKS_DIFFER` on all ranks, which names the first tensor. */
export async function compareTensors(
  group: ProcessGroup,
  tensors: readonly NamedValues[],
  steps: number,
): Promise<void> {
  if (group.size === 1) return;
  const [first, ...others] = await gather(
    group,
    tensors.map(({ values }) => crc32(bytesOf(values))),
  );
  for (const [i, other] of others.entries()) {
    const at = other.findIndex((checksum, k) => checksum !== first![k]);
    const advice =
      'resume from the last checkpoint; if it happens again, run all ranks on machines of one kind';
    if (at >= 0) throw ranksDiffer(i + 1, `"${tensors[at]!.name}" after step ${steps}`, advice);
  }
}

/** Does what may fail on this rank alone. Then it leaves the group: the others could only wait for it. */
export async function leaveOnFailure<Result>(
  group: ProcessGroup,
  work: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (group.size > 1) await group.close(reasonOf(error));
    throw error;
  }
}
