/** Photos that come one by one: each is decoded into a place of memory, and those of some places run together. */
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import type { PhotoFeatures } from '../../extract/replicas/run-photos.js';
import { PhotoMemory } from '../../photos/feeds/photo-memory.js';
import { openDecodeLanes, runApart } from './embed-batches.js';
import { setUpEmbedding, type EmbedOptions } from './embed-options.js';

/** How much works at once. */
export interface PlaceLimits {
  /** Photos that are decoded at once. */
  readonly decodesAtOnce: number;
  /** Runs that execute at once. */
  readonly sessions: number;
  /** Runs in flight, including one that waits for each session. */
  readonly runsAtOnce: number;
}

/** Places for photos, by their numbers from 0. */
export interface PhotoPlaces {
  readonly limits: PlaceLimits;
  /** Decodes a photo into a place; rejects with the photo's error. A place that was never filled holds a black photo. */
  readonly load: (place: number, photo: Uint8Array) => Promise<unknown>;
  /** Runs the photos of some places, at most a batch. Gives the features of each without the batch axis: views of the outputs of the run. */
  readonly run: (places: readonly number[]) => Promise<readonly PhotoFeatures[]>;
  /** Orders photos: those with near numbers have similar shapes, and are better run together. 0 where all have one shape. */
  readonly shapeOf: (place: number) => number;
  /** Ends the decoding threads. */
  readonly close: () => Promise<void>;
}

/** What the photos of a model need, from checked options. */
export interface PhotoPlan {
  /** Photos per run. */
  readonly batch: number;
  /** Opens decoding threads and places, as many as `count` says. */
  readonly open: (count: (limits: PlaceLimits) => number) => PhotoPlaces;
}

/** For each thread, a photo that is being decoded and one whose bytes are on their way. */
const PHOTOS_PER_THREAD = 2;

/** Plans how single photos run. Throws `OPTION_INVALID`. */
export function planPhotos(
  extractor: Extractor,
  options: Pick<EmbedOptions, 'transform' | 'keepDims' | 'decodeThreads' | 'batch'>,
): PhotoPlan {
  const setup = setUpEmbedding(extractor, { ...options });
  return {
    batch: setup.batch,
    open: (count) => {
      const lanes = openDecodeLanes(extractor, setup);
      const { sessions, runsAtOnce } = extractorInternals.of(extractor);
      const decodesAtOnce = PHOTOS_PER_THREAD * lanes.most;
      const limits = { decodesAtOnce, sessions: sessions.length, runsAtOnce };
      const memory = new PhotoMemory(setup.feeds, count(limits));
      lanes.warm();
      return {
        limits,
        load: (place, photo) => memory.load(lanes, place, photo),
        run: (places) => runApart(extractor, memory, places, setup),
        shapeOf: (place) => memory.shapeOf(place),
        close: () => lanes.close(),
      };
    },
  };
}
