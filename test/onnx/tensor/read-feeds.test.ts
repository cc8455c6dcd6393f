/** Feeds: in every form that callers use, and refused with the input's name. */
import { describe, expect, it } from 'vitest';
import { readFeeds } from '../../../src/onnx/tensor/read-feeds.js';
import type { TensorInfo } from '../../../src/onnx/tensor/tensor-info.js';
import type { Tensor } from '../../../src/onnx/tensor/tensor.js';

const image: TensorInfo = { name: 'image', dtype: 'float32', dims: ['batch', 2] };
const mask: TensorInfo = { name: 'mask', dtype: 'bool', dims: [null, 2] };
const free: TensorInfo = { name: 'free', dtype: null, dims: null };

const floats: Tensor = { dtype: 'float32', dims: [1, 2], data: new Float32Array(2) };
const bools: Tensor = { dtype: 'bool', dims: [1, 2], data: new Uint8Array(2) };

describe('readFeeds', () => {
  it('takes a single tensor for a single input', () => {
    expect(readFeeds([image], floats)).toEqual([{ name: 'image', ...floats }]);
    expect(readFeeds([free], bools)).toEqual([{ name: 'free', ...bools }]);
  });

  it.each([
    ['a record', { mask: bools, image: floats }],
    ['a nested record', { model: { image: floats }, mask: bools }],
    ['a list in the order of the inputs', [floats, bools]],
    ['a list for the inputs that no record names', [{ mask: bools }, floats]],
    ['nested lists', [[floats], [[bools]]]],
  ])('takes %s and returns the order of the model', (_what, given) => {
    expect(readFeeds([image, mask], given)).toEqual([
      { name: 'image', ...floats },
      { name: 'mask', ...bools },
    ]);
  });

  it('takes nothing for a model without inputs', () => expect(readFeeds([], {})).toEqual([]));

  it('takes the dtype from the array', () => {
    expect(readFeeds([image], { dims: [1, 2], data: new Float32Array(2) })).toEqual([
      { name: 'image', ...floats },
    ]);
  });

  it.each([
    ['no object', [image], undefined, 'image', 'a tensor { dtype, dims, data }, or a record'],
    ['a single tensor for several inputs', [image, mask], floats, 'image', 'given by name: the model has 2'],
    ['a missing input', [image, mask], { image: floats }, 'mask', 'given, got nothing'],
    [
      'a misspelt name',
      [image],
      { image: floats, imgae: floats },
      'imgae',
      'one of the model\'s inputs: "image"',
    ],
    [
      'an input given twice',
      [image],
      { a: { image: floats }, image: floats },
      'image',
      'given once, got twice',
    ],
    [
      'too many tensors in a list',
      [image],
      [floats, floats],
      'image',
      'a list of at most 1 tensor: the model has 1 input',
    ],
    ['an array alone', [image], { image: new Float32Array(2) }, 'image', 'a tensor { dtype, dims, data }'],
    ['another dtype', [mask], floats, 'mask', 'must be bool, got float32'],
    [
      'another dtype than the one of the array',
      [mask],
      { dims: [1, 2], data: new Uint8Array(2) },
      'mask',
      'must be bool, got uint8 from its array (state the dtype)',
    ],
    ['another rank', [image], { ...floats, dims: [2] }, 'image', 'of dims [batch, 2], got [2]'],
    ['another rank than an open one', [mask], { ...bools, dims: [2] }, 'mask', 'of dims [?, 2], got [2]'],
  ] as const)('refuses %s', (_what, inputs, given, input, message) => {
    const reading = (): unknown => readFeeds(inputs, given);
    expect(reading).toThrow(message);
    expect(reading).toThrow(
      expect.objectContaining({ code: 'INPUT_MISMATCH', details: expect.objectContaining({ input }) }),
    );
  });

  it('refuses records nested without end', () => {
    const endless: Record<string, unknown> = {};
    endless['again'] = endless;
    expect(() => readFeeds([image], endless)).toThrow(expect.objectContaining({ code: 'INPUT_MISMATCH' }));
  });
});
