/** Cutting parts out: torch's golden tables, the round trip along any axis, and moved, used and padded buffers. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gather } from '../../../src/onnx/tensor/gather.js';
import { chunkSizes } from '../../../src/extract/replicas/split.js';
import { cutOut, wholePart, type TensorPart } from '../../../src/onnx/tensor/tensor-part.js';
import type { NamedTensor, Tensor, TensorData } from '../../../src/onnx/tensor/tensor.js';
import { casesOf, plain, tensorsOf } from '../../support/parallel-cases.js';

const bytesOf = (data: TensorData): Buffer => Buffer.from((data as Float32Array).buffer);
const noSpare = (): undefined => undefined;

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
    // Faster than comparing element by element.
    expect(Buffer.compare(bytesOf(part.data), bytesOf(data))).toBe(0);
    // Not `toBe`: it would compare the elements too, to say more.
    expect(part.data === data).toBe(false);
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
