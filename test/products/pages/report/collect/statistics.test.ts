/** Streaming statistics against direct ones; samples; a dataset with dead rows. */
import { describe, expect, it } from 'vitest';
import { openDataset, type Dataset } from '../../../../../src/datasets/files/dataset.js';
import { collectInputs } from '../../../../../src/products/pages/report/collect/collect-inputs.js';
import { collectOutput } from '../../../../../src/products/pages/report/collect/collect-output.js';
import { layOutRow, poolRow } from '../../../../../src/onnx/tensor/vectors/row-layout.js';
import { createRandom } from '../../../../../src/base/random.js';
import { Reservoir } from '../../../../../src/base/reservoir.js';
import { RowSet } from '../../../../../src/base/row-set.js';
import { storeDataset } from '../../../../support/stored-dataset.js';
import { StatisticsCollector } from '../../../../../src/products/pages/report/collect/statistics.js';

const breathe = (): Promise<void> => Promise.resolve();
const random = createRandom(11);

describe('StatisticsCollector', () => {
  it.each([[[7]], [[3, 2, 5]], [[4, 6]]])('sees in rows of %j what a direct computation does', (dims) => {
    const elements = dims.reduce((a, b) => a * b);
    // Far from zero: sums of plain squares would lose most digits.
    const rows = Array.from({ length: 50 }, () =>
      Float32Array.from({ length: elements }, (_, i) => 1000 + i + random()),
    );
    const layout = layOutRow(dims);
    const collector = new StatisticsCollector(layout);
    for (const row of rows) expect(collector.add(row, 0)).toBe(true);
    const all = rows.flatMap((row) => [...row]);
    const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
    const std = Math.sqrt(all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / all.length);
    const result = collector.finish();
    expect(result).toMatchObject({
      rows: 50,
      values: all.length,
      nan: 0,
      infinite: 0,
      min: Math.min(...all),
      max: Math.max(...all),
      zero: [],
      constant: [],
    });
    expect(result.mean).toBeCloseTo(mean, 9);
    expect(result.std).toBeCloseTo(std, 9);
    rows.forEach((row, i) => expect(result.norms[i]).toBeCloseTo(Math.hypot(...row), 6));
    const { channels, channelStride, positions, positionStride } = layout;
    for (let channel = 0; channel < channels; channel++) {
      const values = rows.flatMap((row) =>
        Array.from({ length: positions }, (_, p) => row[channel * channelStride + p * positionStride]!),
      );
      const own = values.reduce((sum, value) => sum + value, 0) / values.length;
      const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - own) ** 2, 0) / values.length);
      expect(result.channelStd[channel]).toBeCloseTo(spread, 9);
    }
  });

  it('finds dead channels, and counts what is not finite', () => {
    const collector = new StatisticsCollector(layOutRow([5]));
    const rows = [
      [0, 3, 1, 0, Number.NaN],
      [0, 3, 2, 0, 2],
      [-0, 3, 1, Infinity, 2],
    ];
    const finite = rows.map((row) => collector.add(Float32Array.from(row), 0));
    expect(finite).toEqual([false, true, false]);
    expect(collector.finish()).toMatchObject({
      rows: 3,
      values: 15,
      nan: 1,
      infinite: 1,
      zero: [0],
      constant: [1],
      norms: Float64Array.of(Math.sqrt(9 + 4 + 4)),
      min: 0,
      max: 3,
    });
  });

  it('calls no channel of a single row dead, and takes none', () => {
    const collector = new StatisticsCollector(layOutRow([2]));
    expect(collector.finish()).toMatchObject({ rows: 0, mean: Number.NaN, max: Number.NaN });
    collector.add(Float32Array.of(0, 1), 0);
    expect(collector.finish()).toMatchObject({ rows: 1, zero: [], constant: [] });
  });
});

