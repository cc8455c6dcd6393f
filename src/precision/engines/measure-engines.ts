/** Runs a model in several ways on the first photos: how near each is to float32, and how fast. */
import type { PhotoMemory } from '../../feeds/photo-memory.js';
import { availableParallelism } from 'node:os';
import { TapirError } from '../../base/errors.js';
import type { EmbedSetup } from '../../datasets/embed/embed-options.js';
import { openLoader, runPhotos } from '../../datasets/embed/embed-batches.js';
import { compareFeatures, FEW_COMPARED } from '../../datasets/embed/precision-check.js';
import type { EngineCandidate } from '../../datasets/records/engine-choice.js';
import { joinComparisons, type Float32Comparison } from '../../datasets/records/float32-comparison.js';
import { openSource, type EmbedSource } from '../../datasets/sources/open-source.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import type { Extractor } from '../../extract/extractor.js';
import { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import type { PrunedModel } from '../../model/prune/pruned-model.js';
import { enginePrecision, lackOf } from '../../runtime/capabilities/capabilities.js';
import type { Device } from '../../runtime/lanes/device.js';
import { inPrecision } from '../lower-precision.js';
import { timeInTurns } from './time-in-turns.js';

/** A way to run a model. */
export type Way = Pick<EngineCandidate, 'engine' | 'precision'>;

/** Opens a model for a way. */
export async function openWay(
  model: PrunedModel,
  { engine, precision }: Way,
  device: Device,
): Promise<Extractor> {
  const options = {
    engine,
    precision: enginePrecision(precision),
    device,
    outputDtype: 'keep',
  } as const;
  return createFeatureExtractor(await inPrecision(model, precision, engine), undefined, options);
}

/** Photos in memory, and the places of those that could be read. */
export interface PhotoBatch {
  readonly memory: PhotoMemory;
  readonly photos: readonly number[];
}

/** Reads the first photos. Throws `SOURCE_INVALID` if the source holds no photo that can be read. */
export async function readBatches(
  source: EmbedSource,
  extractor: Extractor,
  setup: EmbedSetup,
): Promise<readonly PhotoBatch[]> {
  await using lanes = new DecodeLanes(setup.transform, setup.decodeThreads || availableParallelism());
  const loaded = openLoader(openSource(source, setup.source, setup.signal), lanes, extractor, setup);
  const batches: PhotoBatch[] = [];
  let left = FEW_COMPARED;
  for await (const { memory, photos, release } of loaded) {
    const some = photos.slice(0, left);
    left -= some.length;
    if (some.length > 0) batches.push({ memory: memory.copy(), photos: some });
    release();
    if (left === 0) break;
  }
  if (batches.length > 0) return batches;
  const reason = 'none of its images can be read';
  throw new TapirError('SOURCE_INVALID', `there is nothing to measure with: ${reason}`, {
    details: { source: 'photos', reason },
  });
}

/** What ways are measured on. */
export interface Measuring {
  readonly exact: Extractor;
  readonly reference: Way;
  readonly setup: EmbedSetup;
  readonly batches: readonly PhotoBatch[];
  readonly device: Device;
}

/** A way that was measured, or why it cannot run. */
export interface Measured extends Way {
  readonly imagesPerSecond: number | null;
  readonly compared: Float32Comparison | undefined;
  readonly reason: string | null;
}

/** Opens each way, compares it with the reference, and times all in turns. */
export async function measureWays(
  model: PrunedModel,
  ways: readonly Way[],
  { exact, reference, setup, batches, device }: Measuring,
): Promise<readonly Measured[]> {
  const opened = new Map<Way, Extractor>();
  const lacking = new Map<Way, string>();
  try {
    for (const way of ways)
      try {
        const isReference = way.engine === reference.engine && way.precision === reference.precision;
        // oxlint-disable-next-line no-await-in-loop -- opening them side by side is no faster
        opened.set(way, isReference ? exact : await openWay(model, way, device));
      } catch (error) {
        const reason = lackOf(error);
        if (reason === undefined) throw error;
        lacking.set(way, reason);
      }
    const comparisons = new Map<Way, Float32Comparison>();
    for (const [way, extractor] of opened)
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      comparisons.set(way, await compareWay(extractor, exact, setup, batches));
    const [{ memory, photos }] = batches as readonly [PhotoBatch];
    const runs = Array.from(
      opened.values(),
      (extractor) => () => runPhotos(extractor, memory, photos, setup),
    );
    const speeds = await timeInTurns(runs, photos.length);
    const rates = new Map([...opened.keys()].map((way, k) => [way, speeds[k]!.imagesPerSecond]));
    return ways.map((way) => ({
      ...way,
      imagesPerSecond: rates.get(way) ?? null,
      compared: comparisons.get(way),
      reason: lacking.get(way) ?? null,
    }));
  } finally {
    const own = [...opened.values()].filter((extractor) => extractor !== exact);
    await Promise.all(own.map((extractor) => extractor.close()));
  }
}

async function compareWay(
  extractor: Extractor,
  exact: Extractor,
  setup: EmbedSetup,
  batches: readonly PhotoBatch[],
): Promise<Float32Comparison> {
  const parts: Float32Comparison[] = [];
  for (const { memory, photos } of batches) {
    // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
    const truth = await runPhotos(exact, memory, photos, setup);
    // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
    const features = extractor === exact ? truth : await runPhotos(extractor, memory, photos, setup);
    // oxlint-disable-next-line no-await-in-loop -- it lets others work in between
    parts.push({ images: photos.length, cosine: await compareFeatures(features, truth) });
  }
  return joinComparisons(parts)!;
}
