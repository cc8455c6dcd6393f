/** Splitting and joining: torch's golden tables, and the round trip along any axis. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gather } from '../../src/tensor/gather.js';
import { chunkSizes, deviceRows, evenParts, readSplit } from '../../src/tensor/split.js';
import { cutOut, wholePart, type TensorPart } from '../../src/tensor/tensor-part.js';
import type { Tensor, NamedTensor } from '../../src/tensor/tensor.js';
import { WarmSizes } from '../../src/runtime/warm-sizes.js';
import { fixturePath } from '../support/fixtures.js';

interface Case {
  readonly id: string;
  readonly kind: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
  readonly warning?: string;
  readonly what?: string;
}
const golden = JSON.parse(readFileSync(fixturePath('parallel/cases.json'), 'utf8')) as { cases: Case[] };
const casesOf = (kind: string): Case[] => golden.cases.filter((one) => one.kind === kind);

const noSpare = (): undefined => undefined;
const isPlain = (value: unknown): value is object => value !== null && typeof value === 'object';

/** The tensors of torch's nested value, by their place in it. */
function leavesOf(value: unknown, path = ''): { name: string; value: Tensor | null }[] {
  if (!isPlain(value)) throw new Error('no such form');
  if ('tensor' in value) {
    const { shape, data } = value.tensor as { shape: number[]; data: number[] };
    return [{ name: path, value: { dtype: 'float32', dims: shape, data: Float32Array.from(data) } }];
  }
  if ('value' in value) return [{ name: path, value: null }];
  const [items] = Object.values(value) as unknown[];
  return Object.entries(items as object).flatMap(([key, item]) => leavesOf(item, `${path}/${key}`));
}

function tensorsOf(value: unknown): NamedTensor[] {
  return leavesOf(value).flatMap(({ name, value: tensor }) => (tensor ? [{ name, ...tensor }] : []));
}

