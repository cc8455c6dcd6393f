/** Runs a model on made-up inputs, and finds sizes for their open axes that the graph takes. */
import { isTapirError, TapirError } from '../../../base/errors.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { elementCount, type NamedTensor } from '../../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { chooseDims, FIRST_GUESS, type FedDims, type SizeGuess } from '../open/made-up-sizes.js';
import { describeInputs } from '../open/value-info.js';
import { readFailure, shortenFailure, type SizeHint } from './read-failure.js';
import { seededFeeds } from './seeded-feeds.js';

/** Describes the inputs to make up. */
export interface MadeUp {
  /** The graph whose inputs they are. */
  readonly rewrite: Rewrite;
  readonly given: CheckedSizes;
  /** @default 0 */
  readonly seed?: number;
  /** Size of a first axis that is open. @default 1 */
  readonly rows?: number;
  /** How many times a first axis that is fixed. @default 1 */
  readonly runs?: number;
}

/** A run that succeeded. */
export interface MadeUpRun<Result> {
  readonly result: Result;
  readonly feeds: readonly NamedTensor[];
  /** By input. */
  readonly fed: readonly FedDims[];
  /** Why more than one row does not run, if one row was fed although more were asked for and the file leaves their number open. */
  readonly refused: string | undefined;
}

/** The axes that one step of the search changes together. */
type Axes = readonly ('height' | 'width' | 'other')[];
const SQUARE: Axes = ['height', 'width'];

/** Sizes that models are often made for. The first of them are multiples of all usual strides. */
const SIDES = [256, 384, 512, 128, 64, 32, 48, 24, 16, 12, 299, 96, 112, 160, 320, 640];
const OTHERS = [16, 32, 64, 128, 256, 512, 77, 4, 2, 1];
/** Heights that are combined with other widths. */
const HEIGHTS = [224, 32, 48, 64, 128];
/** Steps of one guided search: more than enough to halve an interval of 65,536. */
const STEPS = 20;
/** The first steps jump to the size that a failure asks for. Later ones halve the interval, which always ends. */
const JUMPS = 4;
/** After this many failures in the same words, the sizes are not the cause. */
const SAME = 4;
const MOST_RUNS = 80;
const LARGEST = 4096;
/** No input of a further run is larger: about twice 1024 × 1024 pixels of three channels. */
const MOST_ELEMENTS = 2 ** 23;

/**
 * Runs a step on made-up inputs. Where it fails, other sizes are tried: those that the failure asks for, then usual ones. Throws
 * `RUN_FAILED` with those that were tried; `INPUT_MISMATCH` for a dtype that cannot be fed.
 */
export async function runMadeUp<Result>(
  madeUp: MadeUp,
  step: (feeds: readonly NamedTensor[]) => Promise<Result>,
): Promise<MadeUpRun<Result>> {
  const search = new SizeSearch(madeUp, step);
  const first = { ...FIRST_GUESS, rows: madeUp.rows ?? 1 };
  const found = await search.from(first);
  if (found) return found;
  const refused = search.reason;
  const one = await search.from({ ...first, rows: 1 });
  if (one) return { ...one, refused };
  throw search.failure();
}

class SizeSearch<Result> {
  readonly #madeUp: MadeUp;
  readonly #inputs: readonly TensorInfo[];
  readonly #step: (feeds: readonly NamedTensor[]) => Promise<Result>;
  /** What the failures said, by the dims that were fed. */
  readonly #hints = new Map<string, SizeHint>();
  /** The latest failures that say nothing about sizes. */
  #unclear: string[] = [];
  #error: unknown;
  #found: MadeUpRun<Result> | undefined;

  constructor(madeUp: MadeUp, step: (feeds: readonly NamedTensor[]) => Promise<Result>) {
    this.#madeUp = madeUp;
    this.#inputs = describeInputs(madeUp.rewrite);
    this.#step = step;
  }

