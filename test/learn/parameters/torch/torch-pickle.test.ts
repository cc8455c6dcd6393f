import { describe, expect, it } from 'vitest';
import { PickledTensor, readTorchPickle } from '../../../../src/learn/parameters/torch/torch-pickle.js';
import { dictPickle, tensorOpcodes, tensorPickle } from '../../../support/states.js';

describe('readTorchPickle', () => {
  it('gives a tensor as a view of its storage', () => {
    const pickle = tensorPickle({ elements: 100, offset: 4, dims: [2, 3], strides: [10, 2] });
    const { value: tensor, storages, end } = readTorchPickle(pickle);
    expect([[...storages.keys()], end]).toEqual([['0'], pickle.length]);
    expect(tensor).toBeInstanceOf(PickledTensor);
    expect(tensor).toMatchObject({
      storage: { key: '0', dtype: 'float32', elements: 100 },
      dtype: 'float32',
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
      expect(readTorchPickle(tensorPickle({ elements, dims, strides })).value).toMatchObject({
        dims,
        strides,
      });
  });

  it('counts in elements of the tensor where the storage has no type', () => {
    const tensor = { elements: 12, offset: 2, dims: [4], strides: [1], dtype: 'uint16' } as const;
    expect(readTorchPickle(tensorPickle(tensor)).value).toMatchObject({
      storage: { dtype: 'uint8', sizeBytes: 12 },
      dtype: 'uint16',
      offset: 2,
    });
    for (const dtype of [
      'float8_e4m3fn',
      'float8_e5m2',
      'float8_e4m3fnuz',
      'float8_e5m2fnuz',
      'float8_e8m0fnu',
    ])
      expect(readTorchPickle(tensorPickle({ ...tensor, dtype })).value).toMatchObject({ dtype });
    expect(() => readTorchPickle(tensorPickle({ ...tensor, offset: 3 }))).toThrow(
      /element 6 of a storage of 6/,
    );
    expect(() => readTorchPickle(tensorPickle({ ...tensor, dtype: 'float4_e2m1fn' }))).toThrow(
      /torch\.float4_e2m1fn/,
    );
  });

  it('counts from the start of a view of a storage', () => {
    const tensor = { elements: 10, first: 4, offset: 1, dims: [5], strides: [1] };
    expect(readTorchPickle(tensorPickle(tensor)).value).toMatchObject({ offset: 5 });
    expect(() => readTorchPickle(tensorPickle({ ...tensor, dims: [6] }))).toThrow(/element 10/);
  });

  it.each<[string, Parameters<typeof tensorPickle>[0], RegExp]>([
    ['ends after its storage', { elements: 5, dims: [2, 3], strides: [3, 1] }, /element 5 of a storage of 5/],
    ['starts after it', { elements: 5, offset: 9, dims: [], strides: [] }, /element 9/],
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
    ['is stored negated', { elements: 5, dims: [5], strides: [1], mark: 'neg' }, /stored negated/],
    ['is stored conjugated', { elements: 5, dims: [5], strides: [1], mark: 'conj' }, /conjugated/],
    [
      'has a view that starts before its storage',
      { elements: 5, first: -1, dims: [], strides: [] },
      /view of a/,
    ],
    ['has a storage of negative size', { elements: -5, dims: [5], strides: [1] }, /storage in a form/],
  ])('refuses a tensor that %s', (_what, tensor, reason) => {
    expect(() => readTorchPickle(tensorPickle(tensor))).toThrow(reason);
  });

  it('refuses a storage with two sizes', () => {
    const [one, other] = [4, 5].map((elements) => tensorOpcodes({ elements, dims: [], strides: [] })) as [
      Buffer,
      Buffer,
    ];
    expect(() =>
      readTorchPickle(
        dictPickle([
          ['a', one],
          ['b', other],
        ]),
      ),
    ).toThrow(/storage 0 two sizes/);
  });

  it('is quick whatever the values share', () => {
    // ((…), (…)) of tuples that share their items: 2 ** 200 of them if each was visited.
    const doubled = Array.from(
      { length: 200 },
      (_, i) => `q${String.fromCharCode(i)}h${String.fromCharCode(i)}\x86`,
    );
    const pickle = Buffer.from(`)${doubled.join('')}.`, 'latin1');
    expect(readTorchPickle(pickle).value).toHaveLength(2);
    const called = Buffer.from(`)${doubled.join('')}\x85ctorch\nSize\nh\x00R.`, 'latin1');
    expect(() => readTorchPickle(called)).not.toThrow();
  });

  it('refuses a pickle that only makes objects', () => {
    expect(() => readTorchPickle(Buffer.alloc(2 ** 21, ']'))).toThrow(/more than 1048576 steps/);
  });
});
