/** The first photos of a source in memory, for what runs them through several models. */
import { availableParallelism } from 'node:os';
import { TapirError } from '../../base/errors.js';
import type { Extractor } from '../../extract/extractor.js';
import { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { NamedTensor, Tensor } from '../../onnx/tensor/tensor.js';
import { openSource, type EmbedSource } from '../sources/open-source.js';
import { openLoader, runPhotos } from './embed-batches.js';
import type { EmbedSetup } from './embed-options.js';
import { FEW_COMPARED } from './precision-check.js';

/** A batch of photos that any extractor of the same input can run. */
export interface PhotoBatch {
  /** Photos that could be read. */
  readonly rows: number;
  readonly run: (extractor: Extractor) => Promise<Readonly<Record<string, Tensor>>>;
  /** The feeds of the first ones, at most so many. */
  readonly feeds: (most: number) => Readonly<Record<string, NamedTensor>>;
}

/** Reads the first 16 photos. Throws `SOURCE_INVALID` if the source holds no photo that can be read. */
export async function readFirstPhotos(
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
    if (some.length > 0) {
      const held = memory.copy();
      batches.push({
        rows: some.length,
        run: (one) => runPhotos(one, held, some, setup),
        feeds: (most) => held.filled(some.slice(0, most)),
      });
    }
    release();
    if (left === 0) break;
  }
  if (batches.length > 0) return batches;
  const reason = 'none of its images can be read';
  throw new TapirError('SOURCE_INVALID', `there is nothing to measure with: ${reason}`, {
    details: { source: 'photos', reason },
  });
}
