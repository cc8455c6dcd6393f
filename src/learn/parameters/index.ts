/** State dicts: read, write, load into a model. */
export { loadStateDict, type LoadStateOptions } from './load-state-dict.js';
export type { LoadReport } from './match/loading.js';
export { readStateDict, type ReadStateOptions } from './dicts/read-state-dict.js';
export type { StateDict } from './state/state-dict.js';
export type { StateTensor } from './state/state-tensor.js';
export { writeStateDict, type StateSource, type WriteStateOptions } from './dicts/write-state-dict.js';
