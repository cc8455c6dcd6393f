/** torchvision's networks, and known models from their hosts. */
export { createModel, type CreateOptions } from './create-model.js';
export { addPyramid, type PyramidOptions } from './add-pyramid.js';
export type { ExtraLevels } from '../../onnx/networks/pyramid.js';
export { listModels, type ListOptions } from './architectures.js';
export type { Task } from '../../onnx/networks/architecture.js';
export { listKnownModels, type KnownModelsOptions, type ListedModel } from '../hub/list-known-models.js';
export type { KnownModel } from '../hub/known-models.js';
export { pullTorchvision, type PullTorchvisionOptions } from './pull-torchvision.js';
export { pullTimm, type PullTimmOptions } from './pull-timm.js';
export { pullModel, type PullOptions } from '../hub/pull-model.js';
export type { PulledFile, PulledModel } from '../hub/pulled-model.js';
export type { DownloadOptions, DownloadProgress } from '../hub/download-file.js';
