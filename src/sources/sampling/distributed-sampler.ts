/** Which of a data set's indices are a process's own, as torch.utils.data.DistributedSampler tells. */
import { checkBoolean, checkInteger, checkOneOf, withDefaults, type Options } from '../../base/checks.js';
import { MersenneTwister } from './mersenne-twister.js';

/** Options of {@link distributedSampler}. */
export interface SamplerOptions {
  /** Number of this process, an integer from 0 to `worldSize - 1`. */
  readonly rank: number;
  /** Processes in all, an integer from 1 to 1 million. */
  readonly worldSize: number;
  /**
   * Shuffle first, in the order of `torch.randperm` with a CPU generator of seed `seed + epoch`.
   * @default false
   */
  readonly shuffle: boolean;
  /**
   * An integer from 0 to 2³² - 1, the same in all processes.
   * @default 0
   */
  readonly seed: number;
  /**
   * An integer from 0 to 2³² - 1: another order for each.
   * @default 0
   */
  readonly epoch: number;
  /**
   * Leave out the last indices if there are not as many for each process.
   * @default false
   */
  readonly dropLast: boolean;
  /**
   * What becomes of processes that would have one index less: `'none'` leaves it so, and each index is in one process, once;
   * `'torch'` gives them indices from the beginning again, as DistributedSampler does: a result over all processes then counts
   * some twice.
   * @default 'none'
   */
  readonly pad: 'none' | 'torch';
}

const SAMPLER_DEFAULTS: Omit<SamplerOptions, 'rank' | 'worldSize'> = {
  shuffle: false,
  seed: 0,
  epoch: 0,
  dropLast: false,
  pad: 'none',
};

/** From here on torch shuffles in another way. */
const MAX_LENGTH = Math.floor(0xffff_ffff / 20) - 1;
const MAX_WORLD = 1e6;
const MAX_SEED = 2 ** 32 - 1;

/**
 * The indices of a process among several: every `worldSize`-th one from `rank` on. With `pad: 'torch'` these are
 * `torch.utils.data.DistributedSampler`'s, index for index, shuffled or not.
 *
 * @remarks 4 bytes an index of the whole data set while it is shuffled.
 * @param length - Length of the data set, an integer from 0 to 214,748,363.
 * @param given - See {@link SamplerOptions}; `rank` and `worldSize` are required.
 * @returns The indices in their order, the caller's own.
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
  const options = withDefaults<SamplerOptions>(
    { rank: -1, worldSize: 0, ...SAMPLER_DEFAULTS },
    given,
    'distributedSampler',
  );
  const worldSize = checkInteger('worldSize', options.worldSize, 1, MAX_WORLD);
  const rank = checkInteger('rank', options.rank, 0, worldSize - 1);
  const seed = checkInteger('seed', options.seed, 0, MAX_SEED);
  const epoch = checkInteger('epoch', options.epoch, 0, MAX_SEED);
  const isShuffled = checkBoolean('shuffle', options.shuffle);
  const isCut = checkBoolean('dropLast', options.dropLast);
  const pad = checkOneOf('pad', options.pad, ['none', 'torch']);

  const rounds = isCut ? Math.floor(length / worldSize) : Math.ceil(length / worldSize);
  const isShort = pad === 'none' && rank + (rounds - 1) * worldSize >= length;
  const order = isShuffled ? permute(length, seed + epoch) : undefined;
  return Uint32Array.from({ length: rounds > 0 && isShort ? rounds - 1 : rounds }, (_, round) => {
    // Behind the end, from the beginning again.
    const at = (rank + round * worldSize) % length;
    return order ? order[at]! : at;
  });
}

/** `torch.randperm` on the CPU: Fisher and Yates' shuffle, each draw one 32-bit integer modulo what is left. */
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
