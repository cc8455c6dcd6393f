/** Where the time of embedding goes: the speed of decoding alone, of the model alone, and of both together. */
import type { Options } from '../../base/checks.js';
import { callback, integer, number, type Fields } from '../../base/options.js';
import { countSteps, type Progress } from '../../base/progress.js';
import { medianOf } from '../../base/median.js';
import { isOnCpu, type Extractor } from '../../extract/extractor.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { openSource, type EmbedSource } from '../../datasets/sources/open-source.js';
import { decodeThreadsOf } from '../../datasets/embed/embed-batches.js';
import {
  ONE_ROW_FIELDS,
  readWithExtractor,
  setUpEmbedding,
  type OneRowOptions,
} from '../../datasets/embed/embed-options.js';
import { photoFields, type PhotoOptions } from '../../photos/feeds/photo-options.js';
import { EmbeddingBench, type Phase, type WholePhase } from './embedding-bench.js';

export interface MeasureEmbeddingOptions extends Omit<OneRowOptions, 'keepDims' | 'checksum'>, PhotoOptions {
  /** Seconds of each measurement. */
  readonly seconds: number;
  /** How many times each measurement is taken, in turn. */
  readonly rounds: number;
  /** Called before each measurement, with its name as `what`. */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

const { keepDims: _keepDims, checksum: _checksum, ...FIELDS } = ONE_ROW_FIELDS;

export const MEASURE_EMBEDDING_FIELDS: Fields<MeasureEmbeddingOptions> = {
  ...photoFields({ tiles: 'whole photos are measured' }),
  ...FIELDS,
  seconds: number(0.1, 3600, 5, 'seconds per measurement'),
  rounds: integer(1, 100, 3, 'rounds of measurements'),
  onProgress: callback(),
};

/** A speed, and its cost. */
export interface Throughput {
  readonly imagesPerSecond: number;
  /** Of all threads of this process. Sessions in other processes are not counted. */
  readonly cpuSecondsPerImage: number;
}

/** What {@link measureEmbedding} found: medians over the rounds, and ratios of these. */
export interface EmbeddingReport {
  readonly device: string;
  readonly batch: number;
  readonly decodeThreads: number;
  /** Number of different images, which are used over and over. */
  readonly images: number;
  /** Decoding on one thread: what one core can decode. */
  readonly decodePerThread: Throughput;
  /** Decoding on all decoding threads. */
  readonly decode: Throughput;
  /** The model, on images that are in memory. */
  readonly model: Throughput;
  /** Both together, as {@link embedImages} runs them. */
  readonly endToEnd: Throughput;
  /**
   * The highest possible speed of both together in images per second: on a GPU the lower of the two speeds, on the CPU, where both
   * share the cores, 1/(1/decode + 1/model).
   */
  readonly limit: number;
  readonly limitedBy: 'decoding' | 'the model';
  /** The speed of both together, divided by the limit. */
  readonly ofLimit: number;
  /** How far the speeds of both together lie apart over the rounds: the largest minus the smallest, divided by the median. */
  readonly spread: number;
  /** CPU-seconds per image of both together, divided by those of decoding plus those of the model. */
  readonly cpuOfParts: number;
  /** Busy shares of the time, for both together, from 0 to 1. */
  readonly busy: {
    /** The calling thread. */
    readonly main: number;
    /** Each device: the time that its sessions spend in the engine. */
    readonly devices: readonly number[];
  };
  /** Milliseconds of a thread per image, for both together. */
  readonly spent: WholePhase['spent'];
  /** The highest resident memory of this process so far. */
  readonly peakMemoryBytes: number;
}

interface Round {
  readonly perThread: Phase;
  readonly decode: Phase;
  readonly model: Phase;
  readonly whole: WholePhase;
}

/** The most images that are kept. */
const MOST_IMAGES = 4096;

/**
 * Measures decoding alone, the model alone and both together, in turn: `tapir bench embed`. The first round warms up and does not count.
 *
 * @param source - The first 4096 images are used over and over, so a Response or a web stream, which can be read only once, does not suit.
 * @returns Medians over the rounds.
 * @throws {@link TapirError} `OPTION_INVALID`; `SOURCE_INVALID` if no image can be read; those of {@link embedImages}.
 */
export async function measureEmbedding(
  extractor: Extractor,
  source: EmbedSource,
  given: Options<MeasureEmbeddingOptions> = {},
): Promise<EmbeddingReport> {
  const options = readWithExtractor(extractor, MEASURE_EMBEDDING_FIELDS, given, 'measureEmbedding');
  const { seconds, rounds, onProgress, ...embedding } = options;
  const setup = setUpEmbedding(extractor, { ...embedding });
  const { signal } = setup;
  const items = await takeItems(openSource(source, setup.source, signal));
  await using bench = new EmbeddingBench(extractor, items, setup, seconds);
  const taken: Round[] = [];
  const say = countSteps(onProgress, 3 * (rounds + 1));
  for (let round = 0; round <= rounds; round++) {
    const at = round === 0 ? 'warming up' : `round ${round} of ${rounds}`;
    signal?.throwIfAborted();
    say(`${at}: decoding`);
    const [perThread, decode] = [await bench.decode('one'), await bench.decode('all')];
    say(`${at}: the model`);
    const model = await bench.model();
    say(`${at}: end to end`);
    const whole = await bench.whole();
    if (round > 0) taken.push({ perThread, decode, model, whole });
  }
  return {
    device: extractor.device,
    batch: setup.batch,
    decodeThreads: decodeThreadsOf(extractor, setup),
    images: items.length,
    ...summarize(taken, isOnCpu(extractor)),
    peakMemoryBytes: process.resourceUsage().maxRSS * 1024,
  };
}

async function takeItems(source: AsyncIterable<SourceItem>): Promise<SourceItem[]> {
  const items: SourceItem[] = [];
  for await (const item of source) {
    if (!item.error) items.push(item);
    if (items.length === MOST_IMAGES) break;
  }
  return items;
}

type Summary = Omit<EmbeddingReport, 'device' | 'batch' | 'decodeThreads' | 'images' | 'peakMemoryBytes'>;

function summarize(rounds: readonly Round[], sharesCores: boolean): Summary {
  const median = (pick: (round: Round) => number): number => medianOf(rounds.map(pick));
  const throughput = (pick: (round: Round) => Phase): Throughput => ({
    imagesPerSecond: median((round) => rateOf(pick(round))),
    cpuSecondsPerImage: median((round) => cpuOf(pick(round))),
  });
  const decode = throughput((round) => round.decode);
  const model = throughput((round) => round.model);
  const endToEnd = throughput((round) => round.whole);
  const speeds = [decode.imagesPerSecond, model.imagesPerSecond] as const;
  const limit = sharesCores ? 1 / (1 / speeds[0] + 1 / speeds[1]) : Math.min(...speeds);
  const rates = rounds.map(({ whole }) => rateOf(whole));
  return {
    decodePerThread: throughput((round) => round.perThread),
    decode,
    model,
    endToEnd,
    limit,
    limitedBy: decode.imagesPerSecond < model.imagesPerSecond ? 'decoding' : 'the model',
    ofLimit: endToEnd.imagesPerSecond / limit,
    spread: (Math.max(...rates) - Math.min(...rates)) / endToEnd.imagesPerSecond,
    cpuOfParts: endToEnd.cpuSecondsPerImage / (decode.cpuSecondsPerImage + model.cpuSecondsPerImage),
    busy: {
      main: median(({ whole }) => whole.mainBusy),
      devices: rounds[0]!.whole.deviceBusy.map((_, i) => median(({ whole }) => whole.deviceBusy[i]!)),
    },
    spent: {
      decode: median(({ whole }) => whole.spent.decode),
      resample: median(({ whole }) => whole.spent.resample),
      feed: median(({ whole }) => whole.spent.feed),
      model: median(({ whole }) => whole.spent.model),
    },
  };
}

function rateOf({ images, seconds }: Phase): number {
  return images / seconds;
}

function cpuOf({ images, cpuSeconds }: Phase): number {
  return cpuSeconds / images;
}
