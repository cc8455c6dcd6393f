/** What tests of dataset files write where no run does. */
import type { DatasetIdentity } from '../../src/datasets/records/dataset-identity.js';

/** The smallest identity of a dataset. */
export const IDENTITY: DatasetIdentity = {
  model: { bytes: 1, sha256: '0'.repeat(64) },
  request: [],
  transform: {
    resize: 224,
    crop: 224,
    interpolation: 'bilinear',
    mean: null,
    std: null,
    orientation: 'ignore',
    decode: 'exact',
  },
  engine: 'onnxruntime',
  precision: 'float32',
  keepDims: false,
  dtype: 'float32',
  format: 'npy',
  checksum: false,
};
