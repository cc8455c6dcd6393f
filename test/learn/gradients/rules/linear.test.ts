/** Operators that are linear in their input: ⟨g, f(x)⟩ = ⟨∇, x⟩ holds for every mode, with sizes in the file and open. */
import { differentiate } from 'onnx-tapir/gradients';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../../src/onnx/file/wire/schema.js';
import { writeModel, type NewAttribute } from '../../../../src/onnx/file/wire/write-model.js';
import { openSession, type Feeds } from '../../../support/gradients.js';
import { countOf, integerTensor, Random } from '../../../support/random-graphs.js';

/** Integers, real numbers, or an absent input. */
type Extra = { readonly ints: readonly number[] } | { readonly floats: readonly number[] } | '';
type Attributes = Readonly<Record<string, NewAttribute>>;
type Case = readonly [op: string, dims: readonly number[], extra: readonly Extra[], attributes: Attributes];

const averages = [0, 1].flatMap((count_include_pad): Case[] =>
  [0, 1].map((ceil_mode) => [
    'AveragePool',
    [2, 3, 9, 8],
    [],
    { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1], ceil_mode, count_include_pad },
  ]),
);
const places = ['half_pixel', 'asymmetric', 'align_corners', 'pytorch_half_pixel'];
const resizes = ['nearest', 'linear', 'cubic'].flatMap((mode) =>
  places.flatMap((coordinate_transformation_mode): Case[] => {
    const attributes = { mode, coordinate_transformation_mode };
    return [
      ['Resize', [1, 2, 5, 4], ['', { floats: [1, 1, 1.7, 2] }], attributes],
      ['Resize', [1, 2, 5, 4], ['', '', { ints: [1, 2, 3, 7] }], attributes],
    ];
  }),
);
const pads = ['constant', 'reflect', 'edge', 'wrap'].flatMap((mode): Case[] => [
  ['Pad', [2, 5, 4], [{ ints: [0, 2, 1, 0, 1, 3] }], { mode }],
  ['Pad', [2, 5, 4], [{ ints: [0, -1, 2, 0, 1, -1] }], { mode }],
]);
const others: readonly Case[] = [
  ['Resize', [1, 2, 8, 8], ['', { floats: [1, 1, 0.5, 0.4] }], { mode: 'linear', antialias: 1 }],
  ['Slice', [5, 6, 7], [{ ints: [4, -2] }, { ints: [0, 100] }, { ints: [0, 2] }, { ints: [-2, 1] }], {}],
  ['Slice', [5, 6], [{ ints: [3] }, { ints: [3] }, { ints: [1] }], {}],
  ['CumSum', [3, 4], [{ ints: [1] }], { exclusive: 1, reverse: 1 }],
  ['DepthToSpace', [2, 8, 2, 3], [], { blocksize: 2, mode: 'CRD' }],
  ['Tile', [2, 3, 1], [{ ints: [1, 2, 3] }], {}],
  ['Einsum', [2, 3, 4], [], { equation: 'ijk->kj' }],
  ['ReduceMean', [2, 3, 4], [{ ints: [-1, 0] }], { keepdims: 0 }],
];

const OPSET = 19;
const random = new Random(7);

function graph([opType, dims, extra, attributes]: Case, isOpen: boolean): Uint8Array {
  const tensors = extra.flatMap((given, i) => {
    if (given === '') return [];
    if ('ints' in given) return [integerTensor(`c${i}`, given.ints)];
    const data = new Uint8Array(Float32Array.from(given.floats).buffer);
    return [{ name: `c${i}`, elemType: ELEMENT_TYPE.float32, dims: [given.floats.length], data }];
  });
  const names = extra.map((given, i) => (given === '' ? '' : `c${i}`));
  // The channels of a pool must be known.
  const sizes = dims.map((size, axis) => (isOpen && (axis !== 1 || dims.length < 4) ? `d${axis}` : size));
  return writeModel({
    irVersion: 8,
    opset: OPSET,
    name: 'linear',
    nodes: [{ name: 'n', opType, inputs: ['x', ...names], outputs: ['y'], attributes }],
    tensors,
    inputs: [{ name: 'x', elemType: ELEMENT_TYPE.float32, dims: sizes }],
    outputs: [{ name: 'y', elemType: ELEMENT_TYPE.float32, dims: null }],
  });
}

const tensor = (dims: readonly number[]): Feeds[string] => ({
  dtype: 'float32',
  dims: [...dims],
  data: Float32Array.from(random.values(countOf(dims))),
});
const dot = (a: Feeds[string], b: Feeds[string]): number =>
  Array.from(a.data as Float32Array).reduce((sum, value, i) => sum + value * Number(b.data[i]), 0);

describe.each([false, true])('sizes open: %s', (isOpen) => {
  // With ceil_mode, what the last window lacks depends on the sizes.
  const isKnown = ([, , , attributes]: Case): boolean => !(isOpen && attributes['ceil_mode'] === 1);
  it.each([...averages, ...resizes, ...pads, ...others].filter(isKnown))('%s %j %j %j', async (...one) => {
    const bytes = graph(one, isOpen);
    const x = tensor(one[1]);
    const { y } = await (await openSession(bytes, 'disabled'))({ x });
    const seed = tensor(y!.dims);
    const inputSizes = { x: one[1] };
    const gradients = await differentiate(bytes, { of: ['y'], withRespectTo: ['x'], inputSizes });
    const results = await (await openSession(await gradients.bytes()))({ x, 'gradient/y': seed });
    const expected = dot(seed, y!);
    expect(results['gradient/x']!.dims).toEqual([...one[1]]);
    expect(Math.abs(dot(results['gradient/x']!, x) - expected)).toBeLessThan(2e-5 * (1 + Math.abs(expected)));
  });
});