  /** Searches around a guess. */
  async from(guess: SizeGuess): Promise<MadeUpRun<Result> | undefined> {
    this.#unclear = [];
    const settled = await this.#settleChannels(guess);
    const open = new Set(this.#dimsOf(settled).flatMap(({ kinds }) => kinds));
    const groups = [SQUARE.filter((axis) => open.has(axis)), open.has('other') ? (['other'] as const) : []];
    for (const axes of groups.filter((group) => group.length > 0)) {
      await this.#guide(settled, axes);
      for (const size of axes[0] === 'other' ? OTHERS : SIDES)
        await this.#attempt(resize(settled, axes, size));
    }
    if (open.has('height') && open.has('width'))
      for (const height of HEIGHTS) await this.#guide({ ...settled, height }, ['width']);
    return this.#found;
  }

  /** What ONNX Runtime said first. */
  get reason(): string | undefined {
    return isTapirError(this.#error, 'RUN_FAILED') ? shortenFailure(this.#error.details.reason) : undefined;
  }

  /** The error if no sizes work. */
  failure(): unknown {
    if (!isTapirError(this.#error, 'RUN_FAILED')) return this.#error;
    const { device } = this.#error.details;
    const reason = this.reason!;
    const all = [...this.#hints.keys()];
    const tried =
      all.length > 4 ? `${all.slice(0, 3).join('; ')} and ${all.length - 3} more` : all.join('; ');
    return new TapirError(
      'RUN_FAILED',
      `the model does not run on made-up inputs (${tried}): ${reason}; give sizes that it takes as the option inputSizes, or with --size or --input-shape`,
      { details: { device, reason }, cause: this.#error },
    );
  }

  /** Tries a guess with the channels, and the place of the channels, that the failure asks for. */
  async #settleChannels(guess: SizeGuess): Promise<SizeGuess> {
    const { channels } = (await this.#attempt(guess)) ?? {};
    if (!channels) return guess;
    const { got, needed } = channels;
    const isTurned = got !== guess.channels && (got === guess.height || got === guess.width);
    const other = isTurned
      ? { ...guess, isChannelsLast: !guess.isChannelsLast }
      : { ...guess, channels: needed };
    const again = await this.#attempt(other);
    return again?.channels ? { ...other, channels: again.channels.needed } : other;
  }

  /** Follows what failures say: larger or smaller, until they say neither. */
  async #guide(start: SizeGuess, axes: Axes): Promise<void> {
    let [low, high] = [0, LARGEST + 1];
    let size = start[axes[0]!];
    for (let step = 0; step < STEPS && high - low > 1; step++) {
      const ratio = (await this.#attempt(resize(start, axes, size)))?.ratio;
      if (ratio === undefined || ratio === 1) return;
      if (ratio < 1) low = size;
      else high = size;
      const target = Math.round(size / ratio ** (1 / axes.length));
      const jump = [roundSize(target), target].find((to) => step < JUMPS && to > low && to < high);
      size = jump ?? (high > LARGEST ? Math.min(LARGEST, 2 * low) : Math.floor((low + high) / 2));
    }
  }

  /** Runs a guess, each once. Returns what the failure says; undefined if there is nothing more to try. */
  async #attempt(guess: SizeGuess): Promise<SizeHint | undefined> {
    if (this.#found || this.#isHopeless) return undefined;
    const fed = this.#dimsOf(guess);
    const inputs = this.#inputs;
    const { rewrite, seed = 0 } = this.#madeUp;
    const label = inputs.map(({ name }, i) => `${name} [${fed[i]!.dims.join(', ')}]`).join(', ');
    const known = this.#hints.get(label);
    if (known) return known;
    const isLarge = fed.some(({ dims }) => elementCount(dims) > MOST_ELEMENTS);
    if (isLarge && this.#hints.size > 0) return { ratio: Infinity };
    const feeds = seededFeeds(inputs, fed, seed);
    try {
      this.#found = { result: await this.#step(feeds), feeds, fed, refused: undefined };
      return undefined;
    } catch (error) {
      if (!isTapirError(error, 'RUN_FAILED')) throw error;
      this.#error ??= error;
      const hint = readFailure(error.details.reason, rewrite.cut.graph);
      this.#hints.set(label, hint);
      if (hint.ratio === undefined && !hint.channels) this.#unclear.push(error.details.reason);
      return hint;
    }
  }

  /** Whether the sizes do not matter, or too many were tried. */
  get #isHopeless(): boolean {
    const latest = this.#unclear.slice(-SAME);
    const isSame = latest.length === SAME && latest.every((reason) => reason === latest[0]);
    return isSame || this.#hints.size >= MOST_RUNS;
  }

  #dimsOf(guess: SizeGuess): FedDims[] {
    const { given, runs = 1 } = this.#madeUp;
    return chooseDims(this.#inputs, given, guess, runs);
  }
}

/** A multiple of a power of two nearby: strides divide it. */
function roundSize(size: number): number {
  const unit = 2 ** Math.max(0, Math.floor(Math.log2(size / 8)));
  return Math.round(size / unit) * unit;
}

function resize(guess: SizeGuess, axes: Axes, size: number): SizeGuess {
  return { ...guess, ...Object.fromEntries(axes.map((axis) => [axis, size])) };
}