describe('poolRow', () => {
  it('takes the mean over space of maps, over tokens of sequences, nothing of vectors', () => {
    const into = new Float32Array(4);
    poolRow(Float32Array.of(9, 1, 2, 3, 4, 5, 6), 1, layOutRow([2, 1, 3]), into, 1);
    expect([...into]).toEqual([0, 2, 5, 0]);
    poolRow(Float32Array.of(1, 2, 3, 4, 5, 6), 0, layOutRow([3, 2]), into, 0);
    expect([...into.subarray(0, 2)]).toEqual([3, 4]);
    poolRow(Float32Array.of(1, 2), 0, layOutRow([2]), into, 0);
    expect([...into.subarray(0, 2)]).toEqual([1, 2]);
    expect([[2, 1, 3], [3, 2], [2]].map((dims) => layOutRow(dims).averaged)).toEqual([
      'space',
      'tokens',
      null,
    ]);
  });
});

describe('Reservoir', () => {
  it('keeps all while they fit, and any of more with the same chance', () => {
    const counts = Array.from({ length: 20 }, () => 0);
    for (let seed = 0; seed < 4000; seed++) {
      const reservoir = new Reservoir<number>(5, seed);
      for (let i = 0; i < 20; i++) reservoir.add(() => i);
      for (const item of reservoir.items) counts[item]!++;
    }
    // 1000 expected; 27 is the standard deviation.
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(140);
    const small = new Reservoir<number>(5, 1);
    for (const item of [1, 2, 3]) small.add(() => item);
    expect(small.items).toEqual([1, 2, 3]);
  });
});

describe('RowSet', () => {
  it('holds rows far apart', () => {
    const set = new RowSet();
    const rows = [0, 7, 8, 65_535, 65_536, 2 ** 33 + 5];
    for (const row of rows) set.add(row);
    for (const row of rows) {
      expect(set.has(row)).toBe(true);
      expect(set.has(row + 1)).toBe(rows.includes(row + 1));
    }
  });
});

/** Six rows of two numbers, of which row 2 is dead and row 4 not finite; four failures of two codes. */
function makeDataset(): Dataset {
  const rows = [
    [1, 0],
    [0, 1],
    [99, 99],
    [1, 0],
    [Number.NaN, 1],
    [3, 4],
  ];
  const inputs = [
    ...[0, 1, 3, 5, 4].map((row) => ({ path: `photo-${row}.jpg`, row })),
    ...['A', 'B', 'B', null].map((errorCode) => ({ path: null, errorCode })),
  ];
  return storeDataset({ key: 'f', rows, shard: 4, inputs }, openDataset);
}

describe('a dataset', () => {
  it('is read without its dead rows', async () => {
    const dataset = makeDataset();
    const inputs = await collectInputs(dataset, 5000, breathe);
    expect(inputs).toMatchObject({ ok: 5, failed: 4 });
    expect(inputs.failures.map(({ code, count }) => [code, count])).toEqual([
      ['B', 2],
      ['A', 1],
      ['without a code', 1],
    ]);
    expect(inputs.images.map(({ row }) => row)).toEqual([0, 1, 3, 4, 5]);
    const output = await collectOutput(dataset, 'f', inputs, breathe);
    expect(output.statistics).toMatchObject({ rows: 5, nan: 1, max: 4 });
    expect(output.members).toEqual([0, 1, 2, 4]);
    expect([...output.vectors.data]).toEqual([1, 0, 0, 1, 1, 0, 3, 4]);
    expect([...output.sameAs]).toEqual([0, 1, 0, 2]);
    expect(output.notFinite).toBe(1);
  });

  it('is sampled, with statistics of all rows all the same', async () => {
    const dataset = makeDataset();
    const inputs = await collectInputs(dataset, 2, breathe);
    expect(inputs).toMatchObject({ ok: 5, images: { length: 2 } });
    const output = await collectOutput(dataset, 'f', inputs, breathe);
    expect(output.statistics.rows).toBe(5);
    expect(output.members.length + output.notFinite).toBe(2);
  });
});
