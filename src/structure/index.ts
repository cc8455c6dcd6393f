/** The door of this room: what a model is made of, and what its parts cost. */
export { countNodes, describeModel } from './describe-model.js';
export { describeNode } from './describe-node.js';
export { measureModel } from './measure-model.js';
export type { ModelMeasure, ModelStructure, NodeDetail } from './model-structure.js';
