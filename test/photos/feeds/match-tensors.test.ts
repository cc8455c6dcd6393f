/** Which input takes which tensor of a photo, and as what. */
import { describe, expect, it } from 'vitest';
import { feedTensors } from '../../../src/photos/feeds/match-tensors.js';
import { fromFloat16Bits } from '../../../src/onnx/tensor/float16.js';
import type { TensorInfo } from '../../../src/onnx/tensor/tensor-info.js';
import type { Tensor } from '../../../src/onnx/tensor/tensor.js';

const input = (name: string, dtype: string | null, dims: TensorInfo['dims'] = null): TensorInfo => ({
  name,
  dtype,
  dims,
});
const pixels: Tensor = { dtype: 'float32', dims: [1, 2], data: Float32Array.of(0.1, 70_000) };
const mask = (...data: number[]): Tensor => ({
  dtype: 'int32',
  dims: [1, data.length],
  data: Int32Array.from(data),
});
const grid: Tensor = { dtype: 'int64', dims: [1, 2], data: BigInt64Array.of(3n, 300n) };
const refused = (part: string): unknown =>
  expect.objectContaining({ code: 'INPUT_MISMATCH', message: expect.stringContaining(part) });

describe('tensors of photos', () => {
  it('feed the only input, whatever it is called, and others by name, in the order of the inputs’ tensors', () => {
    expect(feedTensors([input('x', 'float32')], { pixel_values: pixels })).toEqual([
      { ...pixels, name: 'x' },
    ]);
    const inputs = [input('mask', 'int32'), input('pixel_values', null)];
    const feeds = feedTensors(inputs, { pixel_values: pixels, mask: mask(1) });
    expect(feeds.map(({ name }) => name)).toEqual(['mask', 'pixel_values']);
  });

  it('become the element type of the input: integers exactly, to bool what is not 0, float32 to float16 rounded', () => {
    const inputs = [input('m', 'int64'), input('b', 'bool'), input('g', 'int32'), input('h', 'float16')];
    const feeds = feedTensors(inputs, { m: mask(1, 0), b: mask(-2, 0), g: grid, h: pixels });
    expect(feeds.map(({ dtype, data }) => [dtype, [...(data as Int32Array)]])).toEqual([
      ['int64', [1n, 0n]],
      ['bool', [1, 0]],
      ['int32', [3, 300]],
      ['float16', expect.any(Array)],
    ]);
    expect([...(feeds[3]!.data as Uint16Array)].map(fromFloat16Bits)).toEqual([0.0999755859375, Infinity]);
  });

  it('are bytes for an input of bytes, and the same numbers for one of floats', () => {
    const bytes: Tensor = { dtype: 'uint8', dims: [1, 2], data: Uint8Array.of(7, 255) };
    for (const dtype of ['uint8', 'float32', 'float16']) {
      const [feed] = feedTensors([input('x', dtype)], { pixel_values: bytes });
      const { data } = feed!;
      const numbers =
        data instanceof Uint16Array ? [...data].map(fromFloat16Bits) : [...(data as Uint8Array)];
      expect([feed!.dtype, numbers]).toEqual([dtype, [7, 255]]);
    }
  });

  it('are refused where a number does not fit, the types do not convert, or the rank is another', () => {
    expect(() => feedTensors([input('g', 'uint8')], { g: grid })).toThrow(refused('uint8'));
    expect(() => feedTensors([input('g', 'float32')], { g: grid })).toThrow(refused('got int64'));
    expect(() => feedTensors([input('x', 'float64')], { x: pixels })).toThrow(refused('float64'));
    expect(() => feedTensors([input('x', 'float32', ['n', 3, 4, 4])], { x: pixels })).toThrow(
      refused('of dims'),
    );
  });

  it('name what the transform has if an input is not among it', () => {
    const inputs = [input('pixel_values', null), input('input_ids', 'int64')];
    expect(() => feedTensors(inputs, { pixel_values: pixels, mask: mask(1) })).toThrow(
      refused('"input_ids" must be one of what the transform has (pixel_values, mask)'),
    );
  });

  it('leave out what no input takes, but no mask of padding', () => {
    const inputs = [input('pixel_values', null)];
    expect(feedTensors(inputs, { pixel_values: pixels, spatial_shapes: grid })).toHaveLength(1);
    expect(feedTensors(inputs, { pixel_values: pixels, pixel_attention_mask: mask(1, 1) })).toHaveLength(1);
    expect(() => feedTensors(inputs, { pixel_values: pixels, pixel_attention_mask: mask(1, 0) })).toThrow(
      refused('"pixel_attention_mask"'),
    );
  });
});
