/** The batch of a call: which feeds have a row per sample, and the runs that it is cut into. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkSameRows,
  cutRange,
  hasSameRows,
  partsOf,
  readBatch,
  wholeRanges,
  type Batch,
} from '../../../src/onnx/tensor/batch.js';
import type { TensorInfo } from '../../../src/onnx/tensor/tensor-info.js';
import { elementCount, type NamedTensor } from '../../../src/onnx/tensor/tensor.js';

const input = (name: string, dims: TensorInfo['dims']): TensorInfo => ({ name, dtype: 'float32', dims });
const feed = (name: string, dims: readonly number[]): NamedTensor => ({
  name,
  dtype: 'float32',
  dims,
  data: new Float32Array(elementCount(dims)),
});
/** Reads the batch of inputs that are fed with these dims. */
function batchOf(cases: readonly (readonly [TensorInfo['dims'], readonly number[]])[], axis = 0): Batch {
  const inputs = cases.map(([dims], i) => input(`x${i}`, dims));
  const feeds = cases.map(([, dims], i) => feed(`x${i}`, dims));
  return readBatch(inputs, feeds, axis);
}

describe('readBatch', () => {
  it.each([
    [
      'an open axis',
      [
        [
          ['batch', 3],
          [5, 3],
        ],
      ],
      { isBatched: [true], rows: 5, fixed: null },
    ],
    ['unknown dims', [[null, [5, 3]]], { isBatched: [true], rows: 5, fixed: null }],
    [
      'a fixed batch',
      [
        [
          [2, 3],
          [2, 3],
        ],
      ],
      { isBatched: [true], rows: 2, fixed: 2 },
    ],
    [
      'a multiple of a fixed batch',
      [
        [
          [2, 3],
          [6, 3],
        ],
      ],
      { isBatched: [true], rows: 6, fixed: 2 },
    ],
    [
      'several fixed batches',
      [
        [
          [2, 3],
          [6, 3],
        ],
        [
          [4, 1],
          [12, 1],
        ],
      ],
      { isBatched: [true, true], rows: 6, fixed: 2 },
    ],
    [
      'a fixed input beside an open one',
      [
        [
          ['batch', 3],
          [5, 3],
        ],
        [
          [4, 3],
          [4, 3],
        ],
      ],
      { isBatched: [true, false], rows: 5, fixed: null },
    ],
    [
      'a scalar beside an open input',
      [
        [[], []],
        [
          ['batch', 3],
          [5, 3],
        ],
      ],
      { isBatched: [false, true], rows: 5, fixed: null },
    ],
    ['no input with rows', [[[], []]], { isBatched: [false], rows: null, fixed: null }],
    ['no inputs', [], { isBatched: [], rows: null, fixed: null }],
  ] as const)('finds %s', (_what, cases, expected) => expect(batchOf(cases)).toMatchObject(expected));

  it('finds the batch of another axis', () =>
    expect(
      batchOf(
        [
          [
            [3, 'batch'],
            [3, 5],
          ],
        ],
        1,
      ),
    ).toMatchObject({ rows: 5, fixed: null }));

  it.each([
    [
      'no multiple of a fixed batch',
      [
        [
          [4, 3],
          [6, 3],
        ],
      ],
    ],
    [
      'no rows for a fixed batch',
      [
        [
          [4, 3],
          [0, 3],
        ],
      ],
    ],
    [
      'different multiples',
      [
        [
          [2, 3],
          [4, 3],
        ],
        [
          [2, 3],
          [6, 3],
        ],
      ],
    ],
    [
      'a multiple of a fixed input beside an open one',
      [
        [
          ['batch', 3],
          [5, 3],
        ],
        [
          [2, 3],
          [4, 3],
        ],
      ],
    ],
  ] as const)('refuses %s', (_what, cases) =>
    expect(() => batchOf(cases)).toThrow(expect.objectContaining({ code: 'BATCH_FIXED' })),
  );

  it('says which input does not fit a fixed batch', () =>
    expect(() =>
      batchOf([
        [
          [4, 3],
          [6, 3],
        ],
      ]),
    ).toThrow('exported for a batch of 4, and the 6 rows of input "x0" do not fit'));

  it.each([
    [
      'another size',
      [
        [
          ['batch', 3],
          [5, 4],
        ],
      ],
    ],
    ['another length of a vector', [[[3], [4]]]],
  ] as const)('refuses %s', (_what, cases) =>
    expect(() => batchOf(cases)).toThrow(expect.objectContaining({ code: 'INPUT_MISMATCH' })),
  );
});

describe('checkSameRows', () => {
  it('refuses feeds of different length, with the rows of each', () => {
    const batch = batchOf([
      [
        ['n', 3],
        [5, 3],
      ],
      [
        ['n', 1],
        [4, 1],
      ],
    ]);
    expect(hasSameRows(batch)).toBe(false);
    expect(() => checkSameRows(batch)).toThrow('x0: 5, x1: 4');
  });

  it('refuses a feed without the axis to split along', () => {
    const inputs = [input('x', ['n', 'm']), input('v', null)];
    const batch = readBatch(inputs, [feed('x', [2, 2]), feed('v', [2])], 1);
    expect(() => checkSameRows(batch)).toThrow('a tensor with an axis 1 to split');
  });

  it('accepts scalars and feeds of the same length', () => {
    const batch = batchOf([
      [
        ['n', 3],
        [5, 3],
      ],
      [
        ['n', 1],
        [5, 1],
      ],
      [[], []],
    ]);
    expect(hasSameRows(batch)).toBe(true);
    expect(() => checkSameRows(batch)).not.toThrow();
  });
});

describe('runs', () => {
  it.each([
    [
      [
        [
          ['n', 3],
          [5, 3],
        ],
      ],
      [{ start: 0, count: 5 }],
    ],
    [
      [
        [
          [2, 3],
          [2, 3],
        ],
      ],
      [{ start: 0, count: 2 }],
    ],
    [
      [
        [
          [2, 3],
          [4, 3],
        ],
      ],
      [
        { start: 0, count: 2 },
        { start: 2, count: 2 },
      ],
    ],
    [[[[], []]], [{ start: 0, count: 0 }]],
  ] as const)('of %j are %j', (cases, ranges) => expect(wholeRanges(batchOf(cases))).toEqual(ranges));

  it('of a cut range cover it once, in order', () => {
    fc.assert(
      fc.property(fc.nat(50), fc.nat(200), fc.integer({ min: 1, max: 50 }), (start, count, size) => {
        const pieces = cutRange({ start, count }, size);
        let next = start;
        for (const piece of pieces) {
          expect(piece.start).toBe(next);
          expect(piece.count).toBeGreaterThan(0);
          expect(piece.count).toBeLessThanOrEqual(size);
          next += piece.count;
        }
        expect(next).toBe(start + count);
      }),
    );
  });
});

describe('partsOf', () => {
  const batch = batchOf([
    [
      ['n', 3],
      [5, 3],
    ],
    [
      [4, 3],
      [4, 3],
    ],
  ]);

  it('takes whole feeds for a run of all rows', () =>
    expect(partsOf(batch, { start: 0, count: 5 }, 5).map(({ start, count }) => [start, count])).toEqual([
      [0, 5],
      [0, 4],
    ]));

  it('cuts batched feeds, pads them, and passes the others whole', () =>
    expect(partsOf(batch, { start: 4, count: 1 }, 2)).toMatchObject([
      { name: 'x0', start: 4, count: 1, size: 2 },
      { name: 'x1', start: 0, count: 4, size: 4 },
    ]));
});
