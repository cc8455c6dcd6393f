/** What the routes of a service share. */
import type { FastifyRequest } from 'fastify';
import type { Extractor } from '../../extract/extractor.js';
import type { Admission, Gate } from './gate.js';
import type { ImageBatcher, ImageFeatures } from './image-batcher.js';
import type { Metrics } from './metrics.js';
import type { ServiceSetup } from './service-options.js';

/** A running service, as its routes see it. */
export interface ServiceContext {
  readonly extractor: Extractor;
  readonly setup: ServiceSetup;
  readonly batcher: ImageBatcher;
  readonly sample: ImageFeatures;
  readonly gate: Gate;
  readonly metrics: Metrics;
  /** Version of this package. */
  readonly version: string;
  /** Whether new work is taken. */
  readonly isReady: () => boolean;
  /** The state of a request that was let in. */
  readonly stateOf: (request: FastifyRequest) => RequestState;
}

/** What belongs to one request. */
export interface RequestState {
  readonly admission: Admission;
  /** Fires when the client is gone, or the service can wait no longer. */
  readonly signal: AbortSignal;
}
