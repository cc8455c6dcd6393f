import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readStateDict } from '../../../../src/learn/parameters/dicts/read-state-dict.js';
import { writeStateDict } from '../../../../src/learn/parameters/dicts/write-state-dict.js';
import { createData, type DType, type Tensor } from '../../../../src/onnx/tensor/tensor.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { readAll, safetensorsBytes, stateFixture } from '../../../support/states.js';

const scratch = scratchFolder();
let count = 0;
const place = (): string => join(scratch, `${count++}.safetensors`);

const DTYPES = [
  'float32',
  'float64',
  'float16',
  'int8',
  'int16',
  'int32',
  'int64',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
  'bool',
] as const satisfies readonly DType[];

const tensors = fc
  .tuple(fc.constantFrom(...DTYPES), fc.array(fc.nat(4), { maxLength: 4 }), fc.nat(255))
  .map(([dtype, dims, seed]): Tensor => {
    const data = createData(
      dtype,
      dims.reduce((product, size) => product * size, 1),
    );
    const bytes = new Uint8Array((data as Uint8Array).buffer);
    for (let i = 0; i < bytes.length; i++)
      bytes[i] = dtype === 'bool' ? (seed + i) % 2 : (seed + 37 * i) % 251;
    return { dtype, dims, data } as Tensor;
  });
const keys = fc.string({ unit: 'grapheme' }).filter((key) => key !== '__metadata__');

describe('writeStateDict', () => {
  it('writes what readStateDict reads: any keys, dtypes and dims, in order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(keys, tensors), { minLength: 1, selector: ([key]) => key }),
        async (items) => {
          const path = place();
          await writeStateDict(path, new Map(items));
          expect(await readAll(await readStateDict(path))).toEqual(items);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('aligns the data of every tensor', async () => {
    const path = place();
    const flag = { dtype: 'bool', dims: [3], data: new Uint8Array(3) };
    const wide = { dtype: 'float64', dims: [2], data: new Float64Array(2) };
    await writeStateDict(path, new Map(Object.entries({ flag, wide })));
    const bytes = readFileSync(path);
    const length = Number(bytes.readBigUInt64LE());
    const header = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Record<
      string,
      { data_offsets: number[] }
    >;
    expect(length % 8).toBe(0);
    expect(header).toMatchObject({ wide: { data_offsets: [0, 16] }, flag: { data_offsets: [16, 19] } });
    expect([...(await readStateDict(path)).keys()]).toEqual(['flag', 'wide']);
  });

  it.each(['bfloat16.safetensors', 'metadata.safetensors', 'strided.pth', 'half.pth'])(
    'copies %s with its stored dtypes, bytes and texts',
    async (name) => {
      const path = place();
      const state = await readStateDict(stateFixture(`formats/${name}`, scratch));
      await writeStateDict(path, state);
      const copy = await readStateDict(path);
      expect([...copy.keys()]).toEqual([...state.keys()]);
      expect(copy.metadata).toEqual(
        Object.keys(state.metadata).length > 0 ? state.metadata : { format: 'pt' },
      );
      for (const [key, tensor] of state) {
        expect(copy.get(key)).toMatchObject({ dtype: tensor.dtype, dims: tensor.dims });
        expect(await copy.get(key)!.bytes(), key).toEqual(await tensor.bytes());
      }
    },
  );

  it('copies 8-bit floats', async () => {
    const path = place();
    const header = { w: { dtype: 'F8_E5M2', shape: [3], data_offsets: [0, 3] } };
    writeFileSync(path, safetensorsBytes(header, new Uint8Array(3).fill(7)));
    await writeStateDict(path, await readStateDict(path), { overwrite: true });
    expect(await (await readStateDict(path)).get('w')!.bytes()).toEqual(new Uint8Array(3).fill(7));
  });

  it('replaces a file only with overwrite, the one that it reads included', async () => {
    const path = place();
    await writeStateDict(path, new Map([['a', { dtype: 'int8', dims: [2], data: Int8Array.of(1, 2) }]]));
    const state = await readStateDict(path);
    await expect(writeStateDict(path, state)).rejects.toMatchObject({
      code: 'OUTPUT_EXISTS',
      details: { path },
    });
    await writeStateDict(path, state, { overwrite: true });
    expect(await readAll(await readStateDict(path))).toEqual([
      ['a', { dtype: 'int8', dims: [2], data: Int8Array.of(1, 2) }],
    ]);
    await expect(state.get('a')!.read()).rejects.toMatchObject({ code: 'MODEL_CHANGED' });
  });

  it.each<[string, unknown, string]>([
    ['no Map', { a: 1 }, 'OPTION_INVALID'],
    ['an empty Map', new Map(), 'OPTION_INVALID'],
    [
      'the key of metadata',
      new Map([['__metadata__', { dims: [], data: Float32Array.of(1) }]]),
      'OPTION_INVALID',
    ],
    ['a number', new Map([['a', 1]]), 'INPUT_MISMATCH'],
    ['texts', new Map([['a', { dims: [1], data: ['a'] }]]), 'INPUT_MISMATCH'],
    ['too few elements', new Map([['a', { dims: [3], data: Float32Array.of(1) }]]), 'INPUT_MISMATCH'],
  ])('refuses %s, and writes nothing', async (_what, state, code) => {
    const path = place();
    await expect(writeStateDict(path, state as never)).rejects.toMatchObject({ code });
    expect(existsSync(path)).toBe(false);
  });

  it('leaves nothing behind if a tensor cannot be read', async () => {
    const source = place();
    await writeStateDict(source, new Map([['a', { dims: [1], data: Float32Array.of(1) }]]));
    const state = await readStateDict(source);
    writeFileSync(source, 'something else');
    const path = place();
    await expect(writeStateDict(path, state)).rejects.toMatchObject({ code: 'MODEL_CHANGED' });
    expect(readdirSync(scratch).filter((name) => name.startsWith(path) || name.endsWith('.partial'))).toEqual(
      [],
    );
  });
});
