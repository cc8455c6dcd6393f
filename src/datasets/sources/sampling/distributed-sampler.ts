/** The indices of a data set that belong to one of several processes, as torch.utils.data.DistributedSampler assigns them. */
import { checkInteger, type Options } from '../../../base/checks.js';
import { boolean, integer, oneOf, readOptions, type Fields } from '../../../base/options.js';

/** Options of {@link distributedSampler}. */
export interface SamplerOptions {
  /** Number of this process, an integer from 0 to `worldSize - 1`. */
  readonly rank: number;
  /** Number of processes, an integer from 1 to 1 million. */
  readonly worldSize: number;
  /**
   * Shuffle first, in the order of `torch.randperm` with a CPU generator of seed `seed + epoch`.
   * @default false
   */
  readonly shuffle: boolean;
  /**
   * An integer from 0 to 2^32 − 1, the same in all processes.
   * @default 0
   */
  readonly seed: number;
  /**
   * An integer from 0 to 2^32 − 1. Each epoch has another order.
   * @default 0
   */
  readonly epoch: number;
  /**
   * Leave out the last indices if they cannot be divided equally.
   * @default false
   */
  readonly dropLast: boolean;
  /**
   * What happens if the indices cannot be divided equally. `'none'`: some processes have one index less, and each index is in
   * exactly one process. `'torch'`: these processes take indices from the beginning again, as DistributedSampler does, so that a
   * result over all processes counts some images twice.
   * @default 'none'
   */
  readonly pad: 'none' | 'torch';
}

/** Above this length torch shuffles with another algorithm. */
const MAX_LENGTH = Math.floor(0xffff_ffff / 20) - 1;
const MAX_WORLD = 1e6;
const MAX_SEED = 2 ** 32 - 1;

// Who leaves out the first two gets their refusal.
export const SAMPLER_FIELDS: Fields<SamplerOptions> = {
  worldSize: integer(1, MAX_WORLD, 0),
  rank: integer(0, MAX_WORLD - 1, -1),
  shuffle: boolean(false),
  seed: integer(0, MAX_SEED, 0),
  epoch: integer(0, MAX_SEED, 0),
  dropLast: boolean(false),
  pad: oneOf(['none', 'torch'], 'none'),
};

/**
 * Returns the indices of one process: every `worldSize`-th index, starting at `rank`. With `pad: 'torch'` they equal those of
 * `torch.utils.data.DistributedSampler`, shuffled or not.
 *
 * @remarks Shuffling takes 4 bytes of memory per index of the whole data set.
 * @param length - Length of the data set, an integer from 0 to 214,748,363.
 * @param given - See {@link SamplerOptions}; `rank` and `worldSize` are required.
 * @returns The indices, in order, in a new array.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { distributedSampler } from 'onnx-tapir';
 *
 * console.log(distributedSampler(10, { rank: 3, worldSize: 4 })); // Uint32Array [ 3, 7 ]
 * console.log(distributedSampler(10, { rank: 3, worldSize: 4, pad: 'torch' })); // Uint32Array [ 3, 7, 1 ]
 * ```
 */
export function distributedSampler(
  length: number,
  given: Options<SamplerOptions> & Pick<SamplerOptions, 'rank' | 'worldSize'>,
): Uint32Array {
  checkInteger('length', length, 0, MAX_LENGTH);
  const options = readOptions(SAMPLER_FIELDS, given, 'distributedSampler');
  const { worldSize, seed, epoch, shuffle, dropLast, pad } = options;
  const rank = checkInteger('rank', options.rank, 0, worldSize - 1);

  const rounds = dropLast ? Math.floor(length / worldSize) : Math.ceil(length / worldSize);
  const isShort = pad === 'none' && rank + (rounds - 1) * worldSize >= length;
  const order = shuffle ? permute(length, seed + epoch) : undefined;
  return Uint32Array.from({ length: rounds > 0 && isShort ? rounds - 1 : rounds }, (_, round) => {
    // Continues at the beginning after the end.
    const at = (rank + round * worldSize) % length;
    return order ? order[at]! : at;
  });
}

/** Shuffles as `torch.randperm` on the CPU: Fisher and Yates, where each draw is a 32-bit integer modulo the number of indices left. */
function permute(length: number, seed: number): Uint32Array {
  const order = Uint32Array.from({ length }, (_, index) => index);
  const random = new MersenneTwister(seed);
  for (let i = 0; i < length - 1; i++) {
    const other = i + (random.next() % (length - i));
    const value = order[i]!;
    order[i] = order[other]!;
    order[other] = value;
  }
  return order;
}

const SIZE = 624;
const MIDDLE = 397;
const MATRIX = 0x9908_b0df;
const UPPER = 0x8000_0000;
const LOWER = 0x7fff_ffff;

/**
 * A generator of 32-bit integers, the same on every machine: the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), which torch
 * uses as its CPU generator.
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(SIZE);
  #at = SIZE;

  /** @param seed - A safe integer. Its lowest 32 bits count, as in torch. */
  constructor(seed: number) {
    const state = this.#state;
    state[0] = Number(BigInt.asUintN(32, BigInt(seed)));
    for (let i = 1; i < SIZE; i++) {
      const before = state[i - 1]! ^ (state[i - 1]! >>> 30);
      state[i] = Math.imul(1_812_433_253, before) + i;
    }
  }

  /** Returns the next integer, from 0 to 2^32 − 1. */
  next(): number {
    if (this.#at === SIZE) this.#twist();
    let value = this.#state[this.#at++]!;
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c_5680;
    value ^= (value << 15) & 0xefc6_0000;
    return (value ^ (value >>> 18)) >>> 0;
  }

  #twist(): void {
    const state = this.#state;
    for (let i = 0; i < SIZE; i++) {
      const joined = (state[i]! & UPPER) | (state[(i + 1) % SIZE]! & LOWER);
      state[i] = state[(i + MIDDLE) % SIZE]! ^ (joined >>> 1) ^ (joined & 1 ? MATRIX : 0);
    }
    this.#at = 0;
  }
}