describe('chunkSizes', () => {
  it.each(casesOf('chunk'))('$id: $input', ({ input, result }) => {
    const { n, devices } = input as { n: number; devices: number };
    expect(chunkSizes(n, devices)).toEqual((result as { sizes: number[] }).sizes);
  });

  it.each([
    [-1, 1],
    [1.5, 1],
    [1, 0],
    ['3' as unknown as number, 1],
  ])('refuses %j rows over %j devices', (rows, devices) => {
    expect(() => chunkSizes(rows, devices)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});

describe('deviceRows', () => {
  it('adds up, one number per device, whatever the split', () => {
    const weights = fc.array(fc.float({ min: 0, max: 100, noNaN: true }), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(fc.nat(10_000), weights, (rows, list) => {
        fc.pre(list.some((weight) => weight > 0));
        for (const split of ['chunk', 'balanced', list] as const) {
          const sizes = deviceRows(split, rows, list.length);
          expect(sizes).toHaveLength(list.length);
          expect(sizes.every((size) => Number.isInteger(size) && size >= 0)).toBe(true);
          expect(sizes.reduce((a, b) => a + b, 0)).toBe(rows);
        }
        const even = deviceRows('balanced', rows, list.length);
        expect(Math.max(...even) - Math.min(...even)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it.each([
    // torch.tensor_split's.
    ['balanced', 30, 4, [8, 8, 7, 7]],
    ['balanced', 9, 8, [2, 1, 1, 1, 1, 1, 1, 1]],
    ['chunk', 9, 8, [2, 2, 2, 2, 1, 0, 0, 0]],
    [[3, 1], 8, 2, [6, 2]],
    [[1, 0], 3, 2, [3, 0]],
    [[1, 1, 1], 4, 3, [2, 1, 1]],
  ] as const)('%j: %i rows over %i devices are %j', (split, rows, devices, expected) => {
    expect(deviceRows(split, rows, devices)).toEqual(expected);
  });

  it('even parts keep the rest for the last', () => expect(evenParts(10, 4)).toEqual([4, 4, 2]));
});

describe('readSplit', () => {
  it('copies weights', () => {
    const weights = [1, 2];
    const split = readSplit('split', weights, 2);
    weights[0] = 9;
    expect(split).toEqual([1, 2]);
  });

  it.each([['even'], [[1]], [[0, 0]], [[1, -1]], [[1, Number.NaN]], [2], [null]])('refuses %j', (given) => {
    expect(() => readSplit('split', given, 2)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});

describe('scatter', () => {
  const cases = casesOf('scatter').filter(({ input, error }) => {
    const tensors = error === undefined ? tensorsOf(input['value']) : [];
    // Unequal lengths are refused before anything is cut (data-parallel.test.ts): torch drops rows.
    return tensors.length > 0 && new Set(tensors.map(({ dims }) => dims[0])).size === 1;
  });

  it.each(cases)('$id: $what', async ({ input, result }) => {
    const tensors = tensorsOf(input['value']);
    const rows = tensors[0]!.dims[0]!;
    const sizes = chunkSizes(rows, input['devices'] as number);
    let start = 0;
    const parts: NamedTensor[][] = [];
    for (const count of sizes) {
      const from = start;
      start += count;
      parts.push(
        await Promise.all(
          tensors.map((tensor) =>
            cutOut({ name: tensor.name, tensor, axis: 0, start: from, count, size: count }, false, noSpare),
          ),
        ),
      );
    }
    const expected = (result as { list: unknown[] }).list.map(tensorsOf);
    expect(parts.map((list) => list.map(plain))).toEqual(expected.map((list) => list.map(plain)));
  });
});

function plain({ name, dims, data }: NamedTensor): object {
  return { name, dims: [...dims], data: [...(data as Float32Array)] };
}

describe('gather', () => {
  const cases = casesOf('gather');
  const hasOnlyTensors = ({ input }: Case): boolean =>
    (input['outputs'] as unknown[]).every((output) => leavesOf(output).every(({ value }) => value !== null));

  it.each(cases.filter((one) => one.error === undefined && hasOnlyTensors(one)))(
    '$id: $what',
    async ({ input, result }) => {
      const joined = await gather((input['outputs'] as unknown[]).map(tensorsOf), input['dim'] as number);
      expect(joined.map(plain)).toEqual(tensorsOf(result).map(plain));
    },
  );

  it.each(cases.filter((one) => one.error !== undefined && hasOnlyTensors(one)))(
    '$id refuses $what',
    async ({ input }) => {
      const joining = gather((input['outputs'] as unknown[]).map(tensorsOf), input['dim'] as number);
      await expect(joining).rejects.toMatchObject({ code: 'OUTPUT_NOT_GATHERABLE' });
    },
  );

  // torch answers None in silence.
  it.each(cases.filter(({ id }) => id === 'gather-36'))('$id refuses $what', async ({ input }) => {
    const joining = gather((input['outputs'] as unknown[]).map(tensorsOf), 0);
    await expect(joining).rejects.toMatchObject({
      code: 'OUTPUT_NOT_GATHERABLE',
      message: 'output "" cannot be joined: some devices gave it and others did not',
    });
  });

  const of = (name: string, dims: number[], dtype: 'float32' | 'int64' = 'float32'): NamedTensor => {
    const length = dims.reduce((a, b) => a * b, 1);
    return {
      name,
      dtype,
      dims,
      data: dtype === 'float32' ? new Float32Array(length) : new BigInt64Array(length),
    } as NamedTensor;
  };

  it.each([
    ['scalars along axis 1', [[of('y', [])], [of('y', [])]], 1, 'it has no axis 1'],
    ['dtypes', [[of('y', [1])], [of('y', [1], 'int64')]], 0, 'float32 on one device and int64 on another'],
    ['ranks', [[of('y', [1])], [of('y', [1, 1])]], 0, 'its rank differs: [1], [1, 1]'],
    [
      'orders',
      [
        [of('a', [1]), of('b', [1])],
        [of('b', [1]), of('a', [1])],
      ],
      0,
      'different order',
    ],
  ])('refuses different %s', async (_what, runs, axis, message) => {
    const joining = gather(runs, axis);
    await expect(joining).rejects.toMatchObject({ code: 'OUTPUT_NOT_GATHERABLE' });
    await expect(joining).rejects.toThrow(message);
  });

  it('gives a single run’s outputs as they are', async () => {
    const output = of('y', []);
    expect((await gather([[output]], 3))[0]).toBe(output);
  });
});

describe('cutting out and joining', () => {
  const shape = fc.record({
    dims: fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 4 }),
    axis: fc.nat(3),
    cuts: fc.array(fc.nat(100), { maxLength: 4 }),
  });

  it('is the identity along any axis, for numbers, big integers and strings', async () => {
    await fc.assert(
      fc.asyncProperty(shape, async ({ dims, axis: wanted, cuts }) => {
        const axis = wanted % dims.length;
        const length = dims.reduce((a, b) => a * b, 1);
        const numbers = Array.from({ length }, (_, i) => i);
        const tensors = [
          { dtype: 'float32', dims, data: Float32Array.from(numbers) },
          { dtype: 'int64', dims, data: BigInt64Array.from(numbers, BigInt) },
          { dtype: 'string', dims, data: numbers.map(String) },
        ] as const satisfies readonly Tensor[];
        const ends = [...cuts.map((cut) => cut % (dims[axis]! + 1)), dims[axis]!].toSorted((a, b) => a - b);
        for (const tensor of tensors) {
          const parts = await Promise.all(
            ends.map((end, i) => {
              const start = ends[i - 1] ?? 0;
              const count = end - start;
              return cutOut({ name: 'x', tensor, axis, start, count, size: count }, false, noSpare);
            }),
          );
          const [joined] = await gather(
            parts.map((part) => [part]),
            axis,
          );
          expect(joined).toEqual({ name: 'x', ...tensor });
        }
      }),
    );
  });

  it('of more than a slice’s bytes is the identity, too', async () => {
    const data = Float64Array.from({ length: 700_001 }, (_, i) => i);
    const tensor: Tensor = { dtype: 'float64', dims: [700_001], data };
    const part = await cutOut(wholePart({ name: 'x', ...tensor }), false, noSpare);
    expect(part.data).toEqual(data);
    expect(part.data).not.toBe(data);
  });
});

describe('cutOut', () => {
  const data = Float32Array.from({ length: 12 }, (_, i) => i + 1);
  const tensor: Tensor = { dtype: 'float32', dims: [2, 3, 2], data };
  const part = (fields: Partial<TensorPart>): TensorPart => ({
    name: 'x',
    tensor,
    axis: 0,
    start: 0,
    count: 2,
    size: 2,
    ...fields,
  });

  it('moves a buffer that may be given up and holds nothing else', async () => {
    expect((await cutOut(part({}), true, noSpare)).data).toBe(data);
    expect((await cutOut(part({}), false, noSpare)).data).not.toBe(data);
    const view: Tensor = { ...tensor, dims: [2], data: data.subarray(2, 4) };
    const copy = await cutOut(wholePart({ name: 'x', ...view }), true, noSpare);
    expect(copy.data).toEqual(Float32Array.of(3, 4));
    expect((copy.data as Float32Array).buffer.byteLength).toBe(8);
    const shared: Tensor = { dtype: 'uint8', dims: [4], data: new Uint8Array(new SharedArrayBuffer(4)) };
    const own = await cutOut(wholePart({ name: 'x', ...shared }), true, noSpare);
    expect((own.data as Uint8Array).buffer).toBeInstanceOf(ArrayBuffer);
  });

  it('adds zeros, also over a used buffer and along an inner axis', async () => {
    const used = (bytes: number): ArrayBuffer => new Uint8Array(bytes).fill(255).buffer;
    const rows = await cutOut(part({ start: 1, count: 1, size: 2 }), false, used);
    expect([...(rows.data as Float32Array)]).toEqual([7, 8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 0]);
    const inner = await cutOut(part({ axis: 1, start: 1, count: 1, size: 2 }), false, used);
    expect(inner.dims).toEqual([2, 2, 2]);
    expect([...(inner.data as Float32Array)]).toEqual([3, 4, 0, 0, 9, 10, 0, 0]);
  });

  it('copies a scalar', async () => {
    const scalar = { name: 'x', dtype: 'float32', dims: [], data: Float32Array.of(3) } as const;
    const copy = await cutOut(wholePart(scalar), false, noSpare);
    expect(copy).toEqual(scalar);
    expect(copy.data).not.toBe(scalar.data);
  });
});

describe('sizes that a GPU has run', () => {
  it('are used again for at most twice as many rows', () => {
    const warm = new WarmSizes();
    expect([32, 32, 20, 16, 15, 40, 3, 2, 1].map((rows) => warm.fit(rows))).toEqual([
      32, 32, 32, 32, 15, 40, 3, 3, 1,
    ]);
  });
});
