/** Joining outputs: torch's golden tables, and what torch mixes up silently is refused. */
import { describe, expect, it } from 'vitest';
import { gather } from '../../../src/onnx/tensor/gather.js';
import type { NamedTensor } from '../../../src/onnx/tensor/tensor.js';
import { casesOf, leavesOf, plain, tensorsOf, type Case } from '../../support/parallel-cases.js';

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
      message: 'output "" cannot be joined: some devices returned it and others did not',
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
