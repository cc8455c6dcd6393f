/** Where the time of embedding goes: what decoding alone and the model alone reach on this machine, and both together. */
import { performance } from 'node:perf_hooks';
import { checkInteger, checkSignal, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { medianOf } from '../../base/median.js';
import { extractorInternals, isOnCpu, runsAtOnce, type Extractor } from '../../extract/extractor.js';
import { DecodeLanes } from '../../image/lanes/decode-lanes.js';
import { decodeThreadsOf, embedBatches, openDecodeLanes, openLoader, runBatch } from '../embed-batches.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedOptions, type EmbedSetup } from '../embed-options.js';
import type { LoadedBatch, LoadedItem } from '../loader.js';
import type { SourceItem } from '../../sources/items/source-item.js';
import { openSource, type EmbedSource } from '../../sources/open-source.js';
import { SOURCE_DEFAULTS } from '../../sources/items/source-options.js';

/** Options of {@link measureEmbedding}. */
export interface MeasureEmbeddingOptions extends Omit<EmbedOptions, 'keepDims' | 'checksum'> {
  /**
   * Seconds of each measurement, from 0.1.
   * @default 5
   */
  readonly seconds: number;
  /**
   * How often each is taken, in turn; an integer from 1 to 100.
   * @default 3
   */
  readonly rounds: number;
  /**
   * Told what is measured next.
   * @default undefined
   */
  readonly onPhase: ((phase: string) => void) | undefined;
}

export const MEASURE_EMBEDDING_DEFAULTS: MeasureEmbeddingOptions = {
  transform: EMBED_DEFAULTS.transform,
  batch: EMBED_DEFAULTS.batch,
  decodeThreads: EMBED_DEFAULTS.decodeThreads,
  signal: undefined,
  ...SOURCE_DEFAULTS,
  seconds: 5,
  rounds: 3,
  onPhase: undefined,
};

/** Images per second and what they cost. */
export interface Throughput {
  readonly imagesPerSecond: number;
  /** Of this process, all threads; sessions in processes of their own are not in it. */
  readonly cpuSecondsPerImage: number;
}

/** Medians over the rounds; ratios are taken round by round. */
export interface EmbeddingReport {
  readonly device: string;
  readonly batch: number;
  readonly decodeThreads: number;
  /** Different images that were used, over and over. */
  readonly images: number;
  /** One thread alone: what a core can decode. */
  readonly decodePerThread: Throughput;
  readonly decode: Throughput;
  readonly model: Throughput;
  readonly endToEnd: Throughput;
  /** What both together could reach: the lower of the two, or 1/(1/decode + 1/model) where they share the cores. */
  readonly limit: number;
  readonly limitedBy: 'decoding' | 'the model';
  /** End to end over the limit. */
  readonly ofLimit: number;
  /** CPU-seconds per image end to end, over those of decoding and of the model. */
  readonly cpuOfParts: number;
  /** Shares of the time end to end. */
  readonly busy: {
    /** The caller's thread. */
    readonly main: number;
    /** By device, of all its sessions: inside onnxruntime. */
    readonly devices: readonly number[];
  };
  /** Milliseconds of a thread per image, end to end. */
  readonly spent: {
    readonly decode: number;
    readonly resample: number;
    /** Making the feed of the pixels: normalised, or as they are where the graph does that. */
    readonly feed: number;
    /** Inside onnxruntime, per image of a batch. */
    readonly model: number;
  };
  /** Highest resident memory of this process so far. */
  readonly peakMemoryBytes: number;
}

interface Phase {
  readonly images: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly mainBusy: number;
}

interface Round {
  readonly perThread: Phase;
  readonly decode: Phase;
  readonly model: Phase;
  readonly endToEnd: Phase;
  readonly busy: readonly number[];
  readonly spent: EmbeddingReport['spent'];
}

/** Images kept to be used over and over. */
const MOST_IMAGES = 4096;

/**
 * Measures decoding alone, the model alone and both together, in turn.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param source - Images, as for {@link embedImages}; the first 4096 are used over and over.
 * @param given - See {@link MeasureEmbeddingOptions}.
 * @throws {@link TapirError} `OPTION_INVALID`, `SOURCE_INVALID` if no image can be read; those of {@link embedImages}.
 */
export async function measureEmbedding(
  extractor: Extractor,
  source: EmbedSource,
  given: Options<MeasureEmbeddingOptions> = {},
): Promise<EmbeddingReport> {
  const options = withDefaults(MEASURE_EMBEDDING_DEFAULTS, given, 'measureEmbedding');
  const { seconds, rounds, onPhase, ...embedding } = options;
  if (!(seconds >= 0.1 && seconds <= 3600))
    throw invalidOption('seconds', 'a number from 0.1 to 3600', seconds);
  checkInteger('rounds', rounds, 1, 100);
  const signal = checkSignal(options.signal);
  const setup = setUpEmbedding(extractor, { ...embedding, keepDims: false, checksum: false });
  const items = await takeItems(openSource(source, setup.source, signal));
  const bench = new Bench(extractor, items, setup, seconds);
  const taken: Round[] = [];
  // The first round warms everything up and is not counted.
  for (let round = 0; round <= rounds; round++) {
    const at = round === 0 ? 'warming up' : `round ${round} of ${rounds}`;
    signal?.throwIfAborted();
    onPhase?.(`${at}: decoding`);
    const [perThread, decode] = [await bench.decode(1), await bench.decode()];
    onPhase?.(`${at}: the model`);
    const model = await bench.model();
    onPhase?.(`${at}: end to end`);
    const together = await bench.endToEnd();
    if (round > 0) taken.push({ perThread, decode, model, ...together });
  }
  return bench.report(taken);
}

async function takeItems(source: AsyncIterable<SourceItem>): Promise<SourceItem[]> {
  const items: SourceItem[] = [];
  for await (const item of source) {
    if (!item.error) items.push(item);
    if (items.length === MOST_IMAGES) break;
  }
  return items;
}

class Bench {
  readonly #extractor: Extractor;
  readonly #items: readonly SourceItem[];
  readonly #setup: EmbedSetup;
  readonly #seconds: number;
  #batch: LoadedBatch | undefined;

  constructor(extractor: Extractor, items: readonly SourceItem[], setup: EmbedSetup, seconds: number) {
    this.#extractor = extractor;
    this.#items = items;
    this.#setup = setup;
    this.#seconds = seconds;
  }

  /** Decoding alone, on some threads or on all of them. */
  async decode(threads?: number): Promise<Phase> {
    const { transform } = this.#setup;
    const lanes = threads
      ? new DecodeLanes(transform, threads)
      : openDecodeLanes(this.#extractor, this.#setup);
    const loader = openLoader(this.#cycle(), lanes, this.#extractor, this.#setup);
    try {
      return await measure(async () => {
        let images = 0;
        for (let batch = await loader.next(); batch; batch = await loader.next()) {
          const read = countRead(batch.items);
          images += read;
          // A copy is kept for the model.
          if (!this.#batch && read > 0) this.#batch = { items: batch.items, pixels: share(batch.pixels) };
          loader.release(batch.pixels);
        }
        return images;
      });
    } finally {
      loader.stop();
      await lanes.close();
    }
  }

  /** The model alone, on a batch that was decoded before. */
  async model(): Promise<Phase> {
    const batch = this.#batch;
    if (!batch) throw noImage();
    const read = countRead(batch.items);
    const end = performance.now() + 1000 * this.#seconds;
    return measure(async () => {
      let images = 0;
      const work = async (): Promise<void> => {
        while (performance.now() < end) {
          this.#setup.signal?.throwIfAborted();
          await runBatch(this.#extractor, batch, this.#setup);
          images += read;
        }
      };
      await Promise.all(Array.from({ length: runsAtOnce(this.#extractor) }, work));
      return images;
    });
  }

  /** Both, as they are used. */
  async endToEnd(): Promise<Pick<Round, 'endToEnd' | 'busy' | 'spent'>> {
    await using lanes = openDecodeLanes(this.#extractor, this.#setup);
    const before = extractorInternals.of(this.#extractor).spent;
    const endToEnd = await measure(async () => {
      let images = 0;
      for await (const { items } of embedBatches(this.#extractor, this.#cycle(), this.#setup, lanes))
        images += countRead(items);
      return images;
    });
    const { sessions, spent } = extractorInternals.of(this.#extractor);
    const devices = spent.map(({ runMs, feedMs }, i) => ({
      runMs: runMs - before[i]!.runMs,
      feedMs: feedMs - before[i]!.feedMs,
    }));
    const sessionsPerDevice = sessions.length / devices.length;
    const sum = (key: 'runMs' | 'feedMs'): number =>
      devices.reduce((total, device) => total + device[key], 0);
    const { images } = endToEnd;
    const { decodeMs, resampleMs } = lanes.spent;
    return {
      endToEnd,
      busy: devices.map(({ runMs }) => runMs / (1000 * endToEnd.seconds * sessionsPerDevice)),
      spent: {
        decode: decodeMs / images,
        resample: resampleMs / images,
        feed: sum('feedMs') / images,
        model: sum('runMs') / images,
      },
    };
  }

  report(rounds: readonly Round[]): EmbeddingReport {
    const limits = rounds.map(({ decode, model }) => this.#limitOf(rateOf(decode), rateOf(model)));
    const [decode, model] = [
      throughput(rounds.map((round) => round.decode)),
      throughput(rounds.map((round) => round.model)),
    ];
    return {
      device: this.#extractor.device,
      batch: this.#setup.batch,
      decodeThreads: decodeThreadsOf(this.#extractor, this.#setup),
      images: this.#items.length,
      decodePerThread: throughput(rounds.map(({ perThread }) => perThread)),
      decode,
      model,
      endToEnd: throughput(rounds.map(({ endToEnd }) => endToEnd)),
      limit: medianOf(limits),
      limitedBy: decode.imagesPerSecond < model.imagesPerSecond ? 'decoding' : 'the model',
      ofLimit: medianOf(rounds.map(({ endToEnd }, i) => rateOf(endToEnd) / limits[i]!)),
      cpuOfParts: medianOf(
        rounds.map((round) => cpuOf(round.endToEnd) / (cpuOf(round.decode) + cpuOf(round.model))),
      ),
      busy: {
        main: medianOf(rounds.map(({ endToEnd }) => endToEnd.mainBusy)),
        devices: rounds[0]!.busy.map((_, i) => medianOf(rounds.map(({ busy }) => busy[i]!))),
      },
      spent: {
        decode: medianOf(rounds.map(({ spent }) => spent.decode)),
        resample: medianOf(rounds.map(({ spent }) => spent.resample)),
        feed: medianOf(rounds.map(({ spent }) => spent.feed)),
        model: medianOf(rounds.map(({ spent }) => spent.model)),
      },
      peakMemoryBytes: process.resourceUsage().maxRSS * 1024,
    };
  }

  #limitOf(decode: number, model: number): number {
    return isOnCpu(this.#extractor) ? 1 / (1 / decode + 1 / model) : Math.min(decode, model);
  }

  /** The images over and over, for as long as a measurement takes. */
  *#cycle(): Generator<SourceItem> {
    const end = performance.now() + 1000 * this.#seconds;
    if (this.#items.length === 0) throw noImage();
    for (let i = 0; performance.now() < end; i++) {
      this.#setup.signal?.throwIfAborted();
      yield this.#items[i % this.#items.length]!;
    }
  }
}

function countRead(items: readonly LoadedItem[]): number {
  return items.filter(({ error }) => !error).length;
}

/** Runs a step that tells how many images it has done. */
async function measure(step: () => Promise<number>): Promise<Phase> {
  const loop = performance.eventLoopUtilization();
  const cpu = process.cpuUsage();
  const started = performance.now();
  const images = await step();
  if (images === 0) throw noImage();
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const mainBusy = performance.eventLoopUtilization(loop).utilization;
  return { images, seconds, cpuSeconds: (user + system) / 1e6, mainBusy };
}

function noImage(): TapirError<'SOURCE_INVALID'> {
  const reason = 'none of its images can be read';
  return new TapirError('SOURCE_INVALID', `there is nothing to measure with: ${reason}`, {
    details: { source: 'source', reason },
  });
}

function share(bytes: Uint8Array): Uint8Array {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
  shared.set(bytes);
  return shared;
}

function rateOf({ images, seconds }: Phase): number {
  return images / seconds;
}

function cpuOf({ images, cpuSeconds }: Phase): number {
  return cpuSeconds / images;
}

function throughput(phases: readonly Phase[]): Throughput {
  return { imagesPerSecond: medianOf(phases.map(rateOf)), cpuSecondsPerImage: medianOf(phases.map(cpuOf)) };
}
