/** Tensors → what the page shows of them. */
import { describe, expect, it } from 'vitest';
import { principalColours } from '../../../../../src/products/maps/principal-colours.js';
import {
  describeAttention,
  describeMaps,
  topClasses,
} from '../../../../../src/products/pages/explore/see/describe-maps.js';
import { makeTensor, type Tensor } from '../../../../../src/onnx/tensor/tensor.js';

function filled(dims: readonly number[], value: (i: number) => number): Tensor<'float32'> {
  const count = dims.reduce((product, size) => product * size, 1);
  return makeTensor(
    'float32',
    dims,
    Float32Array.from({ length: count }, (_, i) => value(i)),
  );
}

const bytesOf = (base64: string): number[] => [...Buffer.from(base64, 'base64')];

describe('features', () => {
  it('sorts maps by energy and scales each to its own range', async () => {
    // Channel 0: small values, 1: large ones, 2: zeros.
    const tensor = filled([1, 3, 2, 2], (i) => (i < 4 ? i : i < 8 ? -10 * (i - 3) : 0));
    const { maps, statistics, vector } = await describeMaps(tensor, 'NCHW');
    expect(maps!.maps).toEqual([
      [1, -40, -10],
      [0, 0, 3],
      [2, 0, 0],
    ]);
    expect(bytesOf(maps!.pixels)).toEqual([255, 170, 85, 0, 0, 85, 170, 255, 0, 0, 0, 0]);
    expect(vector).toBeNull();
    expect(statistics).toMatchObject({ count: 12, least: -40, largest: 3, zeros: 5, channels: 3, dead: 1 });
  });

  it('shows scores of classes per pixel as a mask', async () => {
    // Class 0 is highest on the left, class 2 on the right.
    const tensor = filled([1, 3, 2, 2], (i) => (i < 4 ? 1 - (i % 2) : i < 8 ? 0.5 : i % 2));
    const { mask } = await describeMaps(tensor, 'NCHW', [2, 2], true);
    expect(mask).toMatchObject({ height: 2, width: 2 });
    expect(bytesOf(mask!.pixels)).toEqual([0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 128, 0]);
    for (const [size, isOutput] of [
      [[2, 2], false],
      [[4, 4], true],
    ] as const)
      expect((await describeMaps(tensor, 'NCHW', size, isOutput)).mask).toBeNull();
  });

  it('reads channels last, and averages maps that are larger than 64', async () => {
    const tensor = filled([1, 128, 100, 2], (i) => (i % 2 === 0 ? 1 : Math.floor(i / 200)));
    const { maps, notes, statistics } = await describeMaps(tensor, 'NHWC');
    expect(maps).toMatchObject({ height: 64, width: 50, reduced: 2 });
    // Rows 0 and 1 have the mean 0.5, rows 126 and 127 that of 126.5.
    expect(maps!.maps[0]).toEqual([1, 0.5, 126.5]);
    expect(statistics.largest).toBe(127);
    expect(notes).toEqual(['Each shown place is the mean of 2 × 2.']);
  });

  it('turns patch tokens into maps and leaves the class token out', async () => {
    const tensor = filled([1, 5, 3], (i) => (i < 3 ? 1000 : i));
    const { maps, notes } = await describeMaps(tensor, 'NLC');
    expect(maps).toMatchObject({ height: 2, width: 2 });
    expect(maps!.maps.map(([channel, least, largest]) => [channel, least, largest])).toEqual([
      [2, 5, 14],
      [1, 4, 13],
      [0, 3, 12],
    ]);
    expect(notes).toEqual(['The class token is left out of the maps.']);
    // Two rows of four patches of a wide image.
    expect(
      (
        await describeMaps(
          filled([1, 9, 3], (i) => i),
          'NLC',
          [16, 32],
        )
      ).maps,
    ).toMatchObject({ height: 2, width: 4 });
    expect(
      (
        await describeMaps(
          filled([1, 7, 3], (i) => i),
          'NLC',
        )
      ).maps,
    ).toBeNull();
  });

  it('gives vectors as they are, and counts what is not finite', async () => {
    const { maps, vector, statistics } = await describeMaps(
      filled([1, 4], (i) => [1, NaN, -Infinity, 3][i]!),
      'NC',
    );
    expect(maps).toBeNull();
    expect([...new Float32Array(Uint8Array.from(bytesOf(vector!)).buffer)]).toEqual([1, NaN, -Infinity, 3]);
    expect(statistics).toMatchObject({ mean: 2, std: 1, notFinite: 2, least: 1, largest: 3 });
  });

  it('finds the components that vary, the same ones each time, orthogonal to each other', async () => {
    const size = 64;
    const data = Float32Array.from({ length: 4 * size }, (_, i) => {
      const [c, place] = [Math.floor(i / size), i % size];
      return [10 * Math.sin(place), 5 * Math.cos(3 * place), place % 2, 0][c]!;
    });
    const places = { rows: 1, channels: 4, size: [8, 8], data, prefix: 0 } as const;
    const [colours] = (await principalColours([places], 0.01))!;
    expect([colours]).toEqual(await principalColours([places], 0.01));
    // Red follows the channel that varies most.
    const red = Float64Array.from({ length: size }, (_, i) => colours![3 * i]!);
    const wave = Float64Array.from({ length: size }, (_, i) => Math.sin(i));
    expect(correlation(red, wave)).toBeGreaterThan(0.98);
    expect(
      correlation(
        Float64Array.from({ length: size }, (_, i) => colours![3 * i + 1]!),
        wave,
      ),
    ).toBeLessThan(0.2);
    expect(await principalColours([{ ...places, channels: 2 }], 0.01)).toBeUndefined();
  });

  it('shows where the class token looks, head by head', async () => {
    const tensor = filled([1, 2, 5, 5], (i) => i);
    const attention = describeAttention(tensor)!;
    expect(attention.from).toBe('the class token');
    expect(attention.maps).toEqual([
      [0, 1, 4],
      [1, 26, 29],
    ]);
    expect(describeAttention(filled([1, 2, 5, 4], (i) => i))).toBeUndefined();
    expect(describeAttention(filled([2, 5, 5], (i) => i))!.maps).toEqual(attention.maps);
    const mean = describeAttention(filled([1, 1, 4, 4], (i) => i))!;
    expect(mean.maps).toEqual([[0, 6, 9]]);
    expect(mean.from).toBe('a token, on average,');
  });

  it('orders classes, and takes scores that are probabilities as they are', async () => {
    const logits = topClasses(Float32Array.of(0, Math.log(3), -50), ['a', 'b', 'c'], 2);
    expect(logits.map(({ label, probability }) => [label, probability.toFixed(4)])).toEqual([
      ['b', '0.7500'],
      ['a', '0.2500'],
    ]);
    const [first] = topClasses(Float32Array.of(0.25, 0.75), null, 1);
    expect(first).toEqual({ index: 1, label: null, score: 0.75, probability: 0.75 });
  });
});

function correlation(a: Float64Array, b: Float64Array): number {
  const mean = (values: Float64Array): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const [ma, mb] = [mean(a), mean(b)];
  const dot = (x: Float64Array, mx: number, y: Float64Array, my: number): number =>
    x.reduce((sum, value, i) => sum + (value - mx) * (y[i]! - my), 0);
  return Math.abs(dot(a, ma, b, mb)) / Math.sqrt(dot(a, ma, a, ma) * dot(b, mb, b, mb));
}
