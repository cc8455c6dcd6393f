/** Gradients as a graph. */
export { differentiate, type DifferentiateOptions } from './differentiate.js';
