import { describe, expect, it } from 'vitest';
import { PickledTensor, readTorchPickle } from '../../../src/model/parameters/torch-pickle.js';
import { tensorPickle } from '../../support/states.js';

describe('readTorchPickle', () => {
  it('gives a tensor as a view of its storage', () => {
    const tensor = readTorchPickle(
      tensorPickle({ elements: 100, offset: 4, dims: [2, 3], strides: [10, 2] }),
    );
    expect(tensor).toBeInstanceOf(PickledTensor);
    expect(tensor).toMatchObject({
      storage: { key: '0', dtype: 'float32', elements: 100 },
      offset: 4,
      dims: [2, 3],
      strides: [10, 2],
    });
  });

  it('accepts a tensor without elements, and an expanded one', () => {
    for (const [elements, dims, strides] of [
      [0, [0, 7], [7, 1]],
      [1, [64], [0]],
    ] as const)
      expect(readTorchPickle(tensorPickle({ elements, dims, strides }))).toMatchObject({ dims, strides });
  });

  it.each<[string, Parameters<typeof tensorPickle>[0], RegExp]>([
    [
      'ends behind its storage',
      { elements: 5, dims: [2, 3], strides: [3, 1] },
      /element 5 of a storage of 5/,
    ],
    ['starts behind it', { elements: 5, offset: 9, dims: [], strides: [] }, /element 9/],
    [
      'is expanded to gigabytes',
      { elements: 1, dims: [2 ** 30], strides: [0] },
      /1073741824 elements in a storage/,
    ],
    ['has more strides than dims', { elements: 5, dims: [5], strides: [1, 1] }, /1 dims and 2 strides/],
    ['has hundreds of dims', { elements: 1, dims: Array(99).fill(1), strides: Array(99).fill(1) }, /99 dims/],
    ['has a negative size', { elements: 5, dims: [-1], strides: [1] }, /tensor that is damaged/],
    ['has a negative stride', { elements: 5, offset: 4, dims: [5], strides: [-1] }, /tensor that is damaged/],
    [
      'has another class of storage',
      { elements: 5, dims: [5], strides: [1], type: 'QInt8Storage' },
      /torch\.QInt8Storage/,
    ],
    ['has a storage of negative size', { elements: -5, dims: [5], strides: [1] }, /storage in a form/],
  ])('refuses a tensor that %s', (_what, tensor, reason) => {
    expect(() => readTorchPickle(tensorPickle(tensor))).toThrow(reason);
  });

  it('is quick whatever the values share', () => {
    // ((…), (…)) of tuples that share their items: 2 ** 200 of them if each was visited.
    const doubled = Array.from(
      { length: 200 },
      (_, i) => `q${String.fromCharCode(i)}h${String.fromCharCode(i)}\x86`,
    );
    const pickle = Buffer.from(`)${doubled.join('')}.`, 'latin1');
    expect(readTorchPickle(pickle)).toHaveLength(2);
    const called = Buffer.from(`)${doubled.join('')}\x85ctorch\nSize\nh\x00R.`, 'latin1');
    expect(() => readTorchPickle(called)).not.toThrow();
  });

  it('refuses a pickle that only makes objects', () => {
    expect(() => readTorchPickle(Buffer.alloc(2 ** 21, ']'))).toThrow(/more than 1048576 steps/);
  });
});
