/** What the routes of a service share. */
import type { FastifyRequest } from 'fastify';
import type { Extractor } from '../../../extract/extractor.js';
import type { RequestState } from '../http/requests.js';
import type { ImageBatcher, ImageFeatures } from '../batches/image-batcher.js';
import type { Metrics } from '../batches/metrics.js';
import type { ClassScores } from '../batches/class-scores.js';
import type { ServiceSetup } from '../batches/service-options.js';
import type { TextBatcher } from '../batches/text-batcher.js';

/** A running service, as its routes see it. */
export interface ServiceContext {
  readonly extractor: Extractor;
  readonly setup: ServiceSetup;
  readonly batcher: ImageBatcher;
  readonly sample: ImageFeatures;
  /** The text tower's queue; undefined without a tower. */
  readonly texts: TextBatcher | undefined;
  /** The output with a score per class, or the reason why the model has no such output. */
  readonly classes: ClassScores | { readonly problem: string };
  readonly metrics: Metrics;
  /** Version of this package. */
  readonly version: string;
  /** Whether the service takes new work. */
  readonly isReady: () => boolean;
  readonly stateOf: (request: FastifyRequest) => RequestState;
}
