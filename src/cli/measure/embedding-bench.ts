/** The timed phases of measureEmbedding: decoding, the model, and both together. */
import { performance } from 'node:perf_hooks';
import { TapirError } from '../../base/errors.js';
import { extractorInternals, runsAtOnce, type Extractor } from '../../extract/extractor.js';
import { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { embedBatches, openDecodeLanes, openLoader, runBatch } from '../../datasets/embed/embed-batches.js';
import type { EmbedSetup } from '../../datasets/embed/embed-options.js';
import type { FeedBatch, LoadedItem } from '../../photos/feeds/feed-batches.js';
import { buffersOf } from '../../onnx/tensor/tensor.js';

export interface Phase {
  readonly images: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Share of the time in which the calling thread was busy. */
  readonly mainBusy: number;
}

/** Decoding and the model together, and where the time went. */
export interface WholePhase extends Phase {
  /** Share of the time that the sessions of each device spent in the engine. */
  readonly deviceBusy: readonly number[];
  /** Milliseconds of a thread per image. */
  readonly spent: {
    readonly decode: number;
    readonly resample: number;
    /** Making the model's input from the pixels. */
    readonly feed: number;
    /** In the engine; the time of a batch divided by its images. */
    readonly model: number;
  };
}

/** Runs the phases, each for the same time, on the same images over and over. Close it. */
export class EmbeddingBench {
  readonly #extractor: Extractor;
  readonly #items: readonly SourceItem[];
  readonly #setup: EmbedSetup;
  readonly #seconds: number;
  /** Kept between the phases: starting a thread takes 0.2 s, which a long run does not notice. */
  readonly #lanes: DecodeLanes;
  readonly #oneLane: DecodeLanes;
  #batch: Pick<FeedBatch, 'items' | 'memory' | 'photos'> | undefined;

  constructor(extractor: Extractor, items: readonly SourceItem[], setup: EmbedSetup, seconds: number) {
    this.#extractor = extractor;
    this.#items = items;
    this.#setup = setup;
    this.#seconds = seconds;
    this.#lanes = openDecodeLanes(extractor, setup);
    this.#oneLane = new DecodeLanes(setup.transform, 1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#lanes.close(), this.#oneLane.close()]);
  }

  /** Decodes, on one thread or on all of them. */
  async decode(threads: 'one' | 'all'): Promise<Phase> {
    const lanes = threads === 'one' ? this.#oneLane : this.#lanes;
    const loader = openLoader(this.#cycle(), lanes, this.#extractor, this.#setup);
    try {
      return await measure(async () => {
        let images = 0;
        for await (const { items, memory, photos, release } of loader) {
          images += photos.length;
          // The model phase runs a copy of this batch.
          if (photos.length > 0) this.#batch ??= { items, memory: memory.copy(), photos };
          release();
        }
        return images;
      });
    } finally {
      loader.stop();
    }
  }

  /** Runs the model on a batch that {@link decode} has kept. */
  async model(): Promise<Phase> {
    const batch = this.#batch;
    if (!batch) throw noImage();
    const read = countRead(batch.items);
    const end = performance.now() + 1000 * this.#seconds;
    return measure(async () => {
      let images = 0;
      const work = async (): Promise<void> => {
        let room: ArrayBuffer[] = [];
        while (performance.now() < end) {
          this.#setup.signal?.throwIfAborted();
          const ran = await runBatch(this.#extractor, batch, this.#setup, undefined, room);
          room = buffersOf(ran.flatMap(({ features }) => Object.values(features)));
          images += read;
        }
      };
      await Promise.all(Array.from({ length: runsAtOnce(this.#extractor) }, work));
      return images;
    });
  }

  /** Decodes and runs the model, as embedding does. */
  async whole(): Promise<WholePhase> {
    const lanes = this.#lanes;
    const decodedBefore = lanes.spent;
    const set = extractorInternals.of(this.#extractor);
    const before = set.spent;
    const phase = await measure(async () => {
      let images = 0;
      const batches = embedBatches(this.#extractor, this.#cycle(), this.#setup, lanes);
      for await (const { items, release } of batches) {
        images += countRead(items);
        release();
      }
      return images;
    });
    const runMs = set.spent.map((spent, i) => spent.runMs - before[i]!.runMs);
    const feedMs = set.spent.map((spent, i) => spent.feedMs - before[i]!.feedMs);
    const sessionsPerDevice = set.sessions.length / runMs.length;
    const { images, seconds } = phase;
    const { decodeMs, resampleMs } = lanes.spent;
    return {
      ...phase,
      deviceBusy: runMs.map((ms) => ms / (1000 * seconds * sessionsPerDevice)),
      spent: {
        decode: (decodeMs - decodedBefore.decodeMs) / images,
        resample: (resampleMs - decodedBefore.resampleMs) / images,
        feed: sum(feedMs) / images,
        model: sum(runMs) / images,
      },
    };
  }

  /** The images over and over, until the time of a phase is up. */
  *#cycle(): Generator<SourceItem> {
    const end = performance.now() + 1000 * this.#seconds;
    if (this.#items.length === 0) throw noImage();
    for (let i = 0; performance.now() < end; i++) {
      this.#setup.signal?.throwIfAborted();
      yield this.#items[i % this.#items.length]!;
    }
  }
}

/** Measures a step, which returns the number of images that it has processed. */
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

function countRead(items: readonly LoadedItem[]): number {
  return items.filter(({ error }) => !error).length;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
