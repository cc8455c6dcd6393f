/** A model as an HTTP service. */
export { createService, type ListenOptions, type Service } from './service.js';
export type { ServiceOptions } from './batches/service-options.js';
