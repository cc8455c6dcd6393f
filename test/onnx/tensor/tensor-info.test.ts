import { expect, it } from 'vitest';
import { dimsText } from '../../../src/onnx/tensor/tensor-info.js';

it('shows sizes, names and open dims', () => {
  expect(dimsText({ name: 'x', dtype: null, dims: ['batch', 3, null] })).toBe('[batch, 3, ?]');
  expect(dimsText({ name: 'x', dtype: null, dims: null })).toBe('[]');
});
